//! A handler that panics costs its own connection, or nothing at all, and never a slot.

use std::convert::Infallible;

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tower::{Layer, ServiceBuilder, ServiceExt};
use tower_http::catch_panic::CatchPanicLayer;
use tower_policy_queue::{PolicyQueueLayer, Rejection};

use crate::{
    common::{
        desk::policy,
        feed::{Broken, Feed},
    },
    stage::{
        Connection, PROTOCOLS, Protocol, Stage, content, handler, head, serve, soon, text, whole,
    },
};

#[tokio::test]
async fn a_handler_that_panics_before_the_head_gives_the_slot_back() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("panics");
        stage.orders.next().await.serve(|_| panic!("{Broken}"));
        assert!(
            soon("an error", sent).await.unwrap().is_err(),
            "{protocol:?}"
        );
        stage.slot_is_free_soon().await;
        serves_the_next(&mut stage, protocol).await;
    }
}

#[tokio::test]
async fn a_body_that_panics_gives_the_slot_back() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("panics");
        let feed = Feed::new();
        stage.orders.next().await.answer(content(feed.body()));
        let mut body = head(sent).await.into_body();
        feed.data("token");
        assert!(soon("a frame", body.frame()).await.unwrap().is_ok());
        feed.panic();
        let failure = soon("the failure", body.frame()).await;
        assert!(failure.is_some_and(|frame| frame.is_err()), "{protocol:?}");
        stage.slot_is_free_soon().await;
        serves_the_next(&mut stage, protocol).await;
    }
}

async fn serves_the_next(stage: &mut Stage, protocol: Protocol) {
    let mut client = Connection::open(protocol, stage.address).await;
    let sent = client.get("next");
    stage.orders.next().await.answer(text("fine"));
    assert_eq!(
        whole(head(sent).await.into_body()).await,
        "fine",
        "{protocol:?}"
    );
    assert!(!stage.slot_is_taken());
}

#[tokio::test]
async fn a_panic_that_is_caught_outside_or_inside_gives_the_slot_back() {
    let yaml = "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";
    for caught_inside in [false, true] {
        let layer = PolicyQueueLayer::new(policy(yaml));
        let (handler, mut orders) = handler();
        let flatten = tower::util::MapResponseLayer::new(|response: http::Response<_>| {
            response.map(|body| BodyExt::map_err(body, |_| Broken).boxed_unsync())
        });
        let address = if caught_inside {
            let inner = ServiceBuilder::new()
                .layer(flatten)
                .layer(CatchPanicLayer::new());
            serve(layer.layer(inner.service(handler))).await
        } else {
            let outer = ServiceBuilder::new()
                .layer(flatten)
                .layer(CatchPanicLayer::new());
            serve(outer.service(layer.layer(handler))).await
        };

        let mut client = Connection::open(Protocol::Http1, address).await;
        for _ in 0..3 {
            let sent = client.get("panics");
            orders.next().await.serve(|_| panic!("{Broken}"));
            let response = head(sent).await;
            assert_eq!(response.status(), 500, "caught inside: {caught_inside}");
            whole(response.into_body()).await;
        }
        let sent = client.get("next");
        orders.next().await.answer(text("fine"));
        assert_eq!(whole(head(sent).await.into_body()).await, "fine");
    }
}

#[tokio::test]
async fn a_panicking_classifier_harms_one_connection() {
    let yaml = "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";
    let classify = |request: &Request<Incoming>| {
        assert!(request.uri().path() != "/odd", "{Broken}");
        tower_policy_queue::QueueHints::default()
    };
    let layer = PolicyQueueLayer::new(policy(yaml)).classifier(classify);
    let (handler, mut orders) = handler();
    let service = layer.layer(handler).map_err(|never: Infallible| never);
    let address = serve(service).await;

    let mut client = Connection::open(Protocol::Http1, address).await;
    assert!(soon("an error", client.get("odd")).await.unwrap().is_err());
    let mut client = Connection::open(Protocol::Http1, address).await;
    let sent = client.get("next");
    orders.next().await.answer(text("fine"));
    let response = head(sent).await;
    assert!(response.extensions().get::<Rejection>().is_none());
    assert_eq!(whole(response.into_body()).await, "fine");
}
