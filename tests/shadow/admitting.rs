//! What clients see of a dominion that is not enforced: nothing.

use tower_policy_queue::QueueHints;

use crate::hall::{Hall, chat, hinted, model, pinned, with};

const SHADOW: &str =
    "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 2, enforce: false}]";

#[test]
fn everybody_runs_at_once_and_the_decisions_are_counted() {
    let mut hall = Hall::new(&chat("", SHADOW));
    for id in ["1", "2", "3", "4", "5"] {
        hall.arrive(id);
        assert_eq!(hall.state(id), "running");
    }
    assert_eq!(hall.counts(), (5, 0));
    let would_be = hall.would_be();
    assert_eq!(
        (would_be.in_use, would_be.waiting, would_be.slots),
        (1, 2, Some(1))
    );
    let totals = &would_be.classes[0].totals;
    assert_eq!((totals.arrived, totals.admitted), (5, 1));
    assert_eq!(totals.rejected.get("queue_full"), 2);
    let snapshot = hall.handle.snapshot();
    let real = &snapshot.dominions[0];
    assert!(!real.enforced);
    assert_eq!(real.classes[0].totals.admitted, 5);
    assert_eq!(real.classes[0].totals.rejected.total(), 0);
}

#[test]
fn nobody_is_turned_away_whatever_the_reason() {
    let policy = format!(
        "
{}
headers: {{raw_isl_tokens: x-tokens}}
endpoints: [{{id: w, dominion: pool, models: [m]}}, {{id: v, dominion: pool, models: [n]}}]
",
        chat(
            "request_queue_limit_per_worker: 0, prefill_busy_threshold: 0, max_queue_wait_ms: 1",
            "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject, enforce: false}]"
        )
    );
    let mut hall = Hall::new(&policy);
    hall.handle.drain_worker("v", true).unwrap();
    hall.send("1", with("1", &[("x-tokens", "100")]));
    hall.send("busy", with("busy", &[("x-tokens", "100")]));
    hall.send("unreadable", with("unreadable", &[("x-tokens", "many")]));
    hall.send("unknown", hinted("unknown", pinned("nobody")));
    hall.send("drained", hinted("drained", pinned("v")));
    hall.send("model", hinted("model", model("n")));
    let ids = ["1", "busy", "unreadable", "unknown", "drained", "model"];
    assert_eq!(hall.states(ids), ["running"; 6]);
    assert_eq!(hall.worker("drained"), None, "no worker may serve it");
    let would_be = hall.would_be();
    let rejected = &would_be.classes[0].totals.rejected;
    assert_eq!(rejected.get("queue_rejected"), 1);
    assert_eq!(rejected.get("no_eligible_worker"), 2);
    let unplaced = hall.handle.snapshot().unplaced;
    assert_eq!(unplaced.rejected.get("invalid_queue_header"), 1);
    assert_eq!(unplaced.rejected.get("no_eligible_worker"), 1);
}

#[test]
fn what_cannot_be_read_is_let_past_only_where_it_belongs_to_what_is_not_enforced() {
    let policy = format!(
        "
{}
headers: {{raw_isl_tokens: x-tokens, model: x-model}}
endpoints: [{{id: w, dominion: trial, models: [m]}}, {{id: v, dominion: pool, models: [n]}}]
",
        chat(
            "",
            "
dominions:
  - {id: trial, max_concurrency: 1, enforce: false}
  - {id: pool, max_concurrency: 1}
default_dominion: trial"
        )
    );
    let mut hall = Hall::new(&policy);
    hall.send("default", with("default", &[("x-tokens", "many")]));
    hall.send("m", with("m", &[("x-tokens", "many"), ("x-model", "m")]));
    hall.send("n", with("n", &[("x-tokens", "many"), ("x-model", "n")]));
    hall.send(
        "twice",
        with("twice", &[("x-model", "m"), ("x-model", "n")]),
    );
    assert_eq!(
        hall.states(["default", "m", "n", "twice"]),
        [
            "running",
            "running",
            "invalid_queue_header",
            "invalid_queue_header"
        ]
    );

    for (model, state) in [("m", "running"), ("n", "no_eligible_worker")] {
        let id = format!("{model}-by-nobody");
        let hints = QueueHints {
            model: Some(model.to_owned()),
            ..pinned("nobody")
        };
        hall.send(&id, hinted(&id, hints));
        assert_eq!(hall.state(&id), state, "{id}");
    }

    let enforced_by_default = policy.replace("default_dominion: trial", "default_dominion: pool");
    let mut hall = Hall::new(&enforced_by_default);
    hall.send("default", with("default", &[("x-tokens", "many")]));
    hall.send("m", with("m", &[("x-tokens", "many"), ("x-model", "m")]));
    assert_eq!(
        hall.states(["default", "m"]),
        ["invalid_queue_header", "running"]
    );
}

#[tokio::test(start_paused = true)]
async fn no_response_is_cut_off_for_its_time() {
    let mut hall = Hall::new(&chat("max_hold_ms: 10", SHADOW));
    hall.arrive("1");
    let (mut reading, feed) = hall.stream("1");
    hall.arrive("2");
    hall.pass(100).await;
    feed.data("token");
    assert!(matches!(
        reading.poll_frame(),
        std::task::Poll::Ready(Some(Ok(_)))
    ));
    let would_be = hall.would_be();
    let totals = &would_be.classes[0].totals;
    assert_eq!(
        (totals.revoked, totals.rejected.get("hold_timeout")),
        (1, 1),
        "one after the other, the first one after its head"
    );
    assert_eq!(would_be.in_use, 0);
}

#[test]
fn workers_are_chosen_by_their_real_load() {
    let mut hall = Hall::new(&format!(
        "{}\nendpoints: [{{id: w, dominion: pool}}, {{id: v, dominion: pool}}]",
        chat("prefill_busy_threshold: 0", SHADOW)
    ));
    let mut chosen = Vec::new();
    for id in ["1", "2", "3", "4"] {
        let hints = tower_policy_queue::QueueHints {
            raw_isl_tokens: Some(10),
            ..Default::default()
        };
        hall.send(id, hinted(id, hints));
        chosen.push(hall.worker(id).unwrap());
    }
    assert_eq!(chosen, ["w", "v", "w", "v"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_is_played_late_in_the_shadow() {
    let mut hall = Hall::new(&chat("", SHADOW));
    hall.arrive("1");
    hall.arrive("2");
    hall.pass(100).await;
    hall.finish("1");
    hall.finish("2");
    assert_eq!(hall.counts(), (0, 0), "both are over");
    assert_eq!(hall.would_be().in_use, 1, "the second would be at work now");
    hall.pass(99).await;
    assert_eq!(hall.would_be().classes[0].totals.completed, 1);
    hall.pass(1).await;
    let would_be = hall.would_be();
    let totals = &would_be.classes[0].totals;
    assert_eq!((would_be.in_use, totals.completed), (0, 2));
    assert_eq!((totals.waited, totals.wait_ms), (1, 100));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_would_have_left_the_queue() {
    let mut hall = Hall::new(&chat("", SHADOW));
    for id in ["1", "2", "3"] {
        hall.arrive(id);
    }
    hall.leave("2");
    assert_eq!(hall.would_be().waiting, 1);
    hall.leave("1");
    let would_be = hall.would_be();
    assert_eq!((would_be.in_use, would_be.waiting), (1, 0));
    let totals = &would_be.classes[0].totals;
    assert_eq!((totals.cancelled.queued, totals.cancelled.running), (1, 1));
}

#[test]
fn limits_of_a_shadow_are_changed_in_the_shadow() {
    let mut hall = Hall::new(&chat("", SHADOW));
    for id in ["1", "2", "3"] {
        hall.arrive(id);
    }
    hall.handle.set_max_concurrency("pool", Some(2)).unwrap();
    let would_be = hall.would_be();
    assert_eq!((would_be.in_use, would_be.waiting), (2, 1));
    hall.handle.set_max_queue("pool", 1).unwrap();
    hall.arrive("4");
    let totals = &hall.would_be().classes[0].totals;
    assert_eq!(totals.rejected.get("queue_full"), 1);
    assert_eq!(hall.state("4"), "running");
}

#[test]
fn enforcing_it_later_counts_who_runs_and_ending_it_lets_everybody_go() {
    let enforced = chat(
        "",
        "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 2}]",
    );
    let mut hall = Hall::new(&chat("", SHADOW));
    hall.arrive("1");
    hall.arrive("2");
    hall.handle.reload(enforced.parse().unwrap()).unwrap();
    hall.arrive("3");
    assert_eq!(hall.state("3"), "waiting");
    hall.finish("1");
    assert_eq!(
        hall.state("3"),
        "waiting",
        "one of two slots too many is back"
    );
    hall.arrive("4");
    let shadow = chat("prefill_busy_threshold: 0", SHADOW);
    hall.handle.reload(shadow.parse().unwrap()).unwrap();
    assert_eq!(hall.states(["3", "4"]), ["running", "running"]);
    hall.arrive("5");
    assert_eq!(
        hall.would_be().in_use,
        1,
        "those from before are not followed"
    );
    for id in ["2", "3", "4", "5"] {
        hall.finish(id);
    }
    assert_eq!(hall.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn classes_of_a_shadow_move_with_a_reload() {
    let mut hall = Hall::new(&chat("", SHADOW));
    for id in ["1", "2", "3"] {
        hall.arrive(id);
    }
    let other = format!(
        "
default_policy_family: new
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes: [{{name: new, policy_family: new, cache_bucket: any, quantum: 1}}]
{SHADOW}
"
    );
    hall.handle.reload(other.parse().unwrap()).unwrap();
    let would_be = hall.would_be();
    assert_eq!((would_be.in_use, would_be.classes[0].queued), (1, 2));
    for id in ["1", "2", "3"] {
        hall.finish(id);
    }
    let would_be = hall.would_be();
    assert_eq!(would_be.former_classes.completed, 1);
    assert_eq!(would_be.classes[0].totals.completed, 2);
    assert_eq!((would_be.in_use, would_be.waiting), (0, 0));
}

#[test]
fn a_dominion_that_is_closed_lets_nobody_in_though_it_is_not_enforced() {
    let mut hall = Hall::new(&chat("", SHADOW));
    hall.arrive("1");
    hall.handle.close_dominion("pool").unwrap();
    hall.arrive("2");
    assert_eq!(hall.states(["1", "2"]), ["running", "queue_unavailable"]);
    hall.finish("1");
    assert_eq!(hall.counts(), (0, 0));
}

#[test]
fn whoever_waits_in_a_shadow_would_be_turned_away_when_it_is_closed() {
    let mut hall = Hall::new(&chat("", SHADOW));
    hall.arrive("1");
    hall.arrive("2");
    hall.handle.close_dominion("pool").unwrap();
    hall.arrive("3");
    let would_be = hall.would_be();
    assert!(would_be.closed);
    assert_eq!((would_be.in_use, would_be.waiting), (1, 0));
    let totals = &would_be.classes[0].totals;
    assert_eq!(totals.arrived, 3);
    assert_eq!(totals.rejected.get("queue_unavailable"), 2);
    assert_eq!(hall.states(["1", "2"]), ["running", "running"]);
    hall.finish("1");
    hall.finish("2");
    assert_eq!(hall.would_be().in_use, 0);
}

#[test]
fn a_closed_dominion_that_is_not_enforced_any_more_would_be_closed_too() {
    let enforced = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
    let hall = Hall::new(&chat("", enforced));
    hall.handle.close_dominion("pool").unwrap();
    let shadow = chat("", SHADOW);
    hall.handle.reload(shadow.parse().unwrap()).unwrap();
    assert!(hall.would_be().closed);
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_a_shadow_would_hold_its_slot_for_as_long_as_its_class_says_by_then() {
    let policy = |hold| chat(&format!("max_hold_ms: {hold}"), SHADOW);
    let mut hall = Hall::new(&policy(1000));
    hall.arrive("1");
    hall.arrive("2");
    hall.handle.reload(policy(50).parse().unwrap()).unwrap();
    hall.finish("1");
    assert_eq!(hall.would_be().in_use, 1);
    hall.pass(49).await;
    assert_eq!(hall.would_be().in_use, 1);
    hall.pass(1).await;
    let would_be = hall.would_be();
    assert_eq!(would_be.in_use, 0);
    let rejected = &would_be.classes[0].totals.rejected;
    assert_eq!(rejected.get("hold_timeout"), 1);
    assert_eq!(hall.state("2"), "running");
}

#[tokio::test(start_paused = true)]
async fn whether_a_head_had_come_when_its_hold_was_over_is_told_by_the_time_in_the_shadow() {
    let mut hall = Hall::new(&chat("max_hold_ms: 60", SHADOW));
    for id in ["1", "2", "3"] {
        hall.arrive(id);
    }
    hall.pass(20).await;
    // Its head alone.
    let (_reading, _feed) = hall.stream("1");
    hall.pass(20).await;
    hall.finish("3");
    hall.pass(40).await;
    // It came 80 milliseconds after its request, which has had its slot for 20 by then.
    let (mut reading, feed) = hall.stream("2");
    feed.data("token");
    assert!(reading.poll_frame().is_ready());
    hall.pass(40).await;
    let would_be = hall.would_be();
    let totals = &would_be.classes[0].totals;
    assert_eq!(totals.revoked, 1, "the first one");
    assert_eq!(totals.rejected.get("hold_timeout"), 1, "the second one");
    assert_eq!(would_be.in_use, 1, "the third one");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_unloaded_ends_its_requests_in_the_shadow_too() {
    let mut hall = Hall::new(&chat(
        "",
        "
dominions: [{id: gpu, kind: local, max_concurrency: 1, enforce: false}]
local_models: [{id: big, dominion: gpu}, {id: small, dominion: gpu}]
profiles: [{name: day, models: [big, small]}, {name: night, models: [small]}]
",
    ));
    hall.send("1", hinted("1", pinned("big")));
    hall.send("2", hinted("2", pinned("small")));
    assert_eq!(hall.states(["1", "2"]), ["running", "running"]);
    assert_eq!((hall.would_be().in_use, hall.would_be().waiting), (1, 1));
    hall.handle.switch_profile("night").unwrap();
    hall.settle();
    assert_eq!(hall.states(["1", "2"]), ["profile_switch", "running"]);
    assert_eq!((hall.would_be().in_use, hall.would_be().waiting), (1, 0));
    hall.finish("2");
    assert_eq!(hall.would_be().in_use, 0);
}
