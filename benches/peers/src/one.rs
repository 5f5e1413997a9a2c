//! One request through a service, driven by hand: no runtime, no connection.

use std::{
    convert::Infallible,
    future::Future,
    future::{Ready, ready},
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{Empty, Full};
use tower::{Layer, Service, limit::ConcurrencyLimit, util::MapResponse};
use tower_policy_queue::{PolicyConfig, PolicyQueue, PolicyQueueLayer};

pub type RequestBody = Empty<Bytes>;

/// Answers at once, with one frame.
#[derive(Clone, Copy)]
pub struct Noop;

impl<B> Service<Request<B>> for Noop {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Where a handler would look at it.
        drop(std::hint::black_box(request));
        ready(Ok(Response::new(Full::new(Bytes::from_static(b"hello")))))
    }
}

/// What other middleware may have put into the extensions of a message.
#[derive(Clone, Copy)]
struct Mark;

type Answer = Response<Full<Bytes>>;

pub type Marking = MapResponse<Noop, fn(Answer) -> Answer>;

/// The same, with a response that has extensions already.
pub fn marking() -> Marking {
    MapResponse::new(Noop, |mut response| {
        response.extensions_mut().insert(Mark);
        response
    })
}

/// Slots that are enough for everybody.
const MANY: usize = 1000;

/// The layer, with slots for everybody.
pub fn ours() -> PolicyQueue<Noop> {
    limited(MANY, MANY)
}

/// The same around another service.
pub fn ours_around<S>(inner: S) -> PolicyQueue<S> {
    layer(MANY, MANY).layer(inner)
}

/// The layer, with so many slots, and room for so many to wait.
pub fn limited(slots: usize, waiting: usize) -> PolicyQueue<Noop> {
    layer(slots, waiting).layer(Noop)
}

fn layer(slots: usize, waiting: usize) -> PolicyQueueLayer {
    PolicyQueueLayer::new(policy(slots, waiting))
}

/// One dominion, with so many slots, and room for so many to wait.
pub fn policy(slots: usize, waiting: usize) -> PolicyConfig {
    let policy = format!(
        "dominions: [{{id: pool, kind: remote, max_concurrency: {slots}, max_queue: {waiting}}}]"
    );
    policy.parse().expect("the policy is valid")
}

pub fn towers() -> ConcurrencyLimit<Noop> {
    towers_around(Noop)
}

pub fn towers_around<S>(inner: S) -> ConcurrencyLimit<S> {
    ConcurrencyLimit::new(inner, MANY)
}

/// A whole request: the service's readiness, the response's head, and the body to the end.
pub fn request<S, B>(service: &mut S)
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body,
{
    send(service, Request::new(Empty::new()));
}

/// The same with a request that has extensions already.
pub fn marked_request<S, B>(service: &mut S)
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body,
{
    let mut request = Request::new(Empty::new());
    request.extensions_mut().insert(Mark);
    send(service, request);
}

fn send<S, B>(service: &mut S, request: Request<RequestBody>)
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body,
{
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(service.poll_ready(cx).is_ready());
    let Poll::Ready(Ok(response)) = pin!(service.call(request)).poll(cx) else {
        panic!("a slot is free");
    };
    let mut body = pin!(response.into_body());
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(cx) {
        let _ = std::hint::black_box(frame.is_ok());
    }
}
