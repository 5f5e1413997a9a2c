//! The slot comes back when hyper is through with the body.

use http::{Method, Response};
use http_body_util::BodyExt;

use crate::{
    common::feed::{FedBody, Feed},
    stage::{Connection, PROTOCOLS, Protocol, Stage, content, head, soon, text, whole},
};

#[tokio::test]
async fn a_full_body_gives_the_slot_back_by_the_time_it_is_read() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("full");
        let order = stage.orders.next().await;
        assert!(stage.slot_is_taken(), "{protocol:?}");
        order.answer(text("all of it"));
        assert_eq!(whole(head(sent).await.into_body()).await, "all of it");
        assert!(
            !stage.slot_is_taken(),
            "while the connection stays open: {protocol:?}"
        );
    }
}

#[tokio::test]
async fn a_stream_keeps_the_next_request_waiting_until_it_ends() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let mut other = Connection::open(protocol, stage.address).await;
        let sent = client.get("stream");
        let feed = Feed::new();
        stage.orders.next().await.answer(content(feed.body()));
        let mut body = head(sent).await.into_body();

        let second = other.get("second");
        stage.somebody_waits_soon().await;
        for _ in 0..10 {
            feed.data("token");
            let frame = soon("a frame", body.frame()).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), "token");
            assert!(
                stage.orders.none_now(),
                "the second request waits: {protocol:?}"
            );
            assert!(stage.slot_is_taken());
        }
        feed.end();
        assert_eq!(whole(body).await, "");

        let order = stage.orders.next().await;
        assert_eq!(order.path, "second", "{protocol:?}");
        order.answer(text("at last"));
        assert_eq!(whole(head(second).await.into_body()).await, "at last");
        assert!(!stage.slot_is_taken());
    }
}

#[tokio::test]
async fn responses_without_a_body_give_the_slot_back_with_their_head() {
    for protocol in PROTOCOLS {
        for (method, status) in [
            (Method::GET, 200),
            (Method::GET, 204),
            (Method::GET, 304),
            (Method::HEAD, 200),
        ] {
            let mut stage = Stage::new().await;
            let mut client = Connection::open(protocol, stage.address).await;
            let sent = client.send(method.clone(), "empty", "");
            stage.orders.next().await.serve(move |_| {
                let mut response = Response::new(content(FedBody::empty()));
                *response.status_mut() = status.try_into().unwrap();
                response
            });
            let response = head(sent).await;
            assert_eq!(response.status(), status);
            assert!(!stage.slot_is_taken(), "{protocol:?} {method} {status}");
        }
    }
}

#[tokio::test]
async fn a_body_that_may_not_be_sent_gives_the_slot_back_unread() {
    for (method, status) in [(Method::HEAD, 200), (Method::GET, 204), (Method::GET, 304)] {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(Protocol::Http1, stage.address).await;
        let sent = client.send(method.clone(), "unwanted", "");
        let feed = Feed::new();
        let body = feed.body();
        stage.orders.next().await.serve(move |_| {
            let mut response = Response::new(content(body));
            *response.status_mut() = status.try_into().unwrap();
            response
        });
        let _response = head(sent).await;
        stage.slot_is_free_soon().await;
    }
}

#[tokio::test]
async fn a_head_request_that_is_turned_away_is_told_by_the_headers_alone() {
    for protocol in PROTOCOLS {
        let mut stage =
            Stage::with("dominions: [{id: pool, max_concurrency: 1, policy: reject}]").await;
        let mut client = Connection::open(protocol, stage.address).await;
        let _running = client.get("running");
        let _order = stage.orders.next().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let response = head(client.send(Method::HEAD, "refused", "")).await;
        assert_eq!(response.status(), 429);
        let length: u64 = response.headers()["content-length"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!(length > 0, "that of the body there would be");
        assert_eq!(whole(response.into_body()).await, "", "{protocol:?}");
    }
}

#[tokio::test]
async fn trailers_arrive_and_the_slot_comes_back_after_them() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("trailers");
        let feed = Feed::new();
        let body = feed.body();
        stage.orders.next().await.serve(move |_| {
            let mut response = Response::new(content(body));
            response
                .headers_mut()
                .insert("trailer", "x-checksum".parse().unwrap());
            response
        });
        let mut body = head(sent).await.into_body();
        feed.data("token");
        assert!(
            soon("a frame", body.frame())
                .await
                .unwrap()
                .unwrap()
                .is_data()
        );
        assert!(stage.slot_is_taken());
        feed.trailers();
        feed.end();
        let trailers = soon("trailers", body.frame()).await.unwrap().unwrap();
        assert_eq!(
            trailers.into_trailers().unwrap()["x-checksum"],
            "42",
            "{protocol:?}"
        );
        stage.slot_is_free_soon().await;
    }
}

#[tokio::test]
async fn a_body_that_fails_half_way_gives_the_slot_back() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("broken");
        let feed = Feed::new();
        stage.orders.next().await.answer(content(feed.body()));
        let mut body = head(sent).await.into_body();
        feed.data("token");
        assert!(soon("a frame", body.frame()).await.unwrap().is_ok());
        assert!(stage.slot_is_taken());
        feed.error();
        let failure = soon("the failure", body.frame()).await;
        assert!(
            failure.is_some_and(|frame| frame.is_err()),
            "the client sees it: {protocol:?}"
        );
        assert!(!stage.slot_is_taken(), "{protocol:?}");
    }
}

#[tokio::test]
async fn requests_on_one_connection_share_the_limit_with_everybody() {
    let mut stage = Stage::new().await;
    let mut client = Connection::open(Protocol::Http2, stage.address).await;
    let first = client.get("first");
    let order = stage.orders.next().await;
    let second = client.get("second");
    stage.somebody_waits_soon().await;

    let mut other = Connection::open(Protocol::Http1, stage.address).await;
    let refused = head(other.get("third")).await;
    assert_eq!(
        refused.status(),
        503,
        "the slot and the place in the queue are taken"
    );
    let error: serde_json::Value =
        serde_json::from_slice(&whole(refused.into_body()).await).unwrap();
    assert_eq!(error["error"]["code"], "queue_full");

    order.answer(text("1"));
    assert_eq!(whole(head(first).await.into_body()).await, "1");
    let order = stage.orders.next().await;
    assert_eq!(order.path, "second");
    order.answer(text("2"));
    assert_eq!(whole(head(second).await.into_body()).await, "2");
}
