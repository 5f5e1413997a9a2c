//! A waker that panics takes nothing with it: who wakes has what is its own by then.

use std::time::Duration;

use tokio::time::advance;
use tower_policy_queue::QueueHints;

use crate::{
    common::{
        NoBody,
        desk::{Client, Scene, get, policy},
        feed::{Broken, FedBody},
    },
    panics::panics,
};

/// A class with these fields, and a dominion with these workers.
fn scene(fields: &str, rest: &str) -> Scene {
    Scene::new(policy(&format!(
        "
default_policy_family: chat
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: chat, policy_family: chat, cache_bucket: any, quantum: 100, {fields}}}
  - {{name: held, quantum: 100, max_hold_ms: 1000}}
dominions: [{{id: pool, max_concurrency: 1}}]
{rest}
"
    )))
}

/// Has the client's next wake panic.
fn break_waker_of(client: &Client) {
    client.polled.bell.on_ring(|| panic!("{Broken}"));
}

fn hinted(id: &str, hints: QueueHints) -> http::Request<NoBody> {
    let mut request = get(id);
    request.extensions_mut().insert(hints);
    request
}

fn in_hand(scene: &Scene) -> (usize, usize, u64) {
    let usage = scene.layer.handle().usage();
    (usage.slots_in_use, usage.waiting, usage.prefill_tokens)
}

#[tokio::test(start_paused = true)]
async fn an_arrival_that_wakes_another_one_does_not_leave_a_waiter_behind() {
    let mut scene = scene("max_hold_ms: 1000", "");
    let stalled = scene.send("stalled");
    let second = scene.send("second");
    advance(Duration::from_millis(1001)).await;
    break_waker_of(&second);
    // It finds the hold over, and gives the slot to the second one.
    panics(|| scene.call("third"));
    drop((stalled, second));
    assert_eq!(in_hand(&scene), (0, 0, 0));
    assert!(scene.has_a_free_slot());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_wakes_the_timekeeper_is_not_lost() {
    let mut scene = scene("", "");
    let (running, _feed) = scene.stream("running");
    let held = QueueHints {
        policy: Some("held".to_owned()),
        ..QueueHints::default()
    };
    let mut second = scene.call_with("second", hinted("second", held));
    assert!(second.polled.poll().is_pending());
    drop(running);
    let mut third = scene.send("third");
    break_waker_of(&third);
    // The third is to sleep no longer than the second may hold its slot.
    panics(|| second.polled.poll());
    drop(second);
    assert!(third.polled.poll().is_pending());
    assert!(scene.desk.has("third"));
    assert_eq!(in_hand(&scene).0, 1);
}

#[test]
fn a_slot_that_goes_back_with_the_head_does_not_leave_its_prefill_behind() {
    let endpoint = "endpoints: [{id: w, dominion: pool}]";
    let mut scene = scene("hold_until: headers", endpoint);
    let sized = |tokens| QueueHints {
        raw_isl_tokens: Some(tokens),
        ..QueueHints::default()
    };
    let mut first = scene.call_with("first", hinted("first", sized(50)));
    assert!(first.polled.poll().is_pending());
    let mut second = scene.call_with("second", hinted("second", sized(7)));
    assert!(second.polled.poll().is_pending());
    break_waker_of(&second);
    scene.desk.answer("first", FedBody::empty());
    panics(|| first.polled.poll());
    drop(first);
    assert_eq!(in_hand(&scene), (1, 0, 7));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_time_is_over_takes_nobody_else_s_place_with_it() {
    let endpoints = "
endpoints:
  - {id: busy, dominion: pool, models: [one]}
  - {id: free, dominion: pool, models: [two]}
headers: {model: x-model}
";
    let mut scene = scene("prefill_busy_threshold: 10", endpoints);
    scene
        .layer
        .handle()
        .set_max_concurrency("pool", Some(9))
        .unwrap();
    let asks = |model: &str, max_queue_wait_ms| QueueHints {
        model: Some(model.to_owned()),
        raw_isl_tokens: Some(50),
        max_queue_wait_ms,
        ..QueueHints::default()
    };
    let _running = scene.call_with("running", hinted("running", asks("one", None)));
    let mut head = scene.call_with("head", hinted("head", asks("one", Some(10))));
    assert!(head.polled.poll().is_pending());
    let mut next = scene.call_with("next", hinted("next", asks("two", None)));
    assert!(next.polled.poll().is_pending());
    assert_eq!(in_hand(&scene).1, 2, "the head blocks its lane");

    advance(Duration::from_millis(11)).await;
    break_waker_of(&next);
    panics(|| head.polled.poll());
    let mut late = scene.call_with("late", hinted("late", asks("one", None)));
    assert!(late.polled.poll().is_pending());
    drop(head);
    assert!(late.waits());
    assert_eq!(in_hand(&scene).1, 1);
}
