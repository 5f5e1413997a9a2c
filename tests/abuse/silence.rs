//! Clients that are connected and say nothing, say it a byte at a time, or do not listen.

use std::{convert::Infallible, future::pending, task::Poll};

use bytes::Bytes;
use futures::{
    channel::mpsc::{UnboundedSender, unbounded},
    stream,
};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::{Layer, Service, service_fn};
use tower_policy_queue::{PolicyQueueLayer, Rejection, RequestBody};

use crate::{
    common::{bell::Polled, desk::policy, feed::Broken},
    stage::{Connection, Protocol, Stage, content, head, soon, text, whole},
};

/// One class with these fields, and a dominion with these.
fn chat(class: &str, dominion: &str) -> String {
    format!(
        "
default_policy_family: chat
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: chat, policy_family: chat, cache_bucket: any, quantum: 100, {class}}}
dominions: [{{id: pool, kind: remote, {dominion}}}]
"
    )
}

/// A client that announces a body and never sends it.
async fn silent(stage: &Stage) -> TcpStream {
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let request = "POST /silent HTTP/1.1\r\nhost: test\r\ncontent-length: 65536\r\n\
                   x-promptforge-client: silent\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

/// The code of the answer, after which the connection is closed, as its request was not read.
async fn code(mut socket: TcpStream) -> String {
    let mut answer = String::new();
    soon("the answer", socket.read_to_string(&mut answer))
        .await
        .unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    let error: Value = serde_json::from_str(body).unwrap();
    error["error"]["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_body_that_never_comes_keeps_a_place_in_the_queue_no_longer_than_its_class_allows() {
    let policy = chat("max_queue_wait_ms: 50", "max_concurrency: 1, max_queue: 5");
    let mut stage = Stage::with(&policy).await;
    let mut client = Connection::open(Protocol::Http1, stage.address).await;
    let running = client.get("running");
    let order = stage.orders.next().await;

    let mut silents = Vec::new();
    for _ in 0..5 {
        silents.push(silent(&stage).await);
    }
    for socket in silents {
        assert_eq!(code(socket).await, "queue_timeout");
    }
    assert_eq!(stage.usage().waiting, 0);
    assert_eq!(stage.usage().read_ahead_bytes, 0);

    order.answer(text("done"));
    assert_eq!(whole(head(running).await.into_body()).await, "done");
    let next = client.get("next");
    stage.orders.next().await.answer(text("served"));
    assert_eq!(whole(head(next).await.into_body()).await, "served");
}

#[tokio::test]
async fn parked_bodies_that_never_come_hold_up_no_other_client() {
    let policy = chat(
        "max_queue_wait_ms: 60000",
        "max_concurrency: 1, max_queue: 10",
    );
    let mut stage = Stage::with(&policy).await;
    let mut client = Connection::open(Protocol::Http1, stage.address).await;
    let running = client.get("running");
    let order = stage.orders.next().await;
    let mut silents = Vec::new();
    for waiting in 1..=5 {
        silents.push(silent(&stage).await);
        let what = "the silent one waits";
        stage
            .usage_soon(what, |usage| usage.waiting == waiting)
            .await;
    }
    let mut honest = Connection::open(Protocol::Http1, stage.address).await;
    let sent = honest.get("honest");
    stage
        .usage_soon("it waits", |usage| usage.waiting == 6)
        .await;

    // The first of the silent ones has the first turn; an answer needs no body, and ends it.
    order.answer(text("done"));
    assert_eq!(whole(head(running).await.into_body()).await, "done");
    let first = stage.orders.next().await;
    assert_eq!(first.path, "silent");
    first.answer(text("no need"));
    let second = stage.orders.next().await;
    assert_eq!(second.path, "honest", "and the honest one the second");
    second.answer(text("served"));
    assert_eq!(whole(head(sent).await.into_body()).await, "served");
}

#[tokio::test]
async fn admitted_bodies_that_never_come_keep_their_slots_no_longer_than_the_longest_hold() {
    let policy = chat("max_hold_ms: 50", "max_concurrency: 2, max_queue: 10");
    let mut stage = Stage::with(&policy).await;
    let mut silents = Vec::new();
    let mut orders = Vec::new();
    for _ in 0..2 {
        silents.push(silent(&stage).await);
        // The handler waits for a body: it does not answer.
        orders.push(stage.orders.next().await);
    }
    let mut honest = Connection::open(Protocol::Http1, stage.address).await;
    let sent = honest.get("honest");
    let order = stage.orders.next().await;
    assert_eq!(order.path, "honest");
    order.answer(text("served"));
    assert_eq!(whole(head(sent).await.into_body()).await, "served");

    for (socket, order) in silents.into_iter().zip(orders) {
        assert_eq!(code(socket).await, "hold_timeout");
        order.abandoned().await;
    }
    assert_eq!(stage.usage(), Default::default());
}

#[tokio::test]
async fn as_many_readers_that_never_read_as_there_are_slots_lose_them_to_who_waits() {
    let policy = chat("max_hold_ms: 50", "max_concurrency: 2, max_queue: 10");
    let mut stage = Stage::with(&policy).await;
    let mut readers = Vec::new();
    for _ in 0..2 {
        let mut reader = Connection::open(Protocol::Http1, stage.address).await;
        let sent = reader.get("endless");
        let endless = stream::repeat_with(|| {
            Ok::<_, Broken>(Frame::data(Bytes::from_static(&[0; 64 * 1024])))
        });
        let body = content(StreamBody::new(endless));
        stage.orders.next().await.answer(body);
        readers.push((reader, head(sent).await));
    }
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Connection::open(Protocol::Http1, stage.address).await;
        let sent = client.get("honest");
        clients.push((client, sent));
    }
    for (_client, sent) in clients {
        let order = stage.orders.next().await;
        assert_eq!(order.path, "honest");
        order.answer(text("served"));
        assert_eq!(whole(head(sent).await.into_body()).await, "served");
    }
    stage
        .usage_soon("nobody has a slot", |usage| usage.slots_in_use == 0)
        .await;
}

const PLACES: usize = 20;
const KIB: usize = 1024;

#[tokio::test]
async fn slow_clients_by_the_hundred_are_bounded_by_the_queue_and_the_memory_for_their_bodies() {
    const TOTAL: usize = 64 * KIB;
    let mut yaml = chat("", &format!("max_concurrency: 1, max_queue: {PLACES}"));
    yaml += &format!("read_ahead_total_bytes: {TOTAL}");
    let mut stage = Stage::with(&yaml).await;
    let mut client = Connection::open(Protocol::Http1, stage.address).await;
    let running = client.get("running");
    let order = stage.orders.next().await;

    let mut parked = Vec::new();
    for waiting in 1..=PLACES {
        parked.push(silent(&stage).await);
        let what = "the slow one waits";
        stage
            .usage_soon(what, |usage| usage.waiting == waiting)
            .await;
    }
    // Those that find the queue full are answered while they are still silent.
    let mut late = Vec::new();
    for _ in PLACES..100 {
        late.push(silent(&stage).await);
    }
    for socket in late {
        assert_eq!(code(socket).await, "queue_full");
    }

    // A little at a time, all of it never.
    for _ in 0..16 {
        for socket in &mut parked {
            socket.write_all(&[7; KIB]).await.unwrap();
            let read_ahead = stage.usage().read_ahead_bytes;
            // And the frame that crosses it: here no more than all that one client ever sends.
            assert!(read_ahead < TOTAL + 16 * KIB, "{read_ahead}");
        }
    }
    stage
        .usage_soon("the memory is used up", |usage| {
            usage.read_ahead_bytes >= TOTAL
        })
        .await;
    assert!(stage.usage().read_ahead_bytes < TOTAL + 16 * KIB);
    assert_eq!(stage.usage().waiting, PLACES);

    order.answer(text("done"));
    assert_eq!(whole(head(running).await.into_body()).await, "done");
}

type Feed = UnboundedSender<Result<Frame<Bytes>, Infallible>>;

#[test]
fn what_slow_clients_have_in_memory_is_the_budget_and_one_frame() {
    const TOTAL: usize = 16 * KIB;
    let yaml = format!(
        "dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: {PLACES}}}]
read_ahead_bytes: 4096
read_ahead_total_bytes: {TOTAL}"
    );
    let layer = PolicyQueueLayer::new(policy(&yaml));
    let usage = || layer.handle().usage();
    let inner = |request: Request<RequestBody<StreamBody<_>>>| async move {
        let _unread = request;
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(http_body_util::Empty::<Bytes>::new()))
    };
    let mut service = layer.layer(service_fn(inner));
    let mut send = || {
        let (feed, frames) = unbounded::<Result<Frame<Bytes>, Infallible>>();
        let feed: Feed = feed;
        (
            Polled::new(service.call(Request::new(StreamBody::new(frames)))),
            feed,
        )
    };

    let mut running = send();
    assert!(running.0.poll().is_pending());
    let (mut parked, mut turned_away) = (Vec::new(), 0);
    for _ in 0..500 {
        let (mut polled, feed) = send();
        match polled.poll() {
            Poll::Pending => parked.push((polled, feed)),
            Poll::Ready(response) => {
                let rejection: Option<Rejection> = response.unwrap().extensions().get().cloned();
                assert_eq!(rejection.unwrap().code(), "queue_full");
                turned_away += 1;
            }
        }
    }
    assert_eq!((parked.len(), turned_away), (PLACES, 500 - PLACES));

    // One small frame of each, round after round.
    for _ in 0..64 {
        for (polled, feed) in &mut parked {
            let frame = Frame::data(Bytes::from_static(&[7; 300]));
            feed.unbounded_send(Ok(frame)).unwrap();
            assert!(polled.poll().is_pending());
            assert!(usage().read_ahead_bytes < TOTAL + 300);
        }
    }
    assert!(usage().read_ahead_bytes >= TOTAL, "it is used up");
    drop(parked);
    assert_eq!(usage().read_ahead_bytes, 0);
    assert_eq!(usage().waiting, 0);
}
