//! The body ends, one way or the other.

use std::task::Poll;

use http_body::Body;

use crate::common::{
    bell::Polled,
    desk::{Reading, Scene},
    feed::{Broken, FedBody},
};

fn text(body: &mut Reading) -> String {
    match body.poll_frame() {
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) => String::from_utf8(data.to_vec()).unwrap(),
            Err(_) => "(trailers)".to_owned(),
        },
        other => panic!("a frame was sent, but {other:?}"),
    }
}

#[test]
fn a_stream_keeps_its_slot_from_the_head_to_the_end_of_its_body() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    assert!(second.waits(), "the only slot is taken");

    let (mut body, feed) = first.stream();
    assert!(
        second.waits(),
        "the head of the response does not give the slot back"
    );

    for _ in 0..10 {
        feed.data("token");
        assert_eq!(text(&mut body), "token");
        assert!(second.waits(), "nor does a frame");
        assert!(body.poll_frame().is_pending());
        assert!(second.waits(), "nor does a pause");
    }

    feed.end();
    assert!(second.waits(), "nor does an end that nobody has read");
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    assert!(second.runs(), "the end of the stream does");
    drop(body);
    assert_eq!(second.polled.rings(), 1, "once");
}

#[test]
fn a_body_that_has_ended_gives_the_slot_back_with_the_head() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let body = first.answer(FedBody::empty());
    assert!(
        second.runs(),
        "nobody polls a body that has ended, so its slot is free at once"
    );
    assert!(body.inner.is_end_stream());
    drop((first, body));
    assert!(
        scene.send("third").waits(),
        "and it was not given back twice"
    );
}

#[test]
fn the_last_frame_of_a_known_length_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let mut body = first.answer(FedBody::full("all of it"));
    assert!(second.waits(), "the bytes are still to be read");
    assert_eq!(text(&mut body), "all of it");
    assert!(
        second.runs(),
        "whoever knows the length never asks for the end after the last byte"
    );
    drop(body);
    assert!(
        scene.send("third").waits(),
        "and it was not given back twice"
    );
}

#[test]
fn a_body_without_a_known_end_gives_the_slot_back_only_when_the_end_is_read() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("first");
    let mut second = scene.send("second");
    feed.data("all of it");
    feed.end();
    assert_eq!(text(&mut body), "all of it");
    assert!(second.waits(), "more might have come");
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    assert!(second.runs());
}

#[test]
fn trailers_are_no_end_unless_the_body_says_so() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("first");
    let mut second = scene.send("second");
    feed.trailers();
    assert_eq!(text(&mut body), "(trailers)");
    assert!(second.waits(), "the body does not say that it has ended");
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    assert!(second.runs());
}

#[test]
fn trailers_after_which_the_body_says_it_has_ended_give_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("first");
    let mut second = scene.send("second");
    feed.data("token");
    assert_eq!(text(&mut body), "token");
    feed.last_data("");
    feed.trailers();
    assert_eq!(text(&mut body), "");
    assert!(second.waits());
    assert_eq!(text(&mut body), "(trailers)");
    assert!(second.runs());
}

#[test]
fn a_body_error_gives_the_slot_back_while_the_body_is_still_held() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("first");
    let mut second = scene.send("second");
    feed.data("token");
    assert_eq!(text(&mut body), "token");
    feed.error();
    assert!(second.waits());
    let Poll::Ready(Some(Err(error))) = body.poll_frame() else {
        panic!("the body fails");
    };
    assert!(error.is::<Broken>(), "with the error of the inner body");
    assert!(second.runs(), "nothing comes after an error");
    drop(body);
    assert!(
        scene.send("third").waits(),
        "and it was not given back twice"
    );
}

#[test]
fn a_body_that_says_it_has_ended_while_it_is_pending_keeps_the_slot() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("first");
    let mut second = scene.send("second");
    feed.say_ended();
    assert!(body.poll_frame().is_pending());
    assert!(
        second.waits(),
        "a wrapper that buffers may say so with frames still to come"
    );
    feed.data("buffered");
    assert_eq!(text(&mut body), "buffered");
    assert!(second.runs(), "after a frame it is believed");
}

#[test]
fn a_failing_inner_service_gives_the_slot_back_with_its_error() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    scene.desk.fail("first");
    assert!(matches!(first.polled.poll(), Poll::Ready(Err(Broken))));
    assert!(second.runs(), "while the completed future is still there");
    drop(first);
    assert!(
        scene.send("third").waits(),
        "and it was not given back twice"
    );
}

#[test]
fn a_completed_future_that_is_kept_around_holds_nothing() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let body = first.answer(FedBody::full("unread"));
    drop(body);
    assert!(
        second.runs(),
        "the slot went into the body, and the body is gone"
    );
    drop(first);
    assert!(
        scene.send("third").waits(),
        "and it was not given back twice"
    );
}

#[test]
fn an_admission_that_is_kept_around_holds_nothing() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let admission = scene.desk.admission("first");
    let mut second = scene.send("second");
    drop(first.answer(FedBody::full("unread")));
    assert!(second.runs(), "it names the slot without keeping it");
    assert_eq!(admission.dominion(), Some("pool"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_body_keeps_its_slot_however_long_it_is_silent() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("first");
    let mut second = scene.send("second");
    for _ in 0..24 {
        tokio::time::advance(std::time::Duration::from_secs(3600)).await;
        assert!(body.poll_frame().is_pending());
        assert!(second.waits(), "a limit of concurrency is not a rate");
    }
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    assert!(second.runs());
}

#[test]
fn a_thousand_streams_aborted_after_a_frame_leave_nothing_behind() {
    let mut scene = Scene::one_slot();
    for round in 0..1000 {
        let (mut body, feed) = scene.stream(&round.to_string());
        feed.data("token");
        assert_eq!(text(&mut body), "token");
        assert!(!scene.has_a_free_slot());
        drop(body);
        assert!(scene.has_a_free_slot(), "after round {round}");
    }
}

#[test]
fn a_response_taken_apart_keeps_the_slot_with_its_body() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    scene.desk.answer("first", FedBody::full("unread"));
    let (parts, body) = first.response().into_parts();
    drop(parts);
    assert!(
        second.waits(),
        "status, headers and extensions hold nothing"
    );
    let boxed = Polled::new(http_body_util::BodyExt::boxed_unsync(body));
    assert!(second.waits(), "a body in a box is the same body");
    drop(boxed);
    assert!(second.runs());
}
