//! What spans and subscribers are told of admissions, rejections and cancellations.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod journal;

use std::{task::Poll, time::Duration};

use futures::FutureExt;
use http::{Request, Response};
use tower::{Layer, Service, service_fn};
use tower_policy_queue::{PolicyQueueLayer, QueueHints, RequestBody};
use tracing::{Span, field::Empty, info_span};

use crate::{
    common::{
        desk::{Desk, policy},
        feed::{Broken, FedBody, Feed},
    },
    hall::{Hall, ONE_SLOT, chat, hinted, pinned, with},
    journal::Journal,
};

const ONE_WORKER: &str = "
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]
endpoints: [{id: w0, dominion: pool}]
headers: {worker: x-worker}";

/// A span with all the fields there are.
fn span() -> Span {
    info_span!(
        "request",
        policy_queue.class = Empty,
        policy_queue.dominion = Empty,
        policy_queue.worker = Empty,
        policy_queue.waited_ms = Empty,
    )
}

#[tokio::test(start_paused = true)]
async fn an_admission_fills_in_the_fields_that_the_current_span_declares() {
    let journal = Journal::default();
    let _reading = journal.read();
    let mut hall = Hall::new(&chat("", ONE_WORKER));
    span().in_scope(|| hall.arrive("a"));
    assert_eq!(
        journal.take(),
        [
            "span policy_queue.class=chat",
            "span policy_queue.dominion=pool",
            "span policy_queue.worker=w0",
            "span policy_queue.waited_ms=0",
        ]
    );
    span().in_scope(|| hall.arrive("b"));
    assert_eq!(journal.take(), [""; 0], "it waits");
    hall.pass(1500).await;
    hall.finish("a");
    // Whoever polls it then is in a span of its own.
    assert_eq!(hall.state("b"), "running");
    assert_eq!(journal.take(), [""; 0], "no span was current");

    hall.arrive("c");
    hall.pass(250).await;
    hall.freeze("c");
    hall.finish("b");
    span().in_scope(|| hall.thaw("c"));
    let told = journal.take();
    assert_eq!(told.last().unwrap(), "span policy_queue.waited_ms=250");
    assert_eq!(told.len(), 4);
}

#[test]
fn spans_that_declare_some_or_none_of_them_get_no_others() {
    let journal = Journal::default();
    let _reading = journal.read();
    let mut hall = Hall::new(&chat("", ONE_SLOT));
    let some = info_span!(
        "request",
        policy_queue.worker = Empty,
        policy_queue.class = Empty
    );
    some.in_scope(|| hall.arrive("a"));
    assert_eq!(
        journal.take(),
        ["span policy_queue.class=chat"],
        "and no worker, as the policy names none"
    );
    hall.finish("a");
    info_span!("other", class = Empty).in_scope(|| hall.arrive("b"));
    hall.finish("b");
    assert_eq!(
        journal.take(),
        [""; 0],
        "nothing else is told of a request that goes well"
    );
}

#[tokio::test(start_paused = true)]
async fn every_rejection_is_one_event_with_its_code_and_class_and_dominion() {
    let journal = Journal::default();
    let _reading = journal.read();
    let event = |code: &str| {
        format!("INFO tower_policy_queue request turned away code={code} class=chat dominion=pool")
    };
    let unplaced = |code: &str| format!("INFO tower_policy_queue request turned away code={code}");

    let fields = "max_queue_wait_ms: 50, max_hold_ms: 100";
    let mut hall = Hall::new(&chat(fields, ONE_WORKER));
    hall.arrive("runs");
    hall.arrive("waits");
    hall.arrive("full");
    assert_eq!(journal.take(), [event("queue_full")]);
    hall.pass(60).await;
    assert_eq!(hall.state("waits"), "queue_timeout");
    assert_eq!(journal.take(), [event("queue_timeout")]);
    hall.pass(60).await;
    assert_eq!(hall.state("runs"), "hold_timeout");
    assert_eq!(journal.take(), [event("hold_timeout")]);
    hall.send("lost", hinted("lost", pinned("nobody")));
    assert_eq!(journal.take(), [unplaced("no_eligible_worker")]);
    let twice = [("x-worker", "w0"), ("x-worker", "w0")];
    hall.send("bad", with("bad", &twice));
    assert_eq!(journal.take(), [unplaced("invalid_queue_header")]);
    hall.handle.drain_worker("w0", true).unwrap();
    hall.arrive("drained");
    assert_eq!(journal.take(), [event("no_eligible_worker")]);
    hall.handle.drain_worker("w0", false).unwrap();
    hall.handle.shutdown();
    hall.arrive("late");
    assert_eq!(journal.take(), [event("queue_unavailable")]);

    let mut hall = Hall::new(&chat("request_queue_limit_per_worker: 1", ONE_WORKER));
    hall.arrive("runs");
    hall.arrive("waits");
    hall.arrive("over");
    assert_eq!(journal.take(), [event("policy_class_queue_limit")]);
    let rejects = "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";
    let mut hall = Hall::new(&chat("", rejects));
    hall.arrive("runs");
    hall.arrive("no");
    assert_eq!(
        journal.take().last(),
        Some(&event("queue_rejected")),
        "after the cancellations of those who were there"
    );
}

#[test]
fn a_switch_of_profiles_is_a_rejection_of_who_waits_and_of_who_runs() {
    let journal = Journal::default();
    let _reading = journal.read();
    let local = "
dominions: [{id: pool, kind: local, max_concurrency: 1}]
local_models: [{id: day-model, dominion: pool}, {id: night-model, dominion: pool}]
profiles: [{name: day, models: [day-model]}, {name: night, models: [night-model]}]";
    let mut hall = Hall::new(&chat("", local));
    for id in ["runs", "waits"] {
        hall.send(id, hinted(id, pinned("day-model")));
    }
    hall.handle.switch_profile("night").unwrap();
    hall.settle();
    let event =
        "INFO tower_policy_queue request turned away code=profile_switch class=chat dominion=pool";
    assert_eq!(journal.take(), [event, event]);
}

#[test]
fn a_body_that_fails_while_it_waits_is_one_rejection_and_no_cancellation() {
    let journal = Journal::default();
    let _reading = journal.read();
    let layer = PolicyQueueLayer::new(policy(&chat("", ONE_SLOT)));
    let mut service = layer.layer(service_fn(|_: Request<RequestBody<FedBody>>| {
        std::future::pending::<Result<Response<FedBody>, Broken>>()
    }));
    let _running = service.call(Request::new(FedBody::empty()));
    let feed = Feed::new();
    let waiting = service.call(Request::new(feed.body()));
    feed.error();
    assert_eq!(waiting.now_or_never().unwrap().unwrap().status(), 400);
    let event = "INFO tower_policy_queue request turned away code=request_body_error class=chat dominion=pool";
    assert_eq!(journal.take(), [event]);
}

#[test]
fn every_cancellation_is_one_event_with_its_stage() {
    let journal = Journal::default();
    let _reading = journal.read();
    let event = |stage: &str| {
        format!("DEBUG tower_policy_queue request cancelled stage={stage} class=chat dominion=pool")
    };
    let mut hall = Hall::new(&chat("", ONE_SLOT));
    hall.call("granted", with("granted", &[]));
    hall.leave("granted");
    assert_eq!(journal.take(), [event("granted")]);
    hall.arrive("runs");
    hall.arrive("waits");
    hall.leave("waits");
    assert_eq!(journal.take(), [event("queued")]);
    hall.call("woken", with("woken", &[]));
    hall.leave("runs");
    assert_eq!(journal.take(), [event("running")]);
    hall.leave("woken");
    assert_eq!(
        journal.take(),
        [event("granted")],
        "granted while it waited"
    );
    hall.arrive("streams");
    let (body, _feed) = hall.stream("streams");
    drop(body);
    assert_eq!(journal.take(), [event("running")]);
}

#[tokio::test(start_paused = true)]
async fn failures_and_slots_taken_back_are_no_cancellations() {
    let journal = Journal::default();
    let _reading = journal.read();
    let mut hall = Hall::new(&chat("max_hold_ms: 50", ONE_SLOT));
    hall.arrive("fails");
    let (mut body, feed) = hall.stream("fails");
    feed.error();
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
    drop(body);
    hall.arrive("long");
    let (mut body, _feed) = hall.stream("long");
    hall.pass(60).await;
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
    drop(body);
    assert_eq!(journal.take(), [""; 0]);
}

#[test]
fn nothing_that_a_client_sent_is_told() {
    let journal = Journal::default();
    let _reading = journal.read();
    let yaml = "
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]
headers: {model: x-model, worker: x-worker, strict_priority: x-tier}";
    let mut hall = Hall::new(&chat("", yaml));
    let evil = "evil-3f2a";
    for (number, name) in [
        "x-dynamo-meta-policy-class",
        "x-promptforge-client",
        "x-model",
        "x-worker",
        "x-tier",
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("{evil}-{number}");
        span().in_scope(|| hall.send(&id, with(&id, &[(name, evil)])));
    }
    let hints = QueueHints {
        policy: Some(evil.to_owned()),
        client: Some(evil.to_owned()),
        ..QueueHints::default()
    };
    span().in_scope(|| hall.send(evil, hinted(evil, hints)));
    hall.leave(&format!("{evil}-1"));
    let told = journal.take();
    assert!(told.len() >= 6, "{told:?}");
    assert!(!told.iter().any(|line| line.contains("evil")), "{told:?}");
}

#[test]
fn a_subscriber_may_use_the_layer_as_no_lock_is_held() {
    let journal = Journal::default();
    let _reading = journal.read();
    let mut hall = Hall::new(&chat("", ONE_WORKER));
    let handle = hall.handle.clone();
    journal.interrupt(move || {
        let _ = handle.snapshot();
        let _ = handle.remove_worker("nobody");
    });
    span().in_scope(|| hall.arrive("runs"));
    hall.arrive("waits");
    hall.arrive("full");
    hall.leave("waits");
    hall.leave("runs");
    let told = journal.take();
    assert_eq!(told.len(), 4 + 1 + 2, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_child_on_its_parents_slot_says_what_it_runs_on_and_that_it_did_not_wait() {
    let journal = Journal::default();
    let _reading = journal.read();
    let desk = Desk::default();
    let mut service = PolicyQueueLayer::new(policy(&chat("", ONE_SLOT))).layer(desk.clone());
    let mut first = Box::pin(service.call(with("first", &[])));
    assert!(first.as_mut().now_or_never().is_none());
    let mut parent = Box::pin(service.call(with("parent", &[])));
    assert!(parent.as_mut().now_or_never().is_none());
    tokio::time::advance(Duration::from_millis(5000)).await;
    drop(first);
    assert!(parent.as_mut().now_or_never().is_none(), "it runs now");
    journal.take();
    let mut child = with("child", &[]);
    child.extensions_mut().insert(desk.admission("parent"));
    let mut child = Box::pin(service.call(child));
    assert!(span().in_scope(|| child.as_mut().now_or_never()).is_none());
    assert_eq!(
        journal.take(),
        [
            "span policy_queue.class=chat",
            "span policy_queue.dominion=pool",
            "span policy_queue.waited_ms=0",
        ]
    );
}
