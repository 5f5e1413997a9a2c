//! The response to who is turned away may be anything.

use std::task::Poll;

use futures::FutureExt;
use http::{HeaderValue, Response, StatusCode};
use tower::{Layer, Service, ServiceExt};
use tower_policy_queue::{
    DefaultResponseForRejection, PolicyQueue, PolicyQueueLayer, Reason, Rejection, ResponseBody,
    ResponseForRejection,
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
