//! Requests on their parent's slot that may not go to its worker: each counts at the one it goes to.

use std::task::Poll;

use http::Request;
use tower_policy_queue::{QueueHints, SlotRevoked, WorkerSnapshot};

use crate::{
    child,
    common::{NoBody, desk::Reading, feed::Feed},
    end,
    hall::{Hall, chat, hinted, model, pinned},
};

/// A request of one that runs, with so many tokens, for this model or worker.
fn nested(hall: &Hall, id: &str, tokens: u64, hints: QueueHints) -> Request<NoBody> {
    let mut request = child(hall, "parent", id);
    request.extensions_mut().insert(QueueHints {
        raw_isl_tokens: Some(tokens),
        ..hints
    });
    request
}

impl Hall {
    fn nest(&mut self, id: &str, tokens: u64, hints: QueueHints) {
        let request = nested(self, id, tokens, hints);
        self.send(id, request);
    }

    fn worker_at(&self, id: &str) -> Option<WorkerSnapshot> {
        let dominion = self.handle.snapshot().dominions.swap_remove(0);
        let mut workers = dominion.workers.into_iter();
        workers.find(|worker| worker.id.as_deref() == Some(id))
    }

    /// A worker's requests, and its prefill in tokens.
    fn load(&self, id: &str) -> (u64, u64) {
        let worker = self.worker_at(id).unwrap();
        (worker.in_flight, worker.prefill_tokens)
    }
}

fn token(body: &mut Reading, feed: &Feed) {
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
}

const WORKERS: &str = "
dominions: [{id: pool, max_concurrency: 2}]
endpoints:
  - {id: w1, dominion: pool, models: [m1]}
  - {id: w2, dominion: pool, models: [m2]}
  - {id: w3, dominion: pool, models: [m2]}
";

/// A parent at `w1`.
fn hall(fields: &str) -> Hall {
    let mut hall = Hall::new(&chat(fields, WORKERS));
    let hints = QueueHints {
        raw_isl_tokens: Some(7),
        ..model("m1")
    };
    hall.send("parent", hinted("parent", hints));
    assert_eq!(hall.load("w1"), (1, 7));
    hall
}

#[test]
fn a_child_runs_on_its_parent_s_worker_only_if_it_may_go_there() {
    let mut hall = Hall::new(
        "
dominions: [{id: pool, max_concurrency: 1}]
endpoints:
  - {id: w1, dominion: pool, models: [m, m1], base_url: http://one}
  - {id: w2, dominion: pool, models: [m, m2], base_url: http://two}
  - {id: w3, dominion: pool, models: [m2]}
",
    );
    let listed = |workers: &[&str], hints: QueueHints| QueueHints {
        allowed_workers: Some(workers.iter().map(|id| (*id).to_owned()).collect()),
        ..hints
    };
    hall.send("parent", hinted("parent", model("m1")));
    for (id, hints, worker) in [
        ("anything", QueueHints::default(), Some("w1")),
        ("its-models", model("m"), Some("w1")),
        ("another-model", model("m2"), Some("w2")),
        ("pinned", pinned("w3"), Some("w3")),
        ("listed", listed(&["w3", "w1"], model("m")), Some("w1")),
        ("narrowed", listed(&["w2"], model("m")), Some("w2")),
        ("nowhere", listed(&[], model("m")), None),
        ("contradiction", listed(&["w1"], model("m2")), None),
    ] {
        let mut request = child(&hall, "parent", id);
        request.extensions_mut().insert(hints);
        hall.send(id, request);
        if worker.is_none() {
            assert_eq!(hall.state(id), "no_eligible_worker", "{id}");
            continue;
        }
        assert_eq!(hall.worker(id).as_deref(), worker, "{id}");
        let admission = hall.scene.desk.admission(id);
        assert_eq!(admission.endpoint().map(|it| it.id()), worker, "{id}");
    }
    assert_eq!(hall.counts(), (1, 0), "on one slot, all of them");
    hall.handle.drain_worker("w1", true).unwrap();
    let request = child(&hall, "parent", "while-it-drains");
    hall.send("while-it-drains", request);
    let worker = hall.worker("while-it-drains");
    assert_eq!(worker.as_deref(), Some("w1"), "what it has it finishes");
}

#[test]
fn a_child_loads_the_worker_it_goes_to_until_its_first_byte_and_its_end() {
    let mut hall = hall("");
    hall.nest("child", 50, pinned("w2"));
    assert_eq!(hall.load("w2"), (1, 50));
    assert_eq!(hall.load("w1"), (1, 7), "its parent's has nothing of it");
    assert_eq!(hall.counts(), (1, 0), "it takes no slot");
    assert_eq!(hall.handle.usage().prefill_tokens, 57);
    let (mut body, feed) = hall.stream("child");
    assert_eq!(hall.load("w2"), (1, 50), "the head is no byte");
    token(&mut body, &feed);
    assert_eq!(hall.load("w2"), (1, 0));
    token(&mut body, &feed);
    end(&mut body, &feed);
    assert_eq!(hall.load("w2"), (0, 0));
    drop(body);
    assert_eq!(hall.load("w2"), (0, 0), "once");
    assert_eq!(hall.load("w1"), (1, 7));
}

#[test]
fn a_child_s_prefill_ends_with_the_head_where_its_class_says_so() {
    let mut hall = hall("prefill_until: headers");
    hall.nest("child", 50, pinned("w2"));
    let _body = hall.stream("child");
    assert_eq!(hall.load("w2"), (1, 0));
}

#[test]
fn a_child_that_is_dropped_counts_nowhere() {
    let mut hall = hall("");
    let unpolled = nested(&hall, "unpolled", 50, pinned("w2"));
    hall.call("unpolled", unpolled);
    assert_eq!(hall.load("w2"), (1, 50));
    hall.leave("unpolled");
    assert_eq!(hall.load("w2"), (0, 0));
    hall.nest("before-head", 50, pinned("w2"));
    hall.leave("before-head");
    assert_eq!(hall.load("w2"), (0, 0));
    hall.nest("body", 50, pinned("w2"));
    drop(hall.stream("body"));
    assert_eq!(hall.load("w2"), (0, 0));
    hall.nest("outlives", 50, pinned("w2"));
    let (body, _feed) = hall.stream("outlives");
    hall.finish("parent");
    assert_eq!(hall.load("w1"), (1, 0), "the slot is still taken");
    assert_eq!(hall.load("w2"), (1, 50), "by the one that runs on");
    drop(body);
    assert_eq!([hall.load("w1"), hall.load("w2")], [(0, 0); 2]);
    assert_eq!(hall.counts(), (0, 0));
}

#[test]
fn whoever_comes_next_sees_the_load_of_children() {
    let mut hall = hall("");
    let mut at = |id: &str, tokens| {
        hall.nest(id, tokens, model("m2"));
        hall.worker(id).unwrap()
    };
    assert_eq!(at("a", 50), "w2");
    assert_eq!(at("b", 20), "w3");
    assert_eq!(at("c", 20), "w3");
    assert_eq!(at("d", 20), "w3");
    assert_eq!(at("e", 20), "w2");
    hall.send("other", hinted("other", model("m2")));
    assert_eq!(
        hall.worker("other").as_deref(),
        Some("w3"),
        "of 60 tokens, not 70"
    );
}

#[test]
fn a_child_makes_its_worker_busy_and_its_first_byte_lets_the_next_one_go() {
    let mut hall = hall("prefill_busy_threshold: 40");
    hall.nest("child", 50, pinned("w2"));
    hall.send("waits", hinted("waits", pinned("w2")));
    assert_eq!(hall.state("waits"), "waiting");
    let (mut body, feed) = hall.stream("child");
    token(&mut body, &feed);
    assert_eq!(hall.state("waits"), "running");
    hall.nest("again", 50, pinned("w3"));
    hall.finish("waits");
    hall.send("waits-too", hinted("waits-too", pinned("w3")));
    assert_eq!(hall.state("waits-too"), "waiting");
    hall.leave("again");
    assert_eq!(hall.state("waits-too"), "running");
}

#[test]
fn a_worker_that_is_drained_or_removed_has_its_children_until_they_end() {
    let mut hall = hall("");
    hall.nest("drained", 50, pinned("w2"));
    hall.nest("removed", 50, pinned("w3"));
    hall.handle.drain_worker("w2", true).unwrap();
    hall.handle.remove_worker("w3").unwrap();
    assert_eq!(hall.load("w2"), (1, 50));
    assert_eq!(hall.load("w3"), (1, 50));
    assert!(hall.worker_at("w3").unwrap().removed);
    hall.finish("drained");
    hall.finish("removed");
    assert_eq!(hall.load("w2"), (0, 0));
    assert_eq!(hall.worker_at("w3"), None, "it is gone");
}

#[test]
fn a_child_at_a_model_that_is_unloaded_ends_and_its_parent_goes_on() {
    let mut hall = Hall::new(
        "
dominions: [{id: pool, kind: local, max_concurrency: 1}]
local_models: [{id: large, dominion: pool}, {id: small, dominion: pool}]
profiles: [{name: both, models: [large, small]}, {name: one, models: [large]}]
",
    );
    hall.send("parent", hinted("parent", model("large")));
    hall.nest("before-head", 50, model("small"));
    hall.nest("body", 20, model("small"));
    let (mut body, _feed) = hall.stream("body");
    hall.handle.switch_profile("both").unwrap();
    assert_eq!(hall.load("small"), (2, 70));
    hall.handle.switch_profile("one").unwrap();
    assert_eq!(
        hall.load("small"),
        (0, 0),
        "at once, whether they are polled or not"
    );
    assert_eq!(
        hall.states(["before-head", "parent"]),
        ["profile_switch", "running"]
    );
    let Poll::Ready(Some(Err(error))) = body.poll_frame() else {
        panic!("it is cut off");
    };
    let revoked: &SlotRevoked = error.downcast_ref().unwrap();
    assert!(revoked.is_profile_switch());
    drop(body);
    assert_eq!(hall.load("small"), (0, 0), "once");
    assert_eq!(hall.counts(), (1, 0));
    hall.nest("late", 50, model("small"));
    assert_eq!(hall.state("late"), "no_eligible_worker");
    hall.finish("parent");
    assert_eq!(hall.counts(), (0, 0));
}

#[test]
fn a_child_that_no_worker_may_serve_is_turned_away_where_its_dominion_is_enforced() {
    for (a, b, nested) in [
        (true, false, "no_eligible_worker"),
        (false, true, "running"),
    ] {
        let mut hall = Hall::new(&format!(
            "
dominions: [{{id: a, enforce: {a}, max_concurrency: 4}}, {{id: b, enforce: {b}}}]
default_dominion: b
endpoints: [{{id: w1, dominion: a, models: [m]}}, {{id: w2, dominion: a, models: [n]}}]
"
        ));
        hall.send("parent", hinted("parent", pinned("w1")));
        hall.handle.drain_worker("w2", true).unwrap();
        let mut request = child(&hall, "parent", "nested");
        request.extensions_mut().insert(model("n"));
        hall.send("nested", request);
        assert_eq!(
            hall.state("nested"),
            nested,
            "enforced in a: {a}, in b: {b}"
        );
    }
}
