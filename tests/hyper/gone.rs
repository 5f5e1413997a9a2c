//! The client goes away, or stops reading.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures::stream;
use http::Method;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::task::yield_now;

use crate::{
    common::feed::{Broken, Feed},
    stage::{
        Connection, ONE_SLOT, PROTOCOLS, Protocol, Stage, content, forsake, head, soon, text, whole,
    },
};

#[tokio::test]
async fn a_client_gone_before_the_head_gives_the_slot_back() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let _sent = client.get("slow");
        let order = stage.orders.next().await;
        assert!(stage.slot_is_taken());
        client.close().await;
        order.abandoned().await;
        stage.slot_is_free_soon().await;
    }
}

#[tokio::test]
async fn a_client_gone_in_the_middle_of_the_body_gives_the_slot_back() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("stream");
        let feed = Feed::new();
        stage.orders.next().await.answer(content(feed.body()));
        let mut body = head(sent).await.into_body();
        feed.data("token");
        assert!(soon("a frame", body.frame()).await.unwrap().is_ok());
        assert!(stage.slot_is_taken());
        client.close().await;
        stage.slot_is_free_soon().await;
    }
}

#[tokio::test]
async fn a_client_gone_while_it_is_queued_leaves_the_queue() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let mut other = Connection::open(protocol, stage.address).await;
        let sent = client.get("first");
        let order = stage.orders.next().await;
        let _queued = other.get("queued");
        stage.somebody_waits_soon().await;
        other.close().await;
        stage.nobody_waits_soon().await;

        order.answer(text("done"));
        assert_eq!(whole(head(sent).await.into_body()).await, "done");
        assert!(!stage.slot_is_taken());
        assert!(
            stage.orders.none_now(),
            "it never reached the handler: {protocol:?}"
        );
    }
}

#[tokio::test]
async fn a_stream_reset_gives_the_slot_back_at_every_stage() {
    let mut stage = Stage::new().await;
    let mut client = Connection::open(Protocol::Http2, stage.address).await;

    let working = client.get("working");
    let order = stage.orders.next().await;
    let queued = client.get("queued");
    stage.somebody_waits_soon().await;
    forsake(queued).await;
    stage.nobody_waits_soon().await;
    forsake(working).await;
    order.abandoned().await;
    stage.slot_is_free_soon().await;

    let sent = client.get("streaming");
    let feed = Feed::new();
    stage.orders.next().await.answer(content(feed.body()));
    let mut body = head(sent).await.into_body();
    feed.data("token");
    assert!(soon("a frame", body.frame()).await.unwrap().is_ok());
    assert!(stage.slot_is_taken());
    drop(body);
    stage.slot_is_free_soon().await;

    let sent = client.get("next");
    stage.orders.next().await.answer(text("fine"));
    assert_eq!(
        whole(head(sent).await.into_body()).await,
        "fine",
        "on the same connection"
    );
}

#[tokio::test]
async fn a_client_that_stops_reading_keeps_its_slot_until_it_goes() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let mut client = Connection::open(protocol, stage.address).await;
        let sent = client.get("endless");
        let polled = Arc::new(AtomicUsize::new(0));
        let endless = StreamBody::new(stream::repeat_with({
            let polled = Arc::clone(&polled);
            move || {
                polled.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Broken>(Frame::data(Bytes::from_static(&[0; 64 * 1024])))
            }
        }));
        stage.orders.next().await.answer(content(endless));
        let response = head(sent).await;

        // The buffers on the way fill up, and then nobody asks for more.
        let mut seen = (0, 0);
        soon("the stream stalls", async {
            while seen.1 < 1000 {
                yield_now().await;
                let now = polled.load(Ordering::SeqCst);
                seen = if seen.0 == now {
                    (now, seen.1 + 1)
                } else {
                    (now, 0)
                };
            }
        })
        .await;
        assert!(seen.0 > 0, "it did start");
        assert!(
            stage.slot_is_taken(),
            "a stalled stream is still in flight: {protocol:?}"
        );

        drop(response);
        client.close().await;
        stage.slot_is_free_soon().await;
    }
}

#[tokio::test]
async fn a_client_whose_leaving_goes_unseen_costs_its_turn_and_no_more() {
    // Over HTTP/1, hyper does not look at the connection while a large body waits to be read.
    let mut stage = Stage::with(&format!("{ONE_SLOT}\nread_ahead_bytes: 0")).await;
    let mut client = Connection::open(Protocol::Http1, stage.address).await;
    let mut other = Connection::open(Protocol::Http1, stage.address).await;
    let sent = client.get("first");
    let order = stage.orders.next().await;
    let _queued = other.send(Method::POST, "unseen", vec![0; 1024 * 1024]);
    stage.somebody_waits_soon().await;
    other.close().await;

    order.answer(text("done"));
    assert_eq!(whole(head(sent).await.into_body()).await, "done");
    let mut third = Connection::open(Protocol::Http1, stage.address).await;
    let third = third.get("third");
    let mut order = stage.orders.next().await;
    if order.path == "unseen" {
        order.answer(text("to nobody"));
        order = stage.orders.next().await;
    }
    assert_eq!(order.path, "third");
    order.answer(text("fine"));
    assert_eq!(whole(head(third).await.into_body()).await, "fine");
    assert!(!stage.slot_is_taken());
}
