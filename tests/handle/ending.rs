//! An orderly end: who waits is answered, who runs finishes, and then it is over.

use std::task::Poll;

use serde_json::json;
use tower_policy_queue::{PolicyQueueHandle, Usage};

use crate::{
    common::{
        bell::Polled,
        desk::{Scene, get},
        json,
    },
    hall::{Hall, ONE_SLOT, chat, hinted, pinned},
};

const TWO: &str = "
dominions: [{id: a, max_concurrency: 1}, {id: b, max_concurrency: 1}]
endpoints: [{id: wa, dominion: a}, {id: wb, dominion: b}, {id: free}]
default_dominion: a
";

fn two() -> Hall {
    let mut hall = Hall::new(TWO);
    for (id, worker) in [
        ("a1", "wa"),
        ("a2", "wa"),
        ("b1", "wb"),
        ("b2", "wb"),
        ("free", "free"),
    ] {
        hall.send(id, hinted(id, pinned(worker)));
    }
    hall
}

fn drained(handle: &PolicyQueueHandle) -> Polled<impl Future<Output = ()> + use<>> {
    let handle = handle.clone();
    Polled::new(async move { handle.drained().await })
}

#[test]
fn a_closed_dominion_answers_who_waits_and_who_comes_and_lets_who_runs_finish() {
    let mut hall = two();
    hall.handle.close_dominion("a").unwrap();
    hall.send("a3", hinted("a3", pinned("wa")));
    assert_eq!(
        hall.states(["a1", "a2", "a3"]),
        ["running", "queue_unavailable", "queue_unavailable"]
    );
    for id in ["a2", "a3"] {
        let response = hall.response(id);
        assert_eq!(response.status(), 503);
        let error = &json(response.into_body())["error"];
        assert_eq!(error["type"], "server_error");
        assert_eq!(error["param"], json!(null));
    }
    hall.send("b3", hinted("b3", pinned("wb")));
    assert_eq!(
        hall.states(["b1", "b2", "b3"]),
        ["running", "waiting", "waiting"],
        "the other dominion is none the wiser"
    );
    let (mut body, feed) = hall.stream("a1");
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    hall.send("a4", hinted("a4", pinned("wa")));
    assert_eq!(
        hall.state("a4"),
        "queue_unavailable",
        "with a free slot, too"
    );
    hall.finish("b1");
    assert_eq!(hall.state("b2"), "running");
}

#[test]
fn a_shutdown_closes_all_queues_that_of_no_dominion_too() {
    let mut hall = two();
    hall.handle.shutdown();
    for (id, worker) in [("a3", "wa"), ("b3", "wb"), ("free2", "free")] {
        hall.send(id, hinted(id, pinned(worker)));
        assert_eq!(hall.state(id), "queue_unavailable");
    }
    assert_eq!(hall.states(["a1", "b1", "free"]), ["running"; 3]);
    assert_eq!(hall.states(["a2", "b2"]), ["queue_unavailable"; 2]);
    assert_eq!(hall.counts(), (3, 0));
    hall.handle.shutdown();
    assert_eq!(hall.counts(), (3, 0), "twice is once");
}

#[test]
fn a_hundred_who_wait_are_all_woken_and_those_not_polled_yet_learn_it_too() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("running");
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for id in &ids[..99] {
        hall.arrive(id);
    }
    hall.call(&ids[99], get(&ids[99]));
    hall.handle.shutdown();
    for id in &ids[..99] {
        assert_eq!(hall.rings(id), 1, "each is woken, once");
    }
    hall.thaw(&ids[99]);
    for id in &ids {
        assert_eq!(hall.state(id), "queue_unavailable");
    }
}

#[test]
fn drained_resolves_exactly_when_the_last_one_is_done() {
    let mut hall = two();
    hall.handle.shutdown();
    let mut drained = drained(&hall.handle);
    assert!(drained.poll().is_pending());
    for id in ["b1", "free"] {
        hall.finish(id);
        assert!(drained.poll().is_pending(), "after {id}");
    }
    let (mut body, feed) = hall.stream("a1");
    assert!(drained.poll().is_pending(), "a head is no end");
    let rings = drained.rings();
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    assert!(drained.poll().is_pending());
    feed.end();
    assert_eq!(drained.rings(), rings, "nothing has changed yet");
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    assert!(drained.rings() > rings, "the last one wakes it");
    assert!(drained.poll().is_ready());
}

#[test]
fn the_last_one_of_a_dominion_wakes_who_waits_for_the_drain_and_no_other_does() {
    let mut hall = Hall::new("dominions: [{id: pool, max_concurrency: 2}]");
    hall.arrive("1");
    hall.arrive("2");
    let mut drained = drained(&hall.handle);
    assert!(drained.poll().is_pending());
    hall.finish("1");
    assert_eq!(drained.rings(), 0, "the other one runs");
    hall.finish("2");
    assert_eq!(drained.rings(), 1);
    assert!(drained.poll().is_ready());
}

#[test]
fn drained_waits_for_the_pools_in_whatever_order_they_end() {
    let orders = [
        ["a1", "b1", "free"],
        ["a1", "free", "b1"],
        ["b1", "a1", "free"],
        ["b1", "free", "a1"],
        ["free", "a1", "b1"],
        ["free", "b1", "a1"],
    ];
    for order in orders {
        let mut hall = two();
        hall.handle.shutdown();
        let mut drained = drained(&hall.handle);
        let mut seen = usize::MAX;
        for id in order {
            // As an executor does: only when it was woken.
            if drained.rings() != seen {
                seen = drained.rings();
                assert!(drained.poll().is_pending(), "{order:?}, before {id}");
            }
            hall.finish(id);
        }
        while drained.rings() != seen {
            seen = drained.rings();
            if drained.poll().is_ready() {
                seen = usize::MAX;
                break;
            }
        }
        assert_eq!(seen, usize::MAX, "{order:?}: it was woken and is done");
    }
}

#[test]
fn drained_resolves_at_once_when_nothing_is_in_flight() {
    let hall = Hall::new(TWO);
    assert!(drained(&hall.handle).poll().is_ready());
    let empty = Hall::new("");
    assert!(drained(&empty.handle).poll().is_ready());
}

#[test]
fn several_may_wait_for_the_drain() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("running");
    hall.handle.shutdown();
    let mut waiting: Vec<_> = (0..3).map(|_| drained(&hall.handle)).collect();
    for drained in &mut waiting {
        assert!(drained.poll().is_pending());
        assert!(drained.poll().is_pending());
    }
    drop(waiting.remove(1));
    hall.finish("running");
    for drained in &mut waiting {
        assert!(
            drained.rings() > 0 && drained.poll().is_ready(),
            "each of them"
        );
    }
}

#[test]
fn a_granted_request_that_was_not_polled_yet_is_in_flight() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("first");
    hall.arrive("second");
    hall.arrive("third");
    hall.freeze("second");
    hall.finish("first");
    hall.handle.shutdown();
    assert_eq!(hall.state("third"), "queue_unavailable");
    let mut drained = drained(&hall.handle);
    assert!(drained.poll().is_pending(), "the second one has its grant");
    hall.thaw("second");
    assert_eq!(hall.state("second"), "running", "and keeps it");
    assert!(drained.poll().is_pending());
    hall.finish("second");
    assert!(drained.rings() > 0 && drained.poll().is_ready());
}

#[test]
fn a_granted_request_that_goes_away_unpolled_ends_the_drain() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("first");
    hall.arrive("second");
    hall.freeze("second");
    hall.finish("first");
    hall.handle.shutdown();
    let mut drained = drained(&hall.handle);
    assert!(drained.poll().is_pending());
    hall.leave("second");
    assert!(drained.rings() > 0 && drained.poll().is_ready());
}

#[test]
fn a_hold_is_in_flight_until_it_is_dropped() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("upgraded");
    let hold = hall.scene.desk.admission("upgraded").hold();
    hall.finish("upgraded");
    hall.handle.shutdown();
    let mut drained = drained(&hall.handle);
    assert!(drained.poll().is_pending());
    drop(hold);
    assert!(drained.poll().is_ready());
}

#[test]
fn without_a_shutdown_drained_waits_for_a_moment_without_requests() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("first");
    hall.arrive("second");
    let mut drained = drained(&hall.handle);
    assert!(drained.poll().is_pending());
    hall.finish("first");
    assert!(drained.poll().is_pending(), "the second one has the slot");
    hall.finish("second");
    assert!(drained.poll().is_ready());
    hall.arrive("third");
    assert_eq!(hall.state("third"), "running", "it ends nothing");
}

#[test]
fn drained_looks_again_at_dominions_that_were_idle_when_it_looked_first() {
    let mut hall = Hall::new(TWO);
    hall.send("b1", hinted("b1", pinned("wb")));
    let mut drained = drained(&hall.handle);
    assert!(drained.poll().is_pending());
    hall.send("a1", hinted("a1", pinned("wa")));
    hall.finish("b1");
    assert!(drained.rings() > 0);
    assert!(
        drained.poll().is_pending(),
        "meanwhile one came to the other dominion"
    );
    hall.finish("a1");
    assert!(drained.poll().is_ready());
}

#[test]
fn with_the_layer_and_its_services_gone_the_handle_still_drains() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("running");
    let (body, _feed) = hall.stream("running");
    let Hall { scene, handle, .. } = hall;
    let Scene { layer, service, .. } = scene;
    drop((layer, service));
    let mut drained = drained(&handle);
    assert!(drained.poll().is_pending());
    drop(body);
    assert!(drained.poll().is_ready());
    assert_eq!(handle.usage(), Usage::default());
}

#[test]
fn a_closed_dominion_takes_no_requests_whatever_else_is_changed() {
    let mut hall = two();
    let handle = hall.handle.clone();
    handle.close_dominion("a").unwrap();
    handle.set_max_concurrency("a", None).unwrap();
    handle.set_max_queue("a", 9).unwrap();
    handle.set_overloaded("wa", true).unwrap();
    handle.set_overloaded("wa", false).unwrap();
    hall.send("a3", hinted("a3", pinned("wa")));
    assert_eq!(hall.state("a3"), "queue_unavailable");
    handle.close_dominion("a").unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_is_drained_when_the_last_hold_is_over_though_nobody_reads() {
    let mut hall = Hall::new(&chat("max_hold_ms: 1000", ONE_SLOT));
    hall.arrive("stalled");
    let (stalled, _feed) = hall.stream("stalled");
    hall.handle.shutdown();
    let mut ended = drained(&hall.handle);
    assert!(ended.poll().is_pending());
    hall.pass(999).await;
    assert!(ended.poll().is_pending(), "its hold is not over yet");
    hall.pass(2).await;
    assert!(
        ended.poll().is_ready(),
        "the slot is taken back, though its body was never polled"
    );
    drop(stalled);
}

#[tokio::test(start_paused = true)]
async fn it_is_drained_when_a_hold_is_over_that_began_after_the_shutdown() {
    let mut hall = Hall::new(&chat("max_hold_ms: 1000", ONE_SLOT));
    hall.arrive("first");
    hall.arrive("stalled");
    hall.freeze("stalled");
    hall.finish("first");
    hall.handle.shutdown();
    let mut ended = drained(&hall.handle);
    assert!(ended.poll().is_pending(), "one was granted");
    let rings = ended.rings();
    hall.thaw("stalled");
    let (stalled, _feed) = hall.stream("stalled");
    assert!(ended.rings() > rings, "it learns how long it may take");
    assert!(ended.poll().is_pending());
    let rings = ended.rings();
    hall.pass(1001).await;
    assert!(ended.rings() > rings && ended.poll().is_ready());
    drop(stalled);
}

#[test]
fn a_wait_for_the_end_that_is_given_up_leaves_nothing_behind() {
    struct Unheard;
    impl std::task::Wake for Unheard {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("runs");
    let task = std::sync::Arc::new(Unheard);
    let waker = std::sync::Arc::clone(&task).into();
    let cx = &mut std::task::Context::from_waker(&waker);
    for _ in 0..3 {
        let mut drained = Box::pin(hall.handle.drained());
        assert!(drained.as_mut().poll(cx).is_pending());
        assert!(drained.as_mut().poll(cx).is_pending());
        assert_eq!(std::sync::Arc::strong_count(&task), 3);
    }
    assert_eq!(std::sync::Arc::strong_count(&task), 2, "the test's own");
}
