//! Readiness: the layer is always ready and reserves nothing; the inner service is driven to
//! readiness for a request that was granted its slot, and for nobody else.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use common::{
    NoBody,
    bell::Polled,
    desk::{Desk, Scene, Trouble, get, pool},
    feed::{Broken, FedBody},
};
use futures::FutureExt;
use http::{Request, Response};
use http_body_util::Full;
use tower::{Layer, Service, ServiceExt, limit::ConcurrencyLimit};
use tower_policy_queue::{PolicyQueue, PolicyQueueLayer};

const NOOP: &std::task::Waker = std::task::Waker::noop();

fn poll_ready(service: &mut PolicyQueue<Desk>, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
    Service::<Request<NoBody>>::poll_ready(service, cx)
}

#[test]
fn it_is_ready_whatever_the_inner_service_is() {
    let mut scene = Scene::one_slot();
    scene.desk.shut();
    let mut cx = Context::from_waker(NOOP);
    assert_eq!(poll_ready(&mut scene.service, &mut cx), Poll::Ready(Ok(())));
    scene.desk.trouble(Trouble::ReadinessPanics);
    assert_eq!(
        poll_ready(&mut scene.service, &mut cx),
        Poll::Ready(Ok(())),
        "it does not even ask"
    );
}

#[test]
fn it_is_ready_while_its_queue_is_full() {
    let mut scene = Scene::one_slot();
    let _running = scene.stream("running");
    let _waiting: Vec<_> = (0..1000).map(|n| scene.send(&n.to_string())).collect();
    let mut cx = Context::from_waker(NOOP);
    assert_eq!(poll_ready(&mut scene.service, &mut cx), Poll::Ready(Ok(())));
    assert!(
        scene.refusal("another").is_some(),
        "a full queue answers, and does not push back"
    );
}

#[test]
fn clones_that_are_ready_and_parked_block_nobody() {
    let mut scene = Scene::one_slot();
    let mut cx = Context::from_waker(NOOP);
    let mut parked: Vec<_> = (0..100).map(|_| scene.service.clone()).collect();
    for service in &mut parked {
        assert_eq!(poll_ready(service, &mut cx), Poll::Ready(Ok(())));
    }
    let _running = scene.stream("running");
    assert!(scene.desk.has("running"), "to be ready reserves nothing");
}

#[test]
fn an_inner_service_that_is_ready_only_after_a_while_is_waited_for() {
    let mut scene = Scene::one_slot();
    scene.desk.shut();
    let mut first = scene.send("first");
    assert!(first.waits(), "the inner service is not ready");
    scene.desk.open();
    assert!(first.runs());
}

#[test]
fn requests_in_the_queue_do_not_ask_the_inner_service() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("first");
    scene.desk.trouble(Trouble::ReadinessFails);
    let mut second = scene.send("second");
    assert!(second.waits(), "it would have failed");
    drop(body);
    assert!(
        matches!(second.polled.poll(), Poll::Ready(Err(Broken))),
        "granted, it asks"
    );
}

#[test]
fn an_inner_service_that_fails_its_readiness_once_fails_one_request() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let mut third = scene.send("third");
    drop(first.answer(FedBody::empty()));
    scene.desk.trouble(Trouble::ReadinessFails);
    assert!(
        matches!(second.polled.poll(), Poll::Ready(Err(Broken))),
        "its error is passed on"
    );
    assert!(
        third.runs(),
        "and its slot goes to the next one, with the failed future still there"
    );
    drop(second);
    assert!(scene.send("fourth").waits(), "once");
}

/// A service whose clones are not ready, as those of `ConcurrencyLimit` and `Buffer` are not.
#[derive(Debug)]
struct Stateful {
    ready: bool,
    violations: Arc<AtomicUsize>,
}

impl Clone for Stateful {
    fn clone(&self) -> Self {
        Self {
            ready: false,
            violations: Arc::clone(&self.violations),
        }
    }
}

impl<B> Service<Request<B>> for Stateful {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        if !std::mem::take(&mut self.ready) {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
        ready(Ok(Response::new(Full::from("unread"))))
    }
}

#[test]
fn the_service_that_is_called_is_the_one_that_was_ready() {
    let violations = Arc::new(AtomicUsize::new(0));
    let inner = Stateful {
        ready: false,
        violations: Arc::clone(&violations),
    };
    let mut service = PolicyQueueLayer::new(pool(1)).layer(inner);
    let call = |service: &mut tower_policy_queue::PolicyQueue<Stateful>| {
        service
            .call(get(""))
            .now_or_never()
            .expect("it answers at once")
            .unwrap()
    };
    for _ in 0..3 {
        drop(call(&mut service));
    }
    let mut held = call(&mut service);
    let mut queued = Polled::new(service.clone().call(get("")));
    assert!(queued.poll().is_pending());
    *held.body_mut() = Default::default();
    assert!(queued.poll().is_ready(), "after a wait in the queue, too");
    assert_eq!(
        violations.load(Ordering::SeqCst),
        0,
        "each was polled ready before its call"
    );
}

#[test]
fn queued_requests_take_no_permit_of_a_concurrency_limit_below() {
    let scene = Scene::one_slot();
    let limited = ConcurrencyLimit::new(scene.desk.clone(), 2);
    let mut service = scene.layer.layer(limited.clone());

    let mut first = Polled::new(service.call(get("first")));
    assert!(first.poll().is_pending());
    let mut queued: Vec<_> = (0..10)
        .map(|_| Polled::new(service.call(get("queued"))))
        .collect();
    assert!(queued.iter_mut().all(|request| request.poll().is_pending()));
    assert_eq!(scene.desk.started(), ["first"]);

    let mut other = Polled::new(limited.oneshot(get("other")));
    assert!(other.poll().is_pending());
    assert!(
        scene.desk.has("other"),
        "its second permit is there for who comes around the layer"
    );
}

#[test]
fn a_narrower_concurrency_limit_below_is_waited_for_with_the_slot() {
    let mut scene = Scene::new(pool(2));
    let limited = ConcurrencyLimit::new(scene.desk.clone(), 1);
    let mut service = scene.layer.layer(limited);

    let mut first = Polled::new(service.call(get("first")));
    let mut second = Polled::new(service.call(get("second")));
    assert!(first.poll().is_pending());
    assert!(second.poll().is_pending());
    assert_eq!(
        scene.desk.started(),
        ["first"],
        "the limit below has one permit"
    );
    assert!(
        !scene.has_a_free_slot(),
        "the second request owns a slot and waits below"
    );

    scene
        .desk
        .answer("first", FedBody::full("a head is enough for it"));
    let Poll::Ready(Ok(response)) = first.poll() else {
        panic!("it was answered")
    };
    assert!(second.rings() > 0 && second.poll().is_pending());
    assert!(scene.desk.has("second"));
    drop(response);
    assert!(scene.has_a_free_slot());
}

#[test]
fn a_request_dropped_while_it_waits_for_readiness_gives_both_limits_back() {
    let mut scene = Scene::new(pool(2));
    let limited = ConcurrencyLimit::new(scene.desk.clone(), 1);
    let mut service = scene.layer.layer(limited);
    let mut first = Polled::new(service.call(get("first")));
    let mut second = Polled::new(service.call(get("second")));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    drop(second);
    assert!(scene.has_a_free_slot());
    drop(first);
    let mut third = Polled::new(service.call(get("third")));
    assert!(third.poll().is_pending());
    assert!(
        scene.desk.has("third"),
        "the place in the line below went with the second"
    );
}
