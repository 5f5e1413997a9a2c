//! A change of profile: local models that it leaves out lose their requests, and nobody else.

use std::task::Poll;

use tower_policy_queue::{ChangeError, QueueHints, SlotRevoked};

use crate::{
    common::{desk::Reading, json},
    hall::{Hall, hinted, model, pinned},
};

const LOCAL: &str = "
dominions:
  - {id: gpu, kind: local, max_concurrency: 3}
  - {id: cpu, kind: local, max_concurrency: 1}
  - {id: pool, kind: remote, max_concurrency: 1}
local_models:
  - {id: big, dominion: gpu}
  - {id: small, dominion: gpu}
  - {id: slow, dominion: cpu}
  - {id: free}
endpoints: [{id: remote, dominion: pool}]
profiles:
  - {name: day, models: [big, slow]}
  - {name: night, models: [small]}
default_dominion: pool
";

impl Hall {
    fn local() -> Self {
        Self::new(LOCAL)
    }

    fn pin(&mut self, id: &str, worker: &str) {
        self.send(id, hinted(id, pinned(worker)));
    }

    fn switch(&mut self, profile: &str) {
        self.handle.switch_profile(profile).unwrap();
        self.settle();
    }
}

#[track_caller]
fn cut_off(body: &mut Reading) {
    match body.poll_frame() {
        Poll::Ready(Some(Err(error))) => {
            assert_eq!(error.to_string(), "request cancelled for profile switch");
            let revoked: &SlotRevoked = error.downcast_ref().unwrap();
            assert!(revoked.is_profile_switch());
        }
        other => panic!("it should be cut off, not {other:?}"),
    }
    assert!(matches!(body.poll_frame(), Poll::Ready(None)), "once");
}

#[test]
fn until_the_first_switch_all_local_models_are_loaded() {
    let mut hall = Hall::local();
    for worker in ["big", "small", "slow", "free"] {
        hall.pin(worker, worker);
        assert_eq!(hall.state(worker), "running");
    }
}

#[test]
fn who_waits_for_a_model_that_is_unloaded_is_told_so() {
    let mut hall = Hall::local();
    for n in ["0", "1", "2"] {
        hall.pin(n, "small");
    }
    hall.pin("waits-for-big", "big");
    hall.send("by-model", hinted("by-model", model("big")));
    hall.pin("waits-for-small", "small");
    let either = QueueHints {
        allowed_workers: Some(vec!["big".to_owned(), "small".to_owned()]),
        ..model("small")
    };
    hall.send("listed", hinted("listed", either));
    hall.switch("night");
    assert_eq!(hall.states(["0", "1", "2"]), ["running"; 3]);
    assert_eq!(
        hall.states(["waits-for-big", "by-model"]),
        ["profile_switch"; 2]
    );
    assert_eq!(hall.states(["waits-for-small", "listed"]), ["waiting"; 2]);
    let response = hall.response("waits-for-big");
    assert_eq!(response.status(), 503);
    let body = json(response.into_body());
    assert_eq!(
        body["error"]["message"],
        "request cancelled for profile switch"
    );
    assert_eq!(body["error"]["type"], "server_error");
    assert_eq!(hall.counts(), (3, 2));
}

#[test]
fn who_could_go_to_a_model_that_stays_goes_on_waiting_for_it() {
    let mut hall = Hall::local();
    for n in ["0", "1", "2"] {
        hall.pin(n, "small");
    }
    // Without a model, any worker of the dominion will do.
    let scene = hall.scene.bound_to("gpu");
    let bound = std::mem::replace(&mut hall.scene, scene);
    hall.arrive("any");
    assert_eq!(hall.state("any"), "waiting");
    hall.switch("night");
    assert_eq!(hall.state("any"), "waiting");
    hall.finish("0");
    assert_eq!(hall.worker("any").as_deref(), Some("small"));
    drop(bound);
}

#[test]
fn who_was_granted_and_not_polled_yet_is_told_so_too() {
    let mut hall = Hall::local();
    hall.pin("first", "slow");
    hall.pin("second", "slow");
    hall.pin("third", "slow");
    hall.freeze("second");
    hall.finish("first");
    assert_eq!(hall.counts(), (1, 1));
    hall.switch("night");
    assert_eq!(hall.counts(), (0, 0), "its slot is free at once");
    hall.thaw("second");
    assert_eq!(hall.states(["second", "third"]), ["profile_switch"; 2]);
    assert!(
        !hall.scene.desk.has("second"),
        "it never reached the inner service"
    );
}

#[test]
fn who_arrived_and_was_not_polled_yet_is_told_so_too() {
    let mut hall = Hall::local();
    hall.call("fresh", hinted("fresh", pinned("big")));
    hall.switch("night");
    assert_eq!(hall.counts(), (0, 0));
    hall.thaw("fresh");
    assert_eq!(hall.state("fresh"), "profile_switch");
    assert!(!hall.scene.desk.has("fresh"));
}

#[test]
fn who_runs_without_a_head_is_answered_and_its_inner_future_dropped() {
    let mut hall = Hall::local();
    let (dropped, when_dropped) = (std::sync::Arc::new(()), std::sync::Arc::new(()));
    let alive = std::sync::Arc::downgrade(&when_dropped);
    hall.scene.desk.probe_next(move || drop(when_dropped));
    hall.pin("running", "big");
    assert!(alive.upgrade().is_some());
    hall.switch("night");
    assert_eq!(hall.state("running"), "profile_switch");
    assert!(alive.upgrade().is_none(), "nobody works on it any more");
    assert_eq!(hall.counts(), (0, 0));
    drop(dropped);
}

#[test]
fn a_stream_that_is_under_way_ends_with_an_error() {
    let mut hall = Hall::local();
    hall.pin("running", "big");
    let (mut body, feed) = hall.stream("running");
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    assert!(body.poll_frame().is_pending());
    let rings = body.rings();
    hall.switch("night");
    assert_eq!(body.rings(), rings + 1, "it is woken for it");
    assert_eq!(
        hall.counts(),
        (0, 0),
        "its slot is free, whether it is read or not"
    );
    feed.data("token");
    cut_off(&mut body);
    drop(body);
    for n in ["0", "1", "2", "3"] {
        hall.pin(n, "small");
    }
    assert_eq!(hall.counts(), (3, 1), "given back once");
}

#[test]
fn the_freed_slots_go_to_who_waits_at_once() {
    let mut hall = Hall::local();
    for n in ["0", "1", "2"] {
        hall.pin(n, "big");
    }
    for n in ["a", "b", "c", "d"] {
        hall.pin(n, "small");
    }
    hall.switch("night");
    assert_eq!(hall.states(["0", "1", "2"]), ["profile_switch"; 3]);
    assert_eq!(
        hall.states(["a", "b", "c", "d"]),
        ["running", "running", "running", "waiting"]
    );
}

#[test]
fn nobody_else_is_touched() {
    let mut hall = Hall::local();
    for (id, worker) in [
        ("remote", "remote"),
        ("remote-waits", "remote"),
        ("small", "small"),
        ("slow", "slow"),
        ("free", "free"),
    ] {
        hall.pin(id, worker);
    }
    let (mut body, feed) = hall.stream("small");
    hall.switch("night");
    assert_eq!(
        hall.states(["remote", "remote-waits"]),
        ["running", "waiting"]
    );
    assert_eq!(
        hall.states(["slow", "free"]),
        ["profile_switch", "profile_switch"],
        "in whatever dominion, or in none"
    );
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
}

#[test]
fn a_newcomer_for_an_unloaded_model_has_no_worker_until_it_is_loaded_again() {
    let mut hall = Hall::local();
    hall.switch("night");
    hall.pin("early", "big");
    assert_eq!(hall.state("early"), "no_eligible_worker");
    hall.switch("day");
    hall.pin("late", "big");
    assert_eq!(hall.state("late"), "running");
    hall.pin("small", "small");
    assert_eq!(hall.state("small"), "no_eligible_worker");
}

#[test]
fn switching_there_and_back_leaves_who_came_in_between_in_peace() {
    let mut hall = Hall::local();
    hall.pin("before", "big");
    hall.switch("night");
    hall.pin("between", "small");
    hall.switch("night");
    assert_eq!(
        hall.states(["before", "between"]),
        ["profile_switch", "running"]
    );
    hall.switch("day");
    assert_eq!(hall.state("between"), "profile_switch");
    hall.pin("after", "big");
    hall.switch("day");
    assert_eq!(hall.state("after"), "running");
    hall.finish("after");
    assert_eq!(hall.counts(), (0, 0));
}

#[test]
fn a_hold_on_an_unloaded_model_keeps_no_slot() {
    let mut hall = Hall::local();
    hall.pin("upgraded", "slow");
    let admission = hall.scene.desk.admission("upgraded");
    let hold = admission.hold();
    hall.finish("upgraded");
    assert_eq!(hall.counts(), (1, 0));
    hall.switch("night");
    assert_eq!(hall.counts(), (0, 0));
    assert!(admission.hold().is_empty());
    drop(hold);
    assert_eq!(hall.counts(), (0, 0));
}

#[test]
fn an_unknown_profile_is_refused_and_changes_nothing() {
    let mut hall = Hall::local();
    hall.pin("running", "big");
    let error = hall.handle.switch_profile("noon").unwrap_err();
    assert!(matches!(&error, ChangeError::UnknownProfile { name, .. } if name == "noon"));
    assert!(error.to_string().contains("`noon`"), "{error}");
    assert_eq!(hall.state("running"), "running");
}

#[test]
fn who_may_go_to_a_model_that_is_unloaded_and_one_that_is_gone_is_refused() {
    let mut hall = Hall::new(
        "
dominions: [{id: gpu, kind: local, max_concurrency: 1}]
local_models: [{id: a, dominion: gpu}, {id: b, dominion: gpu}, {id: c, dominion: gpu}]
profiles: [{name: only-a, models: [a]}]
",
    );
    hall.arrive("holder");
    let hints = QueueHints {
        allowed_workers: Some(vec!["b".to_owned(), "c".to_owned()]),
        ..QueueHints::default()
    };
    hall.send("listed", hinted("listed", hints));
    hall.handle.remove_worker("c").unwrap();
    assert_eq!(hall.state("listed"), "waiting");
    hall.handle.switch_profile("only-a").unwrap();
    assert_eq!(hall.state("listed"), "profile_switch");
}
