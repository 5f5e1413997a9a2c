//! A panic at any point gives the slot back, and harms nobody else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{
    bell::Polled,
    desk::{Client, Scene, Trouble, get, policy},
    feed::Feed,
};

/// Expects `work` to panic on purpose, and drops what it owned, as unwinding does.
pub(crate) fn panics<T>(work: impl FnOnce() -> T) {
    let panic = catch_unwind(AssertUnwindSafe(work)).err().expect("a panic");
    // A text that is known when it is compiled need not be a `String`.
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    assert_eq!(text, Some("broken on purpose"), "and no other");
}

/// A request that has been granted its slot, and not been polled since; and the next in the queue.
fn granted(scene: &mut Scene) -> (Client, Client) {
    let (blocker, _feed) = scene.stream("blocker");
    let clients = (scene.send("first"), scene.send("second"));
    drop(blocker);
    assert_eq!(clients.0.polled.rings(), 1);
    clients
}

#[test]
fn a_panic_in_poll_ready_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    scene.desk.trouble(Trouble::ReadinessPanics);
    panics(move || first.polled.poll());
    assert!(second.runs());
}

#[test]
fn a_panic_in_call_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    scene.desk.trouble(Trouble::CallPanics);
    panics(move || first.polled.poll());
    assert!(second.runs());
}

#[test]
fn a_panic_in_call_gives_the_slot_back_even_if_the_future_is_kept() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    scene.desk.trouble(Trouble::CallPanics);
    panics(|| first.polled.poll());
    assert!(
        second.runs(),
        "there is nothing left in the future that could use it"
    );
    drop(first);
    assert!(
        scene.send("third").waits(),
        "and it was not given back twice"
    );
}

#[test]
fn a_future_whose_call_panicked_says_that_it_is_over_when_it_is_polled_again() {
    let mut scene = Scene::one_slot();
    let (mut first, _second) = granted(&mut scene);
    scene.desk.trouble(Trouble::CallPanics);
    panics(|| first.polled.poll());
    let again = catch_unwind(AssertUnwindSafe(|| first.polled.poll()));
    let panic = again.expect_err("a panic, and no endless loop");
    let text = panic.downcast_ref::<&str>().copied();
    assert_eq!(text, Some("`ResponseFuture` polled after completion"));
}

#[test]
fn a_panic_in_the_inner_future_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    assert!(first.runs());
    scene.desk.panic("first");
    panics(move || first.polled.poll());
    assert!(second.runs());
}

#[test]
fn a_panic_in_the_body_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    assert!(first.runs());
    let (mut body, feed) = first.stream();
    feed.panic();
    panics(move || body.poll_frame());
    assert!(second.runs());
}

#[test]
fn a_panic_while_the_inner_future_is_dropped_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    scene
        .desk
        .probe_next(|| panic!("{}", crate::common::feed::Broken));
    assert!(first.runs());
    panics(move || drop(first));
    assert!(second.runs());
}

#[test]
fn a_panic_while_the_finished_inner_future_is_dropped_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    scene
        .desk
        .probe_next(|| panic!("{}", crate::common::feed::Broken));
    assert!(first.runs());
    scene.desk.answer("first", Feed::new().body());
    panics(move || first.polled.poll());
    assert!(second.runs());
}

#[test]
fn a_panic_while_the_body_is_dropped_gives_the_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    assert!(first.runs());
    let feed = Feed::new();
    let body = first.answer(feed.probed_body(|| panic!("{}", crate::common::feed::Broken)));
    panics(move || drop(body));
    assert!(second.runs());
}

#[test]
fn a_future_that_panicked_and_is_kept_gives_its_slot_back_when_it_is_dropped() {
    let mut scene = Scene::one_slot();
    let (mut first, mut second) = granted(&mut scene);
    assert!(first.runs());
    scene.desk.panic("first");
    panics(|| first.polled.poll());
    drop(first);
    assert!(second.runs());
    assert!(scene.send("third").waits(), "once");
}

/// What the only class counts: requests that failed, and requests in all.
fn failed_and_settled(scene: &Scene) -> (u64, u64) {
    let snapshot = scene.layer.handle().snapshot();
    let totals = &snapshot.dominions[0].classes[0].totals;
    (totals.failed, totals.settled())
}

#[test]
fn a_request_whose_panic_is_caught_before_it_is_dropped_counts_as_failed() {
    let mut scene = Scene::one_slot();
    scene.desk.trouble(Trouble::ReadinessPanics);
    let mut readiness = scene.call("readiness");
    panics(|| readiness.polled.poll());
    drop(readiness);
    assert_eq!(failed_and_settled(&scene), (1, 1));

    let mut future = scene.send("future");
    scene.desk.panic("future");
    panics(|| future.polled.poll());
    drop(future);
    assert_eq!(failed_and_settled(&scene), (2, 2));

    let mut body = scene.send("body");
    let (mut body, feed) = body.stream();
    feed.panic();
    panics(|| body.poll_frame());
    drop(body);
    assert_eq!(failed_and_settled(&scene), (3, 3));
}

#[test]
fn a_panicking_classifier_takes_no_slot() {
    use tower::{Layer, Service};
    use tower_policy_queue::QueueHints;

    let mut scene = Scene::one_slot();
    let classify = |_: &http::Request<crate::common::NoBody>| -> QueueHints {
        panic!("{}", crate::common::feed::Broken)
    };
    let mut service = scene
        .layer
        .clone()
        .classifier(classify)
        .layer(scene.desk.clone());
    panics(|| service.call(get("first")));
    assert!(scene.has_a_free_slot());
}

#[test]
fn a_request_whose_cache_panics_when_it_goes_on_counts_as_failed() {
    use tower::{Layer, Service};
    use tower_policy_queue::CachedTokens;

    #[derive(Clone)]
    struct Broken;

    impl CachedTokens for Broken {
        fn cached_tokens<B>(&self, _: &http::Request<B>, _: &str) -> u64 {
            0
        }

        fn dispatched<B>(&self, _: &http::Request<B>, _: &str) {
            panic!("{}", crate::common::feed::Broken)
        }
    }

    let mut scene = Scene::new(policy(
        "{dominions: [{id: pool, max_concurrency: 1}], endpoints: [{id: w, dominion: pool}]}",
    ));
    let layer = scene.layer.clone().cached_tokens(Broken);
    let mut request = Polled::new(layer.layer(scene.desk.clone()).call(get("first")));
    panics(|| request.poll());
    drop(request);
    assert_eq!(failed_and_settled(&scene), (1, 1));
    assert!(scene.has_a_free_slot());
}
