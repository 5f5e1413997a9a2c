//! tower's own middleware, outside of the layer and inside.

use crate::common::NoBody;
use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tower_policy_queue::RequestBody;

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response};
use http_body_util::Full;
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt, buffer::Buffer, limit::ConcurrencyLimit,
    load_shed::LoadShed, retry::Policy, service_fn, timeout::Timeout, util::BoxCloneSyncService,
};
use tower_policy_queue::{PolicyQueueLayer, QueueHints, Rejection};

use crate::common::{
    bell::Polled,
    desk::{Scene, get, policy},
    feed::{Broken, FedBody},
};

const REJECTS: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";
const ONE_PLACE: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]";

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_covers_the_wait_and_leaves_no_entry_behind() {
    let mut scene = Scene::new(policy(ONE_PLACE));
    let (body, _feed) = scene.stream("running");
    let impatient = Timeout::new(scene.service.clone(), Duration::from_secs(5));

    let error = impatient.clone().oneshot(get("late")).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>());

    let mut next = scene.send("next");
    assert!(next.waits(), "the one place in the queue is free again");
    drop(body);
    assert!(next.runs());
    assert!(!scene.desk.has("late"));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_frees_the_slot_of_a_request_at_work() {
    let mut scene = Scene::one_slot();
    let impatient = Timeout::new(scene.service.clone(), Duration::from_secs(5));
    let error = impatient.oneshot(get("slow")).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>());
    assert!(scene.desk.has("slow"));
    assert!(scene.has_a_free_slot());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_ends_with_the_head_and_not_with_the_body() {
    let mut scene = Scene::one_slot();
    let mut impatient = Timeout::new(scene.service.clone(), Duration::from_secs(5));
    let mut answer = Polled::new(impatient.call(get("stream")));
    assert!(answer.poll().is_pending());
    scene.desk.answer("stream", FedBody::full("unread"));
    let Poll::Ready(Ok(response)) = answer.poll() else {
        panic!("it was answered")
    };
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert!(!scene.has_a_free_slot(), "the body keeps the slot");
    drop(response);
    assert!(scene.has_a_free_slot());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_inside_covers_the_work_and_not_the_wait() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("running");
    let impatient = Timeout::new(scene.desk.clone(), Duration::from_secs(5));
    let mut service = scene.layer.layer(impatient);
    let mut second = Polled::new(service.call(get("second")));
    assert!(second.poll().is_pending());
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert!(
        second.poll().is_pending(),
        "the wait in the queue costs it nothing"
    );
    drop(body);
    assert!(second.poll().is_pending() && scene.desk.has("second"));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(
        matches!(second.poll(), Poll::Ready(Err(_))),
        "its work does"
    );
    assert!(scene.has_a_free_slot());
}

#[test]
fn load_shedding_outside_never_fires_for_the_layer_is_always_ready() {
    let mut scene = Scene::new(policy(REJECTS));
    let mut shed = LoadShed::new(scene.service.clone());
    let _running = scene.stream("running");
    let ready = ServiceExt::<Request<NoBody>>::ready(&mut shed).now_or_never();
    let answer = ready.unwrap().unwrap().call(get("refused"));
    let response = answer
        .now_or_never()
        .unwrap()
        .expect("an answer of the layer, not an error");
    assert_eq!(response.status(), 429);
}

#[test]
fn load_shedding_inside_sheds_what_was_admitted_and_gives_the_slot_back() {
    let mut scene = Scene::new(policy(
        "dominions: [{id: pool, kind: remote, max_concurrency: 2}]",
    ));
    let shed = LoadShed::new(ConcurrencyLimit::new(scene.desk.clone(), 1));
    let mut service = scene.layer.layer(shed);
    let mut first = Polled::new(service.call(get("first")));
    assert!(first.poll().is_pending());
    let second = service
        .call(get("second"))
        .now_or_never()
        .expect("it is shed at once");
    assert!(
        second
            .unwrap_err()
            .is::<tower::load_shed::error::Overloaded>()
    );
    assert!(scene.has_a_free_slot());
}

#[test]
fn a_concurrency_limit_outside_bounds_those_who_wait_as_well() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("running");
    let limited = ConcurrencyLimit::new(scene.service.clone(), 1);
    let mut waiting = Polled::new(limited.clone().oneshot(get("waiting")));
    let mut outside = Polled::new(limited.oneshot(get("outside")));
    assert!(waiting.poll().is_pending() && outside.poll().is_pending());
    drop(body);
    assert!(waiting.poll().is_pending() && scene.desk.has("waiting"));
    assert!(
        outside.poll().is_pending() && !scene.desk.has("outside"),
        "it is not even queued"
    );
    drop(waiting);
    assert!(outside.poll().is_pending() && scene.desk.has("outside"));
}

#[tokio::test(start_paused = true)]
async fn a_buffer_inside_gives_its_places_only_to_requests_that_were_granted() {
    let scene = Scene::one_slot();
    let buffered = Buffer::new(scene.desk.clone(), 1);
    let mut service = scene.layer.layer(buffered.clone());
    let (first, queued): (_, Vec<_>) = (
        service.call(get("first")),
        (0..10).map(|_| service.call(get("queued"))).collect(),
    );
    let first = tokio::spawn(first);
    let queued: Vec<_> = queued.into_iter().map(tokio::spawn).collect();
    settle().await;
    assert_eq!(scene.desk.started(), ["first"]);

    let other = tokio::spawn(buffered.oneshot(get("other").map(|_| RequestBody::default())));
    settle().await;
    assert!(
        scene.desk.has("other"),
        "the buffer's one place is free for who comes around"
    );
    drop(other);

    first.abort();
    for waiter in queued {
        settle().await;
        assert!(!waiter.is_finished());
        waiter.abort();
    }
    settle().await;
    assert_eq!(scene.desk.started().len(), 2 + 10, "each got its turn");
}

#[tokio::test(start_paused = true)]
async fn a_buffer_outside_passes_requests_on_while_others_wait() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("running");
    let buffered = Buffer::new(scene.service.clone(), 1);
    let requests: Vec<_> = (0..10)
        .map(|n| tokio::spawn(buffered.clone().oneshot(get(&n.to_string()))))
        .collect();
    settle().await;
    drop(body);
    for request in requests {
        settle().await;
        request.abort();
    }
    settle().await;
    assert_eq!(
        scene.desk.started().len(),
        1 + 10,
        "the buffer did not block behind the first"
    );
}

/// Lets the spawned tasks do all they can, on a runtime with one thread.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Tries again, as often as it may, whatever is not a success.
#[derive(Clone, Debug)]
struct Again(usize);

impl<B: Clone, T> Policy<Request<B>, Response<T>, Broken> for Again {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<B>,
        answer: &mut Result<Response<T>, Broken>,
    ) -> Option<Ready<()>> {
        let failed = !matches!(answer, Ok(response) if response.status().is_success());
        let left = failed.then(|| self.0.checked_sub(1)).flatten()?;
        self.0 = left;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

#[test]
fn retries_outside_queue_anew_and_retries_inside_keep_their_slot() {
    for outside in [true, false] {
        let layer = PolicyQueueLayer::new(policy(REJECTS));
        let calls = Arc::new(AtomicUsize::new(0));
        let arrivals = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&arrivals);
        let layer = layer.classifier(move |_: &Request<NoBody>| {
            count.fetch_add(1, Ordering::SeqCst);
            Default::default()
        });
        let seen = Arc::clone(&calls);
        let flaky = service_fn(move |_: Request<RequestBody<NoBody>>| {
            let call = seen.fetch_add(1, Ordering::SeqCst);
            let answer = Response::new(Full::<Bytes>::from("third time lucky"));
            ready(if call < 2 { Err(Broken) } else { Ok(answer) })
        });
        let retry = tower::retry::RetryLayer::new(Again(5));
        let service = if outside {
            BoxCloneSyncService::new(retry.layer(layer.layer(flaky)))
        } else {
            BoxCloneSyncService::new(layer.layer(retry.layer(flaky)))
        };
        let response = service
            .oneshot(get("retried"))
            .now_or_never()
            .expect("at once")
            .unwrap();
        assert_eq!(
            response.status(),
            200,
            "outside: {outside}: each failure gave its slot back"
        );
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        assert_eq!(arrivals.load(Ordering::SeqCst), if outside { 3 } else { 1 });
    }
}

#[test]
fn a_refusal_is_an_answer_that_a_retry_outside_may_read() {
    let layer = PolicyQueueLayer::new(policy(REJECTS));
    let answer = |_: Request<RequestBody<NoBody>>| async {
        Ok::<_, Broken>(Response::new(Full::<Bytes>::from("unread")))
    };
    let mut service = layer.layer(service_fn(answer));
    let running = service
        .call(get("running"))
        .now_or_never()
        .unwrap()
        .unwrap();
    let retried = tower::retry::Retry::new(Again(3), service.clone());
    let response = retried
        .clone()
        .oneshot(get("refused"))
        .now_or_never()
        .unwrap()
        .unwrap();
    assert!(
        response.extensions().get::<Rejection>().is_some(),
        "three times in vain"
    );
    drop(running);
    let response = retried
        .oneshot(get("admitted"))
        .now_or_never()
        .unwrap()
        .unwrap();
    assert_eq!(response.status(), 200);
}

#[test]
fn it_takes_its_place_in_a_service_builder() {
    let layer = PolicyQueueLayer::new(policy(REJECTS));
    let service = ServiceBuilder::new()
        .map_request(|request: Request<NoBody>| request)
        .layer(layer)
        .concurrency_limit(3)
        .service(service_fn(|_: Request<RequestBody<NoBody>>| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("fine")))
        }));
    let response = service.oneshot(get("")).now_or_never().unwrap().unwrap();
    assert_eq!(response.status(), 200);
}

#[test]
fn what_the_public_types_are_they_are_for_axum() {
    fn shareable<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn sendable<T: Send + 'static>(_: &T) {}
    let scene = Scene::one_slot();
    shareable(&scene.layer);
    shareable(&scene.service);
    let mut service = scene.service.clone();
    sendable(&service.call(get("")));
    assert!(!format!("{:?} {:?}", scene.layer, scene.service).is_empty());

    // Closures are not `Debug`, and what is made with them is.
    let classify = |_: &Request<NoBody>| QueueHints::default();
    let service = scene.layer.dominion("pool").unwrap().classifier(classify);
    let service = service.layer(scene.desk);
    let shown = format!("{service:?}");
    assert!(shown.contains("pool"), "{shown}");
}
