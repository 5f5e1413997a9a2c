//! The response to who is turned away may be anything.

use std::task::Poll;

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body::Body;
use tower::{Layer, Service, ServiceExt};
use tower_policy_queue::{
    DefaultResponseForRejection, NoClassifier, PolicyQueue, PolicyQueueLayer, Reason, Rejection,
    ResponseBody, ResponseForRejection,
};

use crate::{
    REJECTS,
    common::{
        bell::Polled,
        desk::{Desk, get, policy},
        feed::FedBody,
        json,
    },
};

fn refused_by<C, R>(mut service: PolicyQueue<Desk, C, R>) -> Response<ResponseBody<FedBody>>
where
    C: tower_policy_queue::Classify<crate::common::NoBody>,
    R: ResponseForRejection<FedBody> + Clone,
{
    let mut running = Polled::new(service.call(get("running")));
    assert!(running.poll().is_pending());
    service
        .oneshot(get("refused"))
        .now_or_never()
        .expect("it is turned away at once")
        .unwrap()
}

#[test]
fn a_closure_makes_the_response() {
    let layer = PolicyQueueLayer::new(policy(REJECTS)).on_rejection(|rejection: &Rejection| {
        let mut response = Response::new(FedBody::full("come back later"));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
            .headers_mut()
            .insert("x-code", HeaderValue::from_static(rejection.code()));
        response
    });
    let response = refused_by(layer.layer(Desk::default()));
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    assert_eq!(response.headers()["x-code"], "queue_rejected");
    assert!(
        response.headers().get("content-type").is_none(),
        "nothing is added to it"
    );
    let rejection = response.extensions().get::<Rejection>();
    assert!(
        matches!(rejection.map(Rejection::reason), Some(Reason::QueueRejected { dominion: Some(id), .. }) if &**id == "pool"),
        "but the typed reason, for layers outside"
    );
    match Polled::new(response.into_body()).poll_frame() {
        Poll::Ready(Some(Ok(frame))) => assert_eq!(frame.into_data().unwrap(), "come back later"),
        other => panic!("{other:?}"),
    }
}

/// A line of text, whatever the body of the service.
#[derive(Clone)]
struct PlainText;

impl<B> ResponseForRejection<B> for PlainText {
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>> {
        Response::new(Bytes::from(rejection.code()).into())
    }
}

#[test]
fn a_type_makes_the_response_for_any_body() {
    let layer = PolicyQueueLayer::new(policy(REJECTS)).on_rejection(PlainText);
    let response = refused_by(layer.layer(Desk::default()));
    assert!(response.extensions().get::<Rejection>().is_some());
    let body = response.into_body();
    assert_eq!(body.size_hint().exact(), Some(14));
    let mut body = Polled::new(body);
    match body.poll_frame() {
        Poll::Ready(Some(Ok(frame))) => assert_eq!(frame.into_data().unwrap(), "queue_rejected"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
}

/// The default response, with advice.
#[derive(Clone)]
struct WithRetryAfter;

impl<B> ResponseForRejection<B> for WithRetryAfter {
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>> {
        let mut response = DefaultResponseForRejection::default().response_for_rejection(rejection);
        response
            .headers_mut()
            .insert("retry-after", HeaderValue::from_static("3"));
        response
    }
}

#[test]
fn a_type_may_build_on_the_default_response() {
    let layer = PolicyQueueLayer::new(policy(REJECTS)).on_rejection(WithRetryAfter);
    let response = refused_by(layer.layer(Desk::default()));
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "3");
    assert_eq!(
        json(response.into_body())["error"]["code"],
        "queue_rejected"
    );
}

#[test]
fn to_a_head_request_nobody_s_response_has_a_body() {
    fn head_refused_by<R>(
        layer: PolicyQueueLayer<NoClassifier, R>,
    ) -> Response<ResponseBody<FedBody>>
    where
        R: ResponseForRejection<FedBody> + Clone,
    {
        let mut service = layer.layer(Desk::default());
        let mut running = Polled::new(service.call(get("running")));
        assert!(running.poll().is_pending());
        let mut request = get("refused");
        *request.method_mut() = Method::HEAD;
        let response = service.call(request).now_or_never();
        response.expect("it is turned away at once").unwrap()
    }
    let layer = PolicyQueueLayer::new(policy(REJECTS));
    let said = head_refused_by(layer.clone());
    assert!(said.body().is_end_stream());
    assert_eq!(said.headers()["content-type"], "application/json");
    assert!(said.headers().contains_key("content-length"));
    assert!(said.extensions().get::<Rejection>().is_some());

    let said = head_refused_by(
        layer
            .clone()
            .on_rejection(|_: &Rejection| Response::new(FedBody::full("come back later"))),
    );
    assert!(said.body().is_end_stream());
    let declared = |_: &Rejection| {
        let mut response = Response::new(FedBody::empty());
        response
            .headers_mut()
            .insert("content-length", HeaderValue::from_static("7"));
        response
    };
    let said = head_refused_by(layer.on_rejection(declared));
    assert_eq!(said.headers()["content-length"], "7", "as its maker has it");
}
