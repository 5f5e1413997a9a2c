//! Workers keep what they have in hand by their ids.

use tower_policy_queue::WorkerSpec;

use crate::hall::{Hall, chat, model, pinned};

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
