//! What is dropped first: the work, and only then the permit.

use std::{
    future::{Pending, pending},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use tower::{Layer, Service};
use tower_policy_queue::PolicyQueueLayer;

use crate::common::{
    bell::{Bell, Polled},
    desk::{Scene, get, pool},
    feed::{Broken, FedBody, Feed},
};

/// How often a request had been woken when the probe ran; none if it has not run.
#[derive(Clone, Debug)]
struct Seen(Arc<AtomicUsize>);

const NOT_RUN: usize = usize::MAX;

impl Seen {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(NOT_RUN)))
    }

    fn probe(&self, next: &Arc<Bell>) -> impl FnOnce() + Send + 'static {
        let (seen, next) = (Arc::clone(&self.0), Arc::clone(next));
        move || seen.store(next.rings(), Ordering::SeqCst)
    }

    fn rings(&self) -> Option<usize> {
        Some(self.0.load(Ordering::SeqCst)).filter(|&rings| rings != NOT_RUN)
    }
}

const RULE: &str = "the next request may not go on before the work of this one is dropped";

#[test]
fn a_cancelled_inner_future_is_dropped_before_its_permit() {
    let mut scene = Scene::one_slot();
    let (blocker, _feed) = scene.stream("blocker");
    let first = scene.send("first");
    let mut second = scene.send("second");
    let seen = Seen::new();
    scene.desk.probe_next(seen.probe(&second.polled.bell));
    drop(blocker);
    let mut first = first;
    assert!(first.runs());
    assert_eq!(seen.rings(), None);
    drop(first);
    assert_eq!(seen.rings(), Some(0), "{RULE}");
    assert!(second.runs());
}

#[test]
fn a_finished_inner_future_is_dropped_before_its_permit() {
    for fails in [false, true] {
        let mut scene = Scene::one_slot();
        let (blocker, _feed) = scene.stream("blocker");
        let mut first = scene.send("first");
        let mut second = scene.send("second");
        let seen = Seen::new();
        scene.desk.probe_next(seen.probe(&second.polled.bell));
        drop(blocker);
        assert!(first.runs());
        if fails {
            scene.desk.fail("first");
            assert!(matches!(first.polled.poll(), Poll::Ready(Err(_))));
        } else {
            drop(first.answer(FedBody::empty()));
        }
        assert_eq!(seen.rings(), Some(0), "{RULE} (fails: {fails})");
        assert!(second.runs());
    }
}

#[test]
fn an_abandoned_body_is_dropped_before_its_permit() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let seen = Seen::new();
    let feed = Feed::new();
    let body = first.answer(feed.probed_body(seen.probe(&second.polled.bell)));
    assert_eq!(seen.rings(), None);
    drop(body);
    assert_eq!(seen.rings(), Some(0), "{RULE}");
    assert!(second.runs());
}

#[test]
fn the_body_of_an_abandoned_response_is_dropped_before_its_permit() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let seen = Seen::new();
    let feed = Feed::new();
    scene
        .desk
        .answer("first", feed.probed_body(seen.probe(&second.polled.bell)));
    drop(first.response());
    assert_eq!(seen.rings(), Some(0), "{RULE}");
    assert!(second.runs());
}

/// What its first poll after the grant comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    StaysUnready,
    FailsReadiness,
    PanicsInReadiness,
    PanicsInCall,
}

/// A service that notes, each time one of its clones is dropped, whether the next request had been
/// woken: a clone may own a connection or another limit's permit.
#[derive(Clone, Debug)]
struct Fragile {
    fate: Fate,
    next: Arc<Mutex<Option<Arc<Bell>>>>,
    dropped_at: Arc<Mutex<Vec<usize>>>,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if let Some(next) = &*self.next.lock().unwrap() {
            self.dropped_at.lock().unwrap().push(next.rings());
        }
    }
}

impl<B> Service<Request<B>> for Fragile {
    type Response = Response<FedBody>;
    type Error = Broken;
    type Future = Pending<Result<Response<FedBody>, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        match self.fate {
            Fate::StaysUnready => Poll::Pending,
            Fate::FailsReadiness => Poll::Ready(Err(Broken)),
            Fate::PanicsInReadiness => panic!("{Broken}"),
            Fate::PanicsInCall => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        assert!(request.uri().path() != "/first", "{Broken}");
        pending()
    }
}

/// Polls a request of that fate once and drops it.
fn meets(fate: Fate) {
    let fragile = Fragile {
        fate,
        next: Arc::default(),
        dropped_at: Arc::default(),
    };
    let mut service = PolicyQueueLayer::new(pool(1)).layer(fragile.clone());
    let mut first = Polled::new(service.call(get("first")));
    let mut second = Polled::new(service.call(get("second")));
    assert!(second.poll().is_pending());
    *fragile.next.lock().unwrap() = Some(Arc::clone(&second.bell));

    let _ = catch_unwind(AssertUnwindSafe(move || drop(first.poll())));

    *fragile.next.lock().unwrap() = None;
    let dropped_at = fragile.dropped_at.lock().unwrap().clone();
    assert_eq!(second.rings(), 1, "the slot came back: {fate:?}");
    assert_eq!(dropped_at, [0], "{RULE}: {fate:?}");
}

#[test]
fn an_inner_service_that_was_never_ready_is_dropped_before_its_permit() {
    meets(Fate::StaysUnready);
    meets(Fate::FailsReadiness);
    meets(Fate::PanicsInReadiness);
}

#[test]
fn an_inner_service_that_panicked_in_call_is_dropped_before_its_permit() {
    meets(Fate::PanicsInCall);
}

/// A body that panics when it is asked whether it has ended, and notes when it is dropped how often
/// the next request had been woken.
struct Faulty {
    seen: Option<Box<dyn FnOnce() + Send>>,
}

impl Drop for Faulty {
    fn drop(&mut self) {
        if let Some(seen) = self.seen.take() {
            seen();
        }
    }
}

impl http_body::Body for Faulty {
    type Data = bytes::Bytes;
    type Error = Broken;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Broken>>> {
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        assert!(self.seen.is_none(), "{Broken}");
        false
    }
}

#[test]
fn a_body_that_panics_when_it_is_handed_over_is_dropped_before_its_permit() {
    let answer: Arc<Mutex<Option<Faulty>>> = Arc::default();
    let next = Arc::clone(&answer);
    let inner = tower::service_fn(move |_| {
        let body = next.lock().unwrap().take();
        async move { Ok::<_, Broken>(Response::new(body.unwrap_or(Faulty { seen: None }))) }
    });
    let mut service = PolicyQueueLayer::new(pool(1)).layer(inner);
    let mut first = Polled::new(service.call(get("first")));
    let mut second = Polled::new(service.call(get("second")));
    assert!(second.poll().is_pending());
    let seen = Seen::new();
    *answer.lock().unwrap() = Some(Faulty {
        seen: Some(Box::new(seen.probe(&second.bell))),
    });

    let _ = catch_unwind(AssertUnwindSafe(move || drop(first.poll())));

    assert_eq!(second.rings(), 1, "the slot came back");
    assert_eq!(seen.rings(), Some(0), "{RULE}");
}
