//! Workers keep what they have in hand by their ids.

use tower::{Layer, Service};
use tower_policy_queue::{CachedTokens, PolicyQueueLayer, QueueHints, WorkerSpec};

use crate::{
    common::{
        bell::Polled,
        desk::{Desk, policy},
    },
    hall::{Hall, chat, model, pinned},
};

fn workers(list: &str) -> String {
    chat(
        "prefill_busy_threshold: 5",
        &format!(
            "dominions: [{{id: pool, kind: remote, max_concurrency: 9}}]\nendpoints: [{list}]"
        ),
    )
}

impl Hall {
    fn on(&mut self, id: &str, worker: &str) {
        let hints = tower_policy_queue::QueueHints {
            raw_isl_tokens: Some(10),
            ..pinned(worker)
        };
        self.send(id, crate::hall::hinted(id, hints));
    }
}

#[test]
fn a_worker_stays_busy_with_what_it_has() {
    let mut hall = Hall::new(&workers("{id: w, dominion: pool}, {id: v, dominion: pool}"));
    hall.on("1", "w");
    hall.on("2", "w");
    assert_eq!(hall.states(["1", "2"]), ["running", "waiting"]);
    hall.reload(&workers("{id: u, dominion: pool}, {id: w, dominion: pool}"));
    assert_eq!(hall.state("2"), "waiting");
    let (reading, feed) = hall.stream("1");
    drop((reading, feed));
    assert_eq!(hall.state("2"), "running");
}

#[test]
fn who_waits_for_a_worker_that_is_gone_is_told_so_and_who_runs_on_it_finishes() {
    let mut hall = Hall::new(&workers("{id: w, dominion: pool}, {id: v, dominion: pool}"));
    hall.on("1", "w");
    hall.on("2", "w");
    hall.reload(&workers("{id: v, dominion: pool}"));
    assert_eq!(hall.states(["1", "2"]), ["running", "no_eligible_worker"]);
    hall.on("3", "w");
    assert_eq!(hall.state("3"), "no_eligible_worker");
    hall.finish("1");
    assert_eq!(hall.counts(), (0, 0));
}

#[test]
fn conditions_stay_and_a_new_threshold_holds_at_once() {
    let mut hall = Hall::new(&workers("{id: w, dominion: pool}, {id: v, dominion: pool}"));
    hall.handle.drain_worker("v", true).unwrap();
    hall.on("1", "w");
    hall.on("2", "w");
    hall.reload(&chat(
        "prefill_busy_threshold: 50",
        "dominions: [{id: pool, kind: remote, max_concurrency: 9}]\nendpoints: [{id: v, dominion: pool}, {id: w, dominion: pool}]",
    ));
    assert_eq!(hall.state("2"), "running");
    hall.on("3", "v");
    assert_eq!(hall.state("3"), "no_eligible_worker", "it is drained");
}

#[test]
fn models_go_to_the_workers_that_serve_them_now() {
    let mut hall = Hall::new(&workers(
        "{id: w, dominion: pool, models: [m]}, {id: v, dominion: pool, models: [n]}",
    ));
    hall.reload(&workers(
        "{id: w, dominion: pool, models: [n]}, {id: v, dominion: pool, models: [m]}",
    ));
    for (id, wanted, worker) in [("1", "m", "v"), ("2", "n", "w")] {
        hall.send(id, crate::hall::hinted(id, model(wanted)));
        assert_eq!(hall.worker(id).as_deref(), Some(worker));
    }
}

#[test]
fn an_added_worker_stays_unless_the_policy_has_its_id() {
    let mut hall = Hall::new(&workers("{id: w, dominion: pool}"));
    for id in ["x", "y"] {
        let spec = WorkerSpec::new(id).dominion("pool").models(["w"]);
        hall.handle.add_worker(spec).unwrap();
    }
    hall.on("1", "x");
    hall.reload(&workers(
        "{id: w, dominion: pool}, {id: y, dominion: pool, models: [other]}",
    ));
    hall.on("2", "x");
    assert_eq!(
        hall.states(["1", "2"]),
        ["running", "waiting"],
        "x is there, and busy"
    );
    hall.send("3", crate::hall::hinted("3", model("other")));
    assert_eq!(
        hall.worker("3").as_deref(),
        Some("y"),
        "as the policy has it"
    );
    hall.reload(&workers("{id: w, dominion: pool}"));
    hall.on("4", "y");
    assert_eq!(
        hall.state("4"),
        "no_eligible_worker",
        "y is the policy's by now"
    );
    assert_eq!(hall.state("2"), "waiting");
}

#[test]
fn an_added_worker_goes_where_the_policy_has_its_model_or_not_its_dominion() {
    let two = |list: &str| {
        let dominions = "[{id: pool, kind: remote}, {id: other, kind: remote}]";
        chat("", &format!("dominions: {dominions}\nendpoints: [{list}]"))
    };
    let mut hall = Hall::new(&two("{id: w, dominion: pool}, {id: v, dominion: other}"));
    for (id, dominion) in [("x", "pool"), ("y", "other")] {
        let spec = WorkerSpec::new(id).dominion(dominion).models(["m"]);
        // One model is not served from two dominions.
        assert_eq!(hall.handle.add_worker(spec).is_ok(), id == "x");
    }
    hall.reload(&two(
        "{id: w, dominion: pool}, {id: v, dominion: other, models: [m]}",
    ));
    hall.on("1", "x");
    assert_eq!(
        hall.state("1"),
        "no_eligible_worker",
        "v serves its model by now"
    );
    hall.send("2", crate::hall::hinted("2", model("m")));
    assert_eq!(hall.worker("2").as_deref(), Some("v"));

    hall.handle
        .add_worker(WorkerSpec::new("z").dominion("other"))
        .unwrap();
    hall.reload(&workers("{id: w, dominion: pool}"));
    hall.on("3", "z");
    assert_eq!(
        hall.state("3"),
        "no_eligible_worker",
        "its dominion is no more"
    );
}

#[test]
fn a_removed_worker_is_back_if_the_policy_has_it() {
    let yaml = workers("{id: w, dominion: pool}, {id: v, dominion: pool}");
    let mut hall = Hall::new(&yaml);
    hall.handle.remove_worker("w").unwrap();
    hall.reload(&yaml);
    hall.on("1", "w");
    assert_eq!(hall.state("1"), "running");
}

#[test]
fn a_worker_that_two_reloads_take_away_and_bring_back_has_what_it_still_serves() {
    let (both, one) = (
        workers("{id: w, dominion: pool}, {id: v, dominion: pool}"),
        workers("{id: v, dominion: pool}"),
    );
    let mut hall = Hall::new(&both);
    hall.on("1", "w");
    hall.reload(&one);
    hall.reload(&both);
    hall.on("2", "w");
    assert_eq!(hall.state("2"), "waiting", "it is busy with the first");
    hall.finish("1");
    assert_eq!(hall.state("2"), "running");
}

#[test]
fn a_dominion_that_loses_its_last_worker_has_none_to_choose_from() {
    let mut hall = Hall::new(&workers("{id: w, dominion: pool}"));
    hall.reload(&workers(""));
    hall.arrive("1");
    assert_eq!(hall.state("1"), "running");
    assert_eq!(hall.worker("1"), None);
    hall.reload(&workers("{id: w, dominion: pool}"));
    hall.arrive("2");
    assert_eq!(hall.worker("2").as_deref(), Some("w"));
}

#[test]
fn the_first_worker_that_is_added_where_a_reload_left_none_has_all_requests() {
    let mut hall = Hall::new(&workers("{id: w, dominion: pool}"));
    hall.reload(&workers(""));
    hall.handle
        .add_worker(WorkerSpec::new("v").dominion("pool"))
        .unwrap();
    for id in ["1", "2"] {
        hall.arrive(id);
        assert_eq!(hall.worker(id).as_deref(), Some("v"));
    }
}

fn listed(workers: &[&str], hints: QueueHints) -> QueueHints {
    QueueHints {
        allowed_workers: Some(workers.iter().map(|id| (*id).to_owned()).collect()),
        ..hints
    }
}

/// One slot, and two workers that serve these models.
fn two(first: &str, second: &str) -> String {
    format!(
        "
dominions: [{{id: pool, max_concurrency: 1}}]
endpoints:
  - {{id: w1, dominion: pool, models: [{first}]}}
  - {{id: w2, dominion: pool, models: [{second}]}}
"
    )
}

#[test]
fn an_allow_list_lets_nobody_go_where_its_model_is_served_no_more() {
    let mut hall = Hall::new(&two("m", "m"));
    hall.arrive("holder");
    for (id, list) in [("one", &["w2"][..]), ("both", &["w1", "w2"])] {
        hall.send(id, crate::hall::hinted(id, listed(list, model("m"))));
    }
    hall.reload(&two("m", "x"));
    assert_eq!(
        hall.states(["one", "both"]),
        ["no_eligible_worker", "waiting"]
    );
    hall.finish("holder");
    assert_eq!(hall.worker("both").as_deref(), Some("w1"));
}

#[test]
fn the_first_worker_of_a_model_is_for_who_may_go_to_it() {
    let mut hall = Hall::new(&two("x", "y"));
    hall.arrive("holder");
    let hints = listed(&["w1"], model("m"));
    hall.send("listed", crate::hall::hinted("listed", hints));
    let spec = WorkerSpec::new("own").dominion("pool").models(["m"]);
    hall.handle.add_worker(spec).unwrap();
    assert_eq!(hall.state("listed"), "no_eligible_worker");
}

/// Says that `w2` knows all of the prompt.
#[derive(Clone)]
struct Known;

impl CachedTokens for Known {
    fn cached_tokens<B>(&self, _: &http::Request<B>, worker: &str) -> u64 {
        u64::from(worker == "w2") * 50
    }
}

#[test]
fn a_worker_is_not_preferred_where_its_model_is_served_no_more() {
    for (before, after) in [(two("m", "m"), Some(two("m", "x"))), (two("x", "y"), None)] {
        let layer = PolicyQueueLayer::new(policy(&before)).cached_tokens(Known);
        let desk = Desk::default();
        let mut service = layer.layer(desk.clone());
        let mut call = |id: &str| {
            let mut call = Polled::new(service.call(crate::hall::hinted(id, model("m"))));
            assert!(call.poll().is_pending());
            call
        };
        let holder = call("holder");
        let mut waits = call("waits");
        let expected = match after {
            Some(after) => {
                layer.handle().reload(policy(&after)).unwrap();
                "w1"
            }
            None => {
                let spec = WorkerSpec::new("w3").dominion("pool").models(["m"]);
                layer.handle().add_worker(spec).unwrap();
                "w3"
            }
        };
        drop(holder);
        assert!(waits.poll().is_pending());
        assert_eq!(desk.admission("waits").worker(), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_let_go_as_nothing_is_enforced_any_more_keeps_its_slot() {
    let enforce = |enforce: bool| {
        let dominion = format!("dominions: [{{id: pool, max_concurrency: 1, enforce: {enforce}}}]");
        chat("max_hold_ms: 100", &dominion)
    };
    let mut hall = Hall::new(&enforce(true));
    hall.arrive("first");
    hall.arrive("waits");
    hall.reload(&enforce(false));
    hall.pass(101).await;
    assert_eq!(
        hall.states(["first", "waits"]),
        ["hold_timeout", "running"],
        "each by the policy it was granted under"
    );
}

#[test]
fn what_would_be_knows_who_is_drained() {
    let enforce = |enforce: bool| {
        two("m", "m").replace("{id: pool", &format!("{{enforce: {enforce}, id: pool"))
    };
    let mut hall = Hall::new(&enforce(true));
    for worker in ["w1", "w2"] {
        hall.handle.drain_worker(worker, true).unwrap();
    }
    hall.reload(&enforce(false));
    hall.arrive("r");
    let snapshot = hall.handle.snapshot();
    let would_be = snapshot.dominions[0].would_be.as_ref().unwrap();
    assert!(would_be.workers.iter().all(|worker| worker.draining));
    assert_eq!(would_be.classes[0].totals.rejected.total(), 1);
}
