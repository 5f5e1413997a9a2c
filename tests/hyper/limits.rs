//! The ends of waiting, of holding, and of the whole layer, as clients see them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use serde_json::Value;

use crate::{
    common::feed::{Broken, FedBody, Feed},
    stage::{Connection, Content, PROTOCOLS, Stage, content, head, soon, text, whole},
};

const SOON: Duration = Duration::from_millis(50);

/// An answer of the layer itself.
async fn refused(response: Response<Incoming>, status: StatusCode, code: &str) {
    assert_eq!(response.status(), status);
    assert_eq!(response.headers()["x-policy-queue-reason"], code);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = whole(response.into_body()).await;
    let error: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(error["error"]["code"], code);
}

fn retry_after(response: &Response<Incoming>) -> u64 {
    response.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn endless() -> Content {
    let frame = || Ok::<_, Broken>(Frame::data(Bytes::from_static(&[0; 64 * 1024])));
    content(StreamBody::new(stream::repeat_with(frame)))
}

#[tokio::test]
async fn who_waited_as_long_as_it_may_is_answered_and_its_connection_goes_on() {
    let by_class = "max_queue_wait_ms: 50";
    let by_request = "headers: {max_queue_wait_ms: x-wait}";
    for (more, header) in [(by_class, "x-unknown"), (by_request, "x-wait")] {
        for protocol in PROTOCOLS {
            let pool = "{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}";
            let mut stage = Stage::with(&format!("dominions: [{pool}]\n{more}")).await;
            let mut client = Connection::open(protocol, stage.address).await;
            let mut other = Connection::open(protocol, stage.address).await;
            let sent = client.get("first");
            let order = stage.orders.next().await;

            let request = Request::get("/parked").header(header, "50");
            let request = request.body(content(FedBody::empty())).unwrap();
            let arrived = Instant::now();
            let parked = other.send_request(request);
            let response = head(parked).await;
            assert!(arrived.elapsed() >= SOON);
            assert!((1..=60).contains(&retry_after(&response)));
            refused(response, StatusCode::SERVICE_UNAVAILABLE, "queue_timeout").await;
            stage.nobody_waits_soon().await;

            order.answer(text("done"));
            assert_eq!(whole(head(sent).await.into_body()).await, "done");
            other.ready().await;
            let next = other.get("next");
            let order = stage.orders.next().await;
            assert_eq!(order.path, "next", "{protocol:?} {header}");
            order.answer(text("served"));
            assert_eq!(whole(head(next).await.into_body()).await, "served");
        }
    }
}

/// One slot, that nobody has for longer than 50 ms.
const SHORT_HOLDS: &str = "
    dominions: [{id: pool, kind: remote, max_concurrency: 1}]
    default_policy_family: all
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes:
      - {name: all, policy_family: all, cache_bucket: all, quantum: 512, max_hold_ms: 50}
";

#[tokio::test]
async fn a_reader_that_stops_reading_loses_its_slot_to_who_waits() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::with(SHORT_HOLDS).await;
        let mut slow = Connection::open(protocol, stage.address).await;
        let mut other = Connection::open(protocol, stage.address).await;
        let sent = slow.get("endless");
        stage.orders.next().await.answer(endless());
        let response = head(sent).await;

        // Nobody reads that response; the one who waits has to take the slot by itself.
        let waiting = other.send(Method::POST, "waiting", vec![7; 64 * 1024]);
        let order = stage.orders.next().await;
        assert_eq!(order.path, "waiting", "{protocol:?}");
        order.answer(text("served"));
        assert_eq!(whole(head(waiting).await.into_body()).await, "served");
        assert_eq!(stage.usage().slots_in_use, 0);

        let end = soon("the cut", response.into_body().collect()).await;
        assert!(
            end.is_err(),
            "the client sees that it was cut: {protocol:?}"
        );
    }
}

#[tokio::test]
async fn a_handler_without_an_answer_within_the_longest_hold_is_dropped() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::with(SHORT_HOLDS).await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("silent");
        let order = stage.orders.next().await;
        refused(
            head(sent).await,
            StatusCode::GATEWAY_TIMEOUT,
            "hold_timeout",
        )
        .await;
        order.abandoned().await;
        assert_eq!(stage.usage().slots_in_use, 0, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_shutdown_answers_who_waits_and_lets_the_streams_finish() {
    for protocol in PROTOCOLS {
        let yaml = "dominions: [{id: pool, kind: remote, max_concurrency: 2, max_queue: 10}]";
        let mut stage = Stage::with(yaml).await;
        let handle = stage.handle();
        let mut streams = Vec::new();
        for path in ["one", "two"] {
            let mut client = Connection::open(protocol, stage.address).await;
            let sent = client.get(path);
            let feed = Feed::new();
            stage.orders.next().await.answer(content(feed.body()));
            streams.push((client, feed, head(sent).await.into_body()));
        }
        let mut parked = Vec::new();
        for size in [0, 64 * 1024, 1024 * 1024] {
            let mut client = Connection::open(protocol, stage.address).await;
            let sent = client.send(Method::POST, "parked", vec![7; size]);
            parked.push((client, sent));
        }
        // With their bodies: a connection with an unread one does not go on.
        stage
            .usage_soon("they wait", |usage| {
                usage.waiting == 3 && usage.read_ahead_bytes == 64 * 1024 + 1024 * 1024
            })
            .await;

        handle.shutdown();
        let drained = tokio::spawn(async move { handle.drained().await });
        for (mut client, sent) in parked {
            let response = head(sent).await;
            assert!((1..=60).contains(&retry_after(&response)));
            refused(
                response,
                StatusCode::SERVICE_UNAVAILABLE,
                "queue_unavailable",
            )
            .await;
            client.ready().await;
            let response = head(client.get("late")).await;
            refused(
                response,
                StatusCode::SERVICE_UNAVAILABLE,
                "queue_unavailable",
            )
            .await;
        }
        assert_eq!(stage.usage().read_ahead_bytes, 0);

        for (_client, feed, mut body) in streams {
            assert!(
                !drained.is_finished(),
                "a stream is under way: {protocol:?}"
            );
            feed.data("token");
            let frame = soon("a frame", body.frame()).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), "token");
            feed.end();
            assert_eq!(whole(body).await, "");
        }
        soon("it is drained", drained).await.unwrap();
        assert!(stage.orders.none_now());
    }
}
