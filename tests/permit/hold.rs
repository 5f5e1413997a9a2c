//! `Hold`: the slot past the response body.

use std::task::Poll;

use crate::common::{desk::Scene, feed::FedBody};

#[test]
fn a_hold_keeps_the_slot_past_an_empty_body() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let hold = scene.desk.admission("first").hold();
    assert!(!hold.is_empty());
    drop(first.answer(FedBody::empty()));
    drop(first);
    assert!(
        second.waits(),
        "an upgraded connection goes on after its empty 101 response"
    );
    drop(hold);
    assert!(second.runs());
}

#[test]
fn a_hold_keeps_the_slot_past_the_end_of_a_stream_and_its_error() {
    for fails in [false, true] {
        let mut scene = Scene::one_slot();
        let (mut body, feed) = scene.stream("first");
        let mut second = scene.send("second");
        let hold = scene.desk.admission("first").hold();
        if fails {
            feed.error()
        } else {
            feed.end()
        }
        assert!(matches!(
            body.poll_frame(),
            Poll::Ready(None | Some(Err(_)))
        ));
        drop(body);
        assert!(second.waits());
        drop(hold);
        assert!(second.runs(), "fails: {fails}");
    }
}

#[test]
fn a_hold_keeps_the_slot_of_a_cancelled_request() {
    let mut scene = Scene::one_slot();
    let first = scene.send("first");
    let mut second = scene.send("second");
    let hold = scene.desk.admission("first").hold();
    drop(first);
    assert!(second.waits(), "a spawned producer may still be at work");
    drop(hold);
    assert!(second.runs());
}

#[test]
fn a_hold_dropped_before_the_body_changes_nothing() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("first");
    let mut second = scene.send("second");
    drop(scene.desk.admission("first").hold());
    assert!(second.waits(), "the body still keeps the slot");
    drop(body);
    assert!(second.runs());
}

#[test]
fn clones_of_a_hold_share_one_slot() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("first");
    let mut second = scene.send("second");
    let hold = scene.desk.admission("first").hold();
    let clone = hold.clone();
    let other = scene.desk.admission("first").hold();
    for holder in [
        Box::new(hold) as Box<dyn std::any::Any>,
        Box::new(body),
        Box::new(clone),
    ] {
        drop(holder);
        assert!(second.waits(), "somebody still holds the slot");
    }
    drop(other);
    assert!(second.runs(), "the last one gives it back");
    assert!(scene.send("third").waits(), "once");
}

#[test]
fn a_hold_taken_after_the_release_is_empty_and_keeps_nothing() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let admission = scene.desk.admission("first");
    drop(first.answer(FedBody::empty()));
    let hold = admission.hold();
    assert!(hold.is_empty(), "a slot that was given back cannot be held");
    assert!(hold.clone().is_empty());
    let mut second = scene.call("second");
    assert!(
        second.polled.poll().is_pending() && scene.desk.has("second"),
        "the slot is free"
    );
    let mut third = scene.send("third");
    drop(hold);
    assert!(third.waits(), "an empty hold gives nothing back");
}

#[test]
fn the_admission_of_the_response_can_be_held_too() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    scene.desk.answer("first", FedBody::full("unread"));
    let response = first.response();
    let admission: &tower_policy_queue::Admission = response.extensions().get().unwrap();
    let hold = admission.hold();
    drop(response);
    assert!(second.waits());
    drop(hold);
    assert!(second.runs());
}
