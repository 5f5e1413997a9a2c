//! A hold ends on time though nobody polls its body: one of those who wait keeps the time.

use tower_policy_queue::QueueHints;

use crate::{
    common::{
        desk::{Reading, get},
        feed::Feed,
    },
    hall::{Hall, ONE_SLOT, chat, hinted, pinned, wait_ms},
    read, revoked,
};

/// A response whose reader has stopped reading.
type Stalled = (Reading, Feed);

fn stalled(hall: &mut Hall, id: &str) -> Stalled {
    let (mut body, feed) = hall.stream(id);
    feed.data("token");
    assert_eq!(read(&mut body), "token");
    feed.data("unread");
    (body, feed)
}

fn one_slot() -> Hall {
    Hall::new(&chat("max_hold_ms: 100", ONE_SLOT))
}

fn slots(slots: usize) -> Hall {
    let dominion = format!("dominions: [{{id: pool, kind: remote, max_concurrency: {slots}}}]");
    Hall::new(&chat("max_hold_ms: 100", &dominion))
}

#[tokio::test(start_paused = true)]
async fn the_slot_of_a_body_that_nobody_polls_goes_to_a_waiter_at_its_deadline() {
    let mut hall = one_slot();
    hall.arrive("stalled");
    let (mut body, _feed) = stalled(&mut hall, "stalled");
    let rings = body.rings();
    for id in ["a", "b", "c"] {
        hall.arrive(id);
    }
    hall.pass(99).await;
    assert_eq!(hall.states(["a", "b", "c"]), ["waiting"; 3]);
    hall.pass(1).await;
    assert_eq!(
        hall.states(["a", "b", "c"]),
        ["running", "waiting", "waiting"]
    );
    assert_eq!(hall.counts(), (1, 2));
    assert!(
        body.rings() > rings,
        "the body is told, should anybody listen"
    );
    assert!(!revoked(&mut body).is_profile_switch());
    drop(body);
    assert_eq!(hall.counts(), (1, 2), "it had nothing left to give back");
}

#[tokio::test(start_paused = true)]
async fn each_next_slot_is_taken_back_in_its_turn() {
    let mut hall = one_slot();
    hall.arrive("0");
    let mut bodies = vec![stalled(&mut hall, "0")];
    for n in 1..5 {
        hall.arrive(&n.to_string());
    }
    for n in 1..5 {
        hall.pass(100).await;
        let id = n.to_string();
        assert_eq!(hall.state(&id), "running", "after {n} holds");
        bodies.push(stalled(&mut hall, &id));
    }
    assert_eq!(hall.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_goes_on_wakes_few_who_do_not_get_it() {
    let rings = |fields: &str| {
        let mut hall = Hall::new(&chat(fields, ONE_SLOT));
        let ids: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        for id in &ids {
            hall.arrive(id);
        }
        for pair in ids.windows(2) {
            hall.finish(&pair[0]);
            assert_eq!(hall.state(&pair[1]), "running");
        }
        ids.iter().map(|id| hall.rings(id)).sum::<usize>()
    };
    let (with, without) = (rings("max_hold_ms: 100"), rings(""));
    assert!(with <= without + 2, "to keep the time: {with}, {without}");
}

#[tokio::test(start_paused = true)]
async fn another_keeps_the_time_when_the_timekeeper_leaves() {
    let mut hall = one_slot();
    hall.arrive("stalled");
    let _stalled = stalled(&mut hall, "stalled");
    for id in ["a", "b", "c"] {
        hall.arrive(id);
    }
    hall.pass(50).await;
    hall.leave("a");
    hall.pass(20).await;
    hall.leave("b");
    hall.pass(30).await;
    assert_eq!(hall.state("c"), "running");
}

#[tokio::test(start_paused = true)]
async fn another_keeps_the_time_when_the_timekeeper_times_out() {
    let mut hall = one_slot();
    hall.arrive("stalled");
    let _stalled = stalled(&mut hall, "stalled");
    hall.send("a", hinted("a", wait_ms(50)));
    hall.arrive("b");
    hall.pass(50).await;
    assert_eq!(hall.states(["a", "b"]), ["queue_timeout", "waiting"]);
    hall.pass(50).await;
    assert_eq!(hall.state("b"), "running");
}

#[tokio::test(start_paused = true)]
async fn another_keeps_the_time_when_the_timekeeper_is_granted_by_a_release() {
    let mut hall = slots(2);
    hall.arrive("stalled");
    let _stalled = stalled(&mut hall, "stalled");
    hall.arrive("quick");
    hall.arrive("a");
    hall.arrive("b");
    hall.pass(50).await;
    hall.finish("quick");
    assert_eq!(hall.states(["a", "b"]), ["running", "waiting"]);
    hall.pass(50).await;
    assert_eq!(
        hall.state("b"),
        "running",
        "at the end of the stalled one's hold"
    );
}

#[tokio::test(start_paused = true)]
async fn another_keeps_the_time_while_the_granted_timekeeper_is_not_polled() {
    let mut hall = slots(2);
    hall.arrive("stalled");
    let _stalled = stalled(&mut hall, "stalled");
    hall.arrive("quick");
    hall.arrive("a");
    hall.arrive("b");
    hall.freeze("a");
    hall.finish("quick");
    hall.pass(100).await;
    assert_eq!(hall.state("b"), "running");
}

#[tokio::test(start_paused = true)]
async fn another_keeps_the_time_when_the_timekeeper_is_granted_by_a_larger_limit() {
    let mut hall = one_slot();
    hall.arrive("stalled");
    let _stalled = stalled(&mut hall, "stalled");
    hall.arrive("a");
    hall.arrive("b");
    hall.pass(50).await;
    hall.handle.set_max_concurrency("pool", Some(2)).unwrap();
    assert_eq!(hall.states(["a", "b"]), ["running", "waiting"]);
    hall.pass(50).await;
    assert_eq!(hall.state("b"), "running");
}

#[tokio::test(start_paused = true)]
async fn another_keeps_the_time_when_the_timekeeper_is_granted_by_a_first_byte() {
    let yaml = chat(
        "max_hold_ms: 100, prefill_busy_threshold: 10",
        "
dominions: [{id: pool, kind: remote, max_concurrency: 3}]
endpoints: [{id: w, dominion: pool}]
",
    );
    let sized = |id: &str, tokens: u64| {
        let hints = QueueHints {
            raw_isl_tokens: Some(tokens),
            ..QueueHints::default()
        };
        hinted(id, hints)
    };
    let mut hall = Hall::new(&yaml);
    hall.send("other", sized("other", 1));
    let _other = stalled(&mut hall, "other");
    hall.pass(10).await;
    hall.send("first", sized("first", 50));
    let (mut body, feed) = hall.stream("first");
    hall.send("a", sized("a", 1));
    hall.send("b", sized("b", 1));
    assert_eq!(
        hall.states(["a", "b"]),
        ["waiting", "waiting"],
        "the worker is busy"
    );
    feed.data("token");
    assert_eq!(read(&mut body), "token");
    assert_eq!(hall.states(["a", "b"]), ["running", "waiting"]);
    hall.pass(90).await;
    assert_eq!(
        hall.state("b"),
        "running",
        "at the end of the other one's hold"
    );
}

#[tokio::test(start_paused = true)]
async fn another_keeps_the_time_when_the_timekeeper_is_refused() {
    let yaml = chat(
        "max_hold_ms: 100",
        "
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints: [{id: v, dominion: pool}, {id: w, dominion: pool}]
",
    );
    let mut hall = Hall::new(&yaml);
    hall.send("stalled", hinted("stalled", pinned("w")));
    let _stalled = stalled(&mut hall, "stalled");
    hall.send("a", hinted("a", pinned("v")));
    hall.send("b", hinted("b", pinned("w")));
    hall.pass(50).await;
    hall.handle.remove_worker("v").unwrap();
    assert_eq!(hall.states(["a", "b"]), ["no_eligible_worker", "waiting"]);
    hall.pass(50).await;
    assert_eq!(hall.state("b"), "running");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_begins_later_and_ends_earlier_is_noticed() {
    let yaml = format!(
        "{}\n  - {{name: brief, quantum: 100, max_hold_ms: 20}}\n{}",
        chat("max_hold_ms: 1000, prefill_busy_threshold: 0", "").trim_end(),
        "
dominions: [{id: pool, kind: remote, max_concurrency: 2}]
endpoints: [{id: v, dominion: pool}, {id: w, dominion: pool}]
"
    );
    let sized = |id: &str| {
        let hints = QueueHints {
            raw_isl_tokens: Some(10),
            ..pinned("v")
        };
        hinted(id, hints)
    };
    let brief = |id: &str| {
        let hints = QueueHints {
            policy: Some("brief".to_owned()),
            ..pinned("w")
        };
        hinted(id, hints)
    };
    let mut hall = Hall::new(&yaml);
    hall.send("long", sized("long"));
    hall.send("timekeeper", sized("timekeeper"));
    assert_eq!(hall.state("timekeeper"), "waiting", "its worker is busy");
    hall.pass(10).await;
    hall.send("brief", brief("brief"));
    let _brief = stalled(&mut hall, "brief");
    hall.send("next", brief("next"));
    hall.pass(19).await;
    assert_eq!(hall.state("next"), "waiting");
    hall.pass(1).await;
    assert_eq!(
        hall.state("next"),
        "running",
        "who sleeps until the long hold's end was told of the brief one"
    );
    assert_eq!(hall.state("timekeeper"), "waiting");
}

#[tokio::test(start_paused = true)]
async fn the_first_hold_that_can_end_finds_a_timekeeper_among_those_who_wait_already() {
    let yaml = format!(
        "{}\n  - {{name: brief, quantum: 100, max_hold_ms: 20}}\n{ONE_SLOT}",
        chat("", "").trim_end()
    );
    let brief = QueueHints {
        policy: Some("brief".to_owned()),
        ..QueueHints::default()
    };
    let mut hall = Hall::new(&yaml);
    hall.arrive("endless");
    hall.send("brief", hinted("brief", brief));
    hall.pass(100).await;
    hall.finish("endless");
    let _brief = stalled(&mut hall, "brief");
    hall.arrive("a");
    hall.pass(20).await;
    assert_eq!(hall.state("a"), "running");

    hall.arrive("b");
    hall.pass(1000).await;
    assert_eq!(
        hall.state("b"),
        "waiting",
        "a class without a longest hold has none"
    );
}

#[tokio::test(start_paused = true)]
async fn where_nobody_waits_the_next_arrival_gets_the_slot() {
    for policy in ["queue", "reject"] {
        let dominion = format!("dominions: [{{id: pool, max_concurrency: 1, policy: {policy}}}]");
        let mut hall = Hall::new(&chat("max_hold_ms: 100", &dominion));
        hall.arrive("stalled");
        let (mut body, _feed) = stalled(&mut hall, "stalled");
        hall.pass(1000).await;
        hall.arrive("next");
        assert_eq!(hall.state("next"), "running", "policy: {policy}");
        assert_eq!(hall.counts(), (1, 0));
        revoked(&mut body);
        drop(body);
        assert_eq!(hall.counts(), (1, 0), "policy: {policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_arrival_does_not_overtake_who_waits_for_a_slot_that_is_due() {
    let mut hall = one_slot();
    hall.arrive("stalled");
    let _stalled = stalled(&mut hall, "stalled");
    hall.arrive("first");
    hall.freeze("first");
    hall.pass(100).await;
    hall.arrive("second");
    hall.thaw("first");
    assert_eq!(hall.states(["first", "second"]), ["running", "waiting"]);
}

#[tokio::test(start_paused = true)]
async fn several_holds_that_end_together_free_all_their_slots() {
    let mut hall = slots(3);
    let mut bodies = Vec::new();
    for id in ["x", "y", "z"] {
        hall.arrive(id);
        bodies.push(stalled(&mut hall, id));
    }
    for id in ["a", "b", "c", "d"] {
        hall.arrive(id);
    }
    hall.pass(100).await;
    assert_eq!(
        hall.states(["a", "b", "c", "d"]),
        ["running", "running", "running", "waiting"]
    );
    for (body, _) in &mut bodies {
        revoked(body);
    }
    drop(bodies);
    assert_eq!(hall.counts(), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_head_whose_future_nobody_polls_loses_its_slot_too() {
    let mut hall = one_slot();
    hall.arrive("stalled");
    hall.freeze("stalled");
    hall.arrive("next");
    hall.pass(100).await;
    assert_eq!(hall.state("next"), "running");
    hall.thaw("stalled");
    assert_eq!(hall.state("stalled"), "hold_timeout");
    assert_eq!(hall.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_timekeeper_that_was_never_polled_keeps_nobody_from_being_served() {
    let mut hall = one_slot();
    hall.arrive("stalled");
    let (body, _feed) = stalled(&mut hall, "stalled");
    hall.call("unpolled", get("unpolled"));
    drop(body);
    hall.thaw("unpolled");
    assert_eq!(hall.state("unpolled"), "running");
}

#[tokio::test(start_paused = true)]
async fn who_asks_keeps_the_time_instead_of_one_that_was_never_polled() {
    let mut hall = slots(2);
    hall.arrive("stalled");
    let _stalled = stalled(&mut hall, "stalled");
    hall.arrive("other");
    let _other = stalled(&mut hall, "other");
    hall.call("unpolled", get("unpolled"));
    hall.arrive("next");
    assert_eq!(hall.state("next"), "waiting");
    hall.pass(100).await;
    assert_eq!(hall.state("next"), "running");
    hall.thaw("unpolled");
    assert_eq!(hall.state("unpolled"), "running");
}
