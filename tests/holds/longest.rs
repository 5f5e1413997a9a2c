//! `max_hold_ms`: a request that has its slot for too long loses it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use crate::{
    common::{
        bell::Polled,
        desk::get,
        feed::{FedBody, Feed},
        json,
    },
    hall::{Hall, ONE_SLOT, chat},
    read, revoked,
};

fn hall() -> Hall {
    Hall::new(&chat("max_hold_ms: 100", ONE_SLOT))
}

/// That there is exactly one slot, which is free.
fn assert_one_free_slot(mut hall: Hall) {
    assert_eq!(hall.counts(), (0, 0), "nothing is left behind");
    hall.arrive("probe");
    hall.arrive("second-probe");
    assert_eq!(
        hall.states(["probe", "second-probe"]),
        ["running", "waiting"],
        "there is one slot, neither lost nor doubled"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_head_by_then_is_answered_with_hold_timeout() {
    let mut hall = hall();
    hall.arrive("slow");
    hall.arrive("next");
    hall.pass(99).await;
    assert_eq!(hall.states(["slow", "next"]), ["running", "waiting"]);
    hall.pass(1).await;
    assert_eq!(hall.states(["slow", "next"]), ["hold_timeout", "running"]);
    let response = hall.response("slow");
    assert_eq!(response.status(), 504);
    let body = json(response.into_body());
    assert_eq!(body["error"]["type"], "server_error");
    assert_eq!(body["error"]["code"], "hold_timeout");
    hall.finish("next");
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn the_inner_future_is_dropped_before_its_slot_is_given_on() {
    let mut hall = hall();
    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let (handle, at_drop) = (hall.handle.clone(), Arc::clone(&seen));
    hall.scene
        .desk
        .probe_next(move || at_drop.store(handle.usage().waiting, Ordering::SeqCst));
    hall.arrive("slow");
    hall.arrive("next");
    // So that it is the slow one itself that ends its hold.
    hall.freeze("next");
    hall.pass(100).await;
    assert_eq!(hall.state("slow"), "hold_timeout");
    assert_eq!(
        seen.load(Ordering::SeqCst),
        1,
        "the next one still waited when the inner future was dropped"
    );
    assert_eq!(hall.counts(), (1, 0), "and does no more");
}

#[tokio::test(start_paused = true)]
async fn an_inner_service_that_is_not_ready_by_then_is_a_timeout_too() {
    let mut hall = hall();
    hall.scene.desk.shut();
    hall.arrive("slow");
    hall.pass(100).await;
    assert_eq!(hall.state("slow"), "hold_timeout");
    assert!(hall.scene.desk.started().is_empty());
    hall.scene.desk.open();
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_under_way_ends_with_an_error() {
    let mut hall = hall();
    hall.arrive("slow");
    hall.arrive("next");
    hall.freeze("next");
    hall.pass(50).await;

    let seen = Arc::new(AtomicUsize::new(usize::MAX));
    let (handle, at_drop) = (hall.handle.clone(), Arc::clone(&seen));
    let feed = Feed::new();
    let probe = move || at_drop.store(handle.usage().waiting, Ordering::SeqCst);
    let mut body = hall.answer("slow", feed.probed_body(probe));
    feed.data("token");
    assert_eq!(read(&mut body), "token");
    hall.pass(49).await;
    assert!(body.poll_frame().is_pending(), "its time is not over");
    let rings = body.rings();
    hall.pass(1).await;
    assert_eq!(body.rings(), rings + 1, "it is woken for it");
    assert_eq!(hall.counts(), (1, 1));
    let error = revoked(&mut body);
    assert!(!error.is_profile_switch());
    assert!(error.to_string().contains("longer than its class may"));
    assert_eq!(
        seen.load(Ordering::SeqCst),
        1,
        "the inner body was dropped before its slot was given on"
    );
    assert_eq!(
        hall.counts(),
        (1, 0),
        "while what is left of the body is still there"
    );
    hall.thaw("next");
    assert_eq!(hall.state("next"), "running");
    hall.finish("next");
    drop(body);
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn frames_that_are_ready_do_not_stretch_a_hold() {
    let mut hall = hall();
    hall.arrive("slow");
    let (mut body, feed) = hall.stream("slow");
    hall.pass(100).await;
    feed.data("token");
    revoked(&mut body);
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn the_hold_counts_from_the_grant_and_not_from_the_arrival() {
    let mut hall = hall();
    hall.arrive("first");
    hall.arrive("second");
    hall.pass(80).await;
    hall.finish("first");
    assert_eq!(hall.state("second"), "running");
    hall.pass(99).await;
    assert_eq!(hall.state("second"), "running");
    hall.pass(1).await;
    assert_eq!(hall.state("second"), "hold_timeout");
}

#[tokio::test(start_paused = true)]
async fn who_is_done_in_time_never_hears_of_it() {
    let mut hall = hall();
    hall.arrive("quick");
    let (mut body, feed) = hall.stream("quick");
    hall.pass(99).await;
    feed.last_data("all of it");
    assert_eq!(read(&mut body), "all of it");
    assert_eq!(hall.counts(), (0, 0));
    hall.arrive("other");
    hall.pass(50).await;
    assert!(body.poll_frame().is_pending(), "it has no slot to lose");
    assert_eq!(hall.state("other"), "running", "nor does it take another's");
    hall.pass(50).await;
    assert_eq!(hall.state("other"), "hold_timeout", "whose time is its own");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_gives_its_slots_back_earlier_does_not_cut_bodies_off() {
    for fields in [
        "max_hold_ms: 100, hold_until: headers",
        "max_hold_ms: 100, hold_until: first_byte",
    ] {
        let mut hall = Hall::new(&chat(fields, ONE_SLOT));
        hall.arrive("first");
        let (mut body, feed) = hall.stream("first");
        feed.data("token");
        assert_eq!(read(&mut body), "token");
        hall.pass(1000).await;
        feed.data("token");
        assert_eq!(read(&mut body), "token", "{fields}");
        feed.end();
        assert!(matches!(body.poll_frame(), Poll::Ready(None)));
        assert_one_free_slot(hall);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_with_the_longest_hold_too() {
    let mut hall = hall();
    hall.arrive("upgraded");
    let admission = hall.scene.desk.admission("upgraded");
    let hold = admission.hold();
    drop(hall.answer("upgraded", FedBody::empty()));
    hall.arrive("next");
    hall.pass(99).await;
    assert_eq!(hall.state("next"), "waiting", "the hold keeps the slot");
    hall.pass(1).await;
    assert_eq!(
        hall.state("next"),
        "running",
        "for as long as the class may"
    );
    assert!(!hold.is_empty(), "it was not when it was taken");
    assert!(admission.hold().is_empty(), "a hold taken past that is");
    let clone = hold.clone();
    drop((hold, clone));
    assert_eq!(
        hall.counts(),
        (1, 0),
        "and gives back nothing that is another's"
    );
    hall.finish("next");
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn a_hold_beside_a_body_does_not_keep_the_slot_past_the_longest_hold() {
    let mut hall = hall();
    hall.arrive("slow");
    let hold = hall.scene.desk.admission("slow").hold();
    let (mut body, _feed) = hall.stream("slow");
    hall.call("next", get("next"));
    hall.pass(100).await;
    revoked(&mut body);
    assert_eq!(hall.counts(), (1, 0), "the next one has the slot");
    drop(body);
    drop(hold);
    assert_eq!(hall.counts(), (1, 0));
    hall.thaw("next");
    assert_eq!(hall.state("next"), "running");
}

#[tokio::test(start_paused = true)]
async fn the_answer_and_the_end_of_the_hold_in_one_instant_end_one_way() {
    let mut hall = hall();
    hall.arrive("slow");
    hall.freeze("slow");
    hall.pass(100).await;
    let feed = Feed::new();
    hall.scene.desk.answer("slow", feed.body());
    hall.thaw("slow");
    assert_eq!(hall.state("slow"), "hold_timeout", "it came too late");
    assert_one_free_slot(hall);

    let mut hall = self::hall();
    hall.arrive("slow");
    let (mut body, feed) = hall.stream("slow");
    hall.pass(100).await;
    feed.end();
    revoked(&mut body);
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_granted_and_not_yet_polled_has_its_whole_hold_before_it() {
    let mut hall = hall();
    hall.arrive("first");
    hall.arrive("second");
    hall.freeze("second");
    hall.finish("first");
    hall.pass(60).await;
    hall.thaw("second");
    hall.pass(99).await;
    assert_eq!(
        hall.state("second"),
        "running",
        "it could do nothing before it was polled"
    );
    hall.pass(1).await;
    assert_eq!(hall.state("second"), "hold_timeout");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_body_whose_hold_is_over_gives_its_slot_back() {
    let mut hall = hall();
    hall.arrive("slow");
    let feed = Feed::new();
    let body = hall.answer(
        "slow",
        feed.probed_body(|| panic!("in the drop of the body")),
    );
    hall.arrive("next");
    hall.freeze("next");
    hall.pass(100).await;
    let mut body = std::panic::AssertUnwindSafe(body);
    let panicked = std::panic::catch_unwind(move || {
        let _ = Polled::poll_frame(&mut body);
    });
    assert!(panicked.is_err());
    hall.thaw("next");
    assert_eq!(hall.state("next"), "running");
    hall.finish("next");
    assert_one_free_slot(hall);
}
