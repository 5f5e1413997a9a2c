//! The bodies of parked requests are read ahead, so that hyper goes on looking at the connection.

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Body;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use crate::{
    common::feed::{Broken, Feed},
    stage::{
        Asked, Connection, Content, Order, PROTOCOLS, Protocol, Sent, Stage, content, forsake,
        head, soon, text, whole,
    },
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// One slot, a queue, and a path around them.
const QUEUE: &str = "
    dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 10}]
    bypass: [/around]
";

/// Bytes that show when some of them are missing, doubled or out of order.
fn pattern(bytes: usize) -> Bytes {
    (0..bytes)
        .map(|index| (index % 251) as u8 ^ (index / 251) as u8)
        .collect()
}

/// A body whose frames the test sends while it is under way.
fn open_body() -> (UnboundedSender<Result<Frame<Bytes>, Broken>>, Content) {
    let (feed, frames) = unbounded();
    (feed, content(StreamBody::new(frames)))
}

fn post(path: &str) -> http::request::Builder {
    Request::post(format!("/{path}"))
}

/// Takes the only slot.
async fn take_the_slot(stage: &mut Stage) -> (Sent, Order) {
    let mut client = Connection::open(Protocol::Http1, stage.address).await;
    let sent = client.get("first");
    (sent, stage.orders.next().await)
}

/// Gives it back.
async fn give_the_slot_back((sent, order): (Sent, Order)) {
    order.answer(text("done"));
    assert_eq!(whole(head(sent).await.into_body()).await, "done");
}

/// Has the handler begin its response and give its request to the test. The response ends with the
/// feed's.
async fn take_over(order: Order) -> (Request<Asked>, Feed) {
    let (hand, handed) = oneshot::channel();
    let feed = Feed::new();
    let body = content(feed.body());
    order.serve(move |request| {
        hand.send(request).unwrap();
        Response::new(body)
    });
    let request = soon("the handler has it", handed).await.unwrap();
    (request, feed)
}

/// Whether a body says from the start how large it is.
#[derive(Clone, Copy, PartialEq)]
enum Length {
    Known,
    Unknown,
}

/// Reads a body of which `expected` is the data. At each step it must tell the truth about the rest.
async fn read(mut body: Asked, expected: &Bytes, length: Length) -> HeaderMap {
    let mut read = Vec::new();
    let mut trailers = HeaderMap::new();
    loop {
        let rest = (expected.len() - read.len()) as u64;
        let hint = body.size_hint();
        assert!(hint.lower() <= rest && hint.upper().is_none_or(|upper| rest <= upper));
        assert!(length == Length::Unknown || hint.exact() == Some(rest));
        assert!(!body.is_end_stream() || rest == 0);
        let Some(frame) = soon("a frame", body.frame()).await else {
            break;
        };
        match frame.unwrap().into_data() {
            Ok(data) => read.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().unwrap(),
        }
        assert!(read.len() <= expected.len());
    }
    assert!(read == *expected, "the bytes are the same");
    trailers
}

#[tokio::test]
async fn a_parked_client_that_goes_away_leaves_the_queue_however_large_its_body() {
    for protocol in PROTOCOLS {
        for size in [8 * KIB, 64 * KIB, MIB] {
            let mut stage = Stage::new().await;
            let first = take_the_slot(&mut stage).await;
            let mut client = Connection::open(protocol, stage.address).await;
            let _parked = client.send(Method::POST, "parked", pattern(size));
            stage
                .usage_soon("the body is read", |usage| usage.read_ahead_bytes == size)
                .await;
            client.close().await;
            stage.nobody_waits_soon().await;
            assert_eq!(
                stage.usage().read_ahead_bytes,
                0,
                "{protocol:?} {size} bytes"
            );

            give_the_slot_back(first).await;
            assert!(
                stage.orders.none_now(),
                "it never reached the handler: {protocol:?} {size} bytes"
            );
        }
    }
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_its_parked_body_leaves_the_queue() {
    for protocol in PROTOCOLS {
        let mut stage = Stage::new().await;
        let first = take_the_slot(&mut stage).await;
        let mut client = Connection::open(protocol, stage.address).await;
        let (feed, body) = open_body();
        let _parked = client.send_request(post("parked").body(body).unwrap());
        feed.unbounded_send(Ok(Frame::data(pattern(64 * KIB))))
            .unwrap();
        stage
            .usage_soon("the first half is read", |usage| {
                usage.read_ahead_bytes == 64 * KIB
            })
            .await;
        assert_eq!(stage.usage().waiting, 1);
        client.close().await;
        stage.nobody_waits_soon().await;
        assert_eq!(stage.usage().read_ahead_bytes, 0, "{protocol:?}");

        give_the_slot_back(first).await;
        assert!(stage.orders.none_now(), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_parked_client_is_asked_for_the_body_that_it_holds_back_and_is_seen_to_leave() {
    for sends_it in [true, false] {
        let mut stage = Stage::new().await;
        let first = take_the_slot(&mut stage).await;
        let mut socket = TcpStream::connect(stage.address).await.unwrap();
        let request = "POST /parked HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 65536\r\n\r\n";
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut interim = [0; 25];
        soon("the interim answer", socket.read_exact(&mut interim))
            .await
            .unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(stage.usage().waiting, 1);
        if sends_it {
            socket.write_all(&pattern(64 * KIB)).await.unwrap();
            stage
                .usage_soon("the body is read", |usage| {
                    usage.read_ahead_bytes == 64 * KIB
                })
                .await;
        }
        drop(socket);
        stage.nobody_waits_soon().await;
        assert_eq!(stage.usage().read_ahead_bytes, 0);

        give_the_slot_back(first).await;
        assert!(stage.orders.none_now());
    }
}

#[tokio::test]
async fn a_client_that_held_its_body_back_is_served_with_it_after_the_park() {
    let mut stage = Stage::new().await;
    let first = take_the_slot(&mut stage).await;
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let request = "POST /parked HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 65536\r\n\
                   connection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    soon("the interim answer", socket.read_exact(&mut interim))
        .await
        .unwrap();
    socket.write_all(&pattern(64 * KIB)).await.unwrap();
    stage
        .usage_soon("the body is read", |usage| {
            usage.read_ahead_bytes == 64 * KIB
        })
        .await;

    give_the_slot_back(first).await;
    let (request, feed) = take_over(stage.orders.next().await).await;
    read(request.into_body(), &pattern(64 * KIB), Length::Known).await;
    feed.data("served");
    feed.end();
    let mut answer = Vec::new();
    soon("the answer", socket.read_to_end(&mut answer))
        .await
        .unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("served"),
        "asked for the body once: {answer}"
    );
}

#[tokio::test]
async fn a_request_that_starts_at_once_is_not_read_ahead() {
    let mut stage = Stage::new().await;
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let request = "POST /unread HTTP/1.1\r\nhost: test\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\
                   connection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let order = stage.orders.next().await;
    assert_eq!(stage.usage().read_ahead_bytes, 0);
    order.answer(text("no need"));
    let mut answer = Vec::new();
    soon("the answer", socket.read_to_end(&mut answer))
        .await
        .unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n"),
        "nobody asked for the body: {answer}"
    );
}

#[tokio::test]
async fn a_connection_with_room_is_not_blocked_by_what_is_parked_however_much_it_sends() {
    for (uploads, total) in [(vec![3 * MIB], 64 * MIB), (vec![2 * MIB; 5], KIB)] {
        let policy = format!("{QUEUE}\n    read_ahead_total_bytes: {total}");
        let mut stage = Stage::with_room(&policy).await;
        let mut client = Connection::open(Protocol::Http2, stage.address).await;
        // The one with the slot sends its body in two parts, the second when others are parked.
        let (feed, body) = open_body();
        let running = client.send_request(post("running").body(body).unwrap());
        feed.unbounded_send(Ok(Frame::data(pattern(KIB)))).unwrap();
        let (request, answer) = take_over(stage.orders.next().await).await;
        let mut body = request.into_body();
        soon("its first part", body.frame()).await.unwrap().unwrap();

        let parked: Vec<_> = uploads
            .iter()
            .map(|&size| client.send(Method::POST, "parked", pattern(size)))
            .collect();
        let ahead = (uploads.len() * MIB).min(total);
        stage
            .usage_soon("they are read as far as may be", |usage| {
                usage.waiting == uploads.len() && usage.read_ahead_bytes >= ahead
            })
            .await;

        feed.unbounded_send(Ok(Frame::data(pattern(KIB)))).unwrap();
        feed.close_channel();
        let rest = soon("its second part", body.collect()).await.unwrap();
        assert_eq!(rest.to_bytes(), pattern(KIB));
        answer.end();
        assert_eq!(whole(head(running).await.into_body()).await, "");
        for (&size, sent) in uploads.iter().zip(parked) {
            let (request, feed) = take_over(stage.orders.next().await).await;
            read(request.into_body(), &pattern(size), Length::Known).await;
            feed.end();
            assert_eq!(whole(head(sent).await.into_body()).await, "");
        }
    }
}

#[tokio::test]
async fn parked_uploads_do_not_block_the_other_streams_of_their_connection() {
    // One of 1 MiB; 2 MiB in all; 2 MB at once, of which 1 MiB is read ahead.
    for uploads in [vec![MIB], vec![MIB / 2; 4], vec![2_000_000]] {
        let mut stage = Stage::with(QUEUE).await;
        let first = take_the_slot(&mut stage).await;
        let mut client = Connection::open(Protocol::Http2, stage.address).await;
        let parked: Vec<_> = uploads
            .iter()
            .map(|&size| client.send(Method::POST, "parked", pattern(size)))
            .collect();
        let ahead: usize = uploads.iter().map(|&size| size.min(MIB)).sum();
        stage
            .usage_soon("they are read as far as may be", |usage| {
                usage.waiting == uploads.len() && usage.read_ahead_bytes >= ahead
            })
            .await;

        let other = client.send(Method::POST, "around", pattern(64 * KIB));
        let order = stage.orders.next().await;
        assert_eq!(order.path, "around", "{uploads:?}");
        let (request, feed) = take_over(order).await;
        read(request.into_body(), &pattern(64 * KIB), Length::Known).await;
        feed.end();
        assert_eq!(whole(head(other).await.into_body()).await, "");
        assert_eq!(stage.usage().waiting, uploads.len());

        give_the_slot_back(first).await;
        for (&size, sent) in uploads.iter().zip(parked) {
            let (request, feed) = take_over(stage.orders.next().await).await;
            read(request.into_body(), &pattern(size), Length::Known).await;
            feed.end();
            assert_eq!(whole(head(sent).await.into_body()).await, "");
        }
        assert_eq!(stage.usage().read_ahead_bytes, 0, "{uploads:?}");
    }
}

#[tokio::test]
async fn the_handler_gets_a_body_of_known_length_as_it_was_sent() {
    // Read ahead to its end, and in part.
    for limit in [MIB, 64 * KIB, 1] {
        for protocol in PROTOCOLS {
            for size in [1, 10 * KIB, MIB] {
                let mut stage =
                    Stage::with(&format!("{QUEUE}\n    read_ahead_bytes: {limit}")).await;
                let first = take_the_slot(&mut stage).await;
                let mut client = Connection::open(protocol, stage.address).await;
                let parked = client.send(Method::POST, "parked", pattern(size));
                let ahead = size.min(limit);
                stage
                    .usage_soon("it is read", |usage| usage.read_ahead_bytes >= ahead)
                    .await;

                give_the_slot_back(first).await;
                let (request, feed) = take_over(stage.orders.next().await).await;
                assert_eq!(request.headers()["content-length"], size.to_string());
                let body = request.into_body();
                read(body, &pattern(size), Length::Known).await;
                assert_eq!(stage.usage().read_ahead_bytes, 0);
                feed.end();
                assert_eq!(whole(head(parked).await.into_body()).await, "");
            }
        }
    }
}

#[tokio::test]
async fn the_handler_gets_a_streamed_body_and_its_trailers_as_they_were_sent() {
    for limit in [MIB, 64 * KIB] {
        for protocol in PROTOCOLS {
            // The rest of the body comes while the request is parked, or afterwards.
            for early in [true, false] {
                let mut stage =
                    Stage::with(&format!("{QUEUE}\n    read_ahead_bytes: {limit}")).await;
                let first = take_the_slot(&mut stage).await;
                let mut client = Connection::open(protocol, stage.address).await;
                let (feed, body) = open_body();
                let request = post("parked").header("trailer", "x-checksum");
                let parked = client.send_request(request.body(body).unwrap());
                let all = pattern(200 * KIB);
                let half = 100 * KIB;
                let send = |frame| feed.unbounded_send(Ok(frame)).unwrap();
                send(Frame::data(all.slice(..half)));
                let finish = || {
                    send(Frame::data(all.slice(half..)));
                    let trailers = [("x-checksum".parse().unwrap(), "42".parse().unwrap())];
                    send(Frame::trailers(HeaderMap::from_iter(trailers)));
                    feed.close_channel();
                };
                if early {
                    finish();
                }
                let ahead = limit.min(if early { all.len() } else { half });
                stage
                    .usage_soon("it is read", |usage| usage.read_ahead_bytes >= ahead)
                    .await;

                give_the_slot_back(first).await;
                let (request, answer) = take_over(stage.orders.next().await).await;
                if !early {
                    finish();
                }
                let trailers = read(request.into_body(), &all, Length::Unknown).await;
                assert_eq!(trailers["x-checksum"], "42", "{protocol:?} {limit} {early}");
                assert_eq!(stage.usage().read_ahead_bytes, 0);
                answer.end();
                assert_eq!(whole(head(parked).await.into_body()).await, "");
            }
        }
    }
}

#[tokio::test]
async fn a_parked_upload_that_is_reset_leaves_the_queue_and_its_connection_whole() {
    // Read ahead to the end, and in part: the unread rest must not keep the connection's window.
    for limit in [MIB, 64 * KIB] {
        let mut stage = Stage::with(&format!("{QUEUE}\n    read_ahead_bytes: {limit}")).await;
        let first = take_the_slot(&mut stage).await;
        let mut client = Connection::open(Protocol::Http2, stage.address).await;
        for _ in 0..5 {
            let parked = client.send(Method::POST, "parked", pattern(MIB));
            stage
                .usage_soon("it is read", |usage| usage.read_ahead_bytes >= limit)
                .await;
            forsake(parked).await;
            stage
                .usage_soon("it is gone", |usage| {
                    usage.waiting == 0 && usage.read_ahead_bytes == 0
                })
                .await;
        }
        let next = client.send(Method::POST, "next", pattern(MIB));
        stage
            .usage_soon("the next one waits", |usage| usage.waiting == 1)
            .await;
        give_the_slot_back(first).await;
        let order = stage.orders.next().await;
        assert_eq!(order.path, "next", "those that were reset never got there");
        let (request, feed) = take_over(order).await;
        read(request.into_body(), &pattern(MIB), Length::Known).await;
        feed.end();
        assert_eq!(whole(head(next).await.into_body()).await, "");
    }
}

#[tokio::test]
async fn a_body_that_fails_while_it_is_parked_is_answered_with_400() {
    let mut stage = Stage::new().await;
    let first = take_the_slot(&mut stage).await;
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let request = "POST /parked HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\nhello\r\nno chunk\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon("the answer", socket.read_to_end(&mut answer))
        .await
        .unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{answer}"
    );
    assert!(answer.contains("x-policy-queue-reason: request_body_error\r\n"));
    assert!(!answer.contains("retry-after"), "it is not worth it");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let error: Value = serde_json::from_str(body).unwrap();
    assert_eq!(error["error"]["code"], "request_body_error");

    stage.nobody_waits_soon().await;
    assert_eq!(stage.usage().read_ahead_bytes, 0);
    give_the_slot_back(first).await;
    assert!(stage.orders.none_now());
}

#[tokio::test]
async fn reading_pauses_at_the_total_and_goes_on_when_somebody_leaves() {
    for protocol in PROTOCOLS {
        let total = 64 * KIB;
        let mut stage = Stage::with(&format!("{QUEUE}\n    read_ahead_total_bytes: {total}")).await;
        let first = take_the_slot(&mut stage).await;
        let mut leaves = Connection::open(protocol, stage.address).await;
        let _parked = leaves.send(Method::POST, "leaves", pattern(total));
        stage
            .usage_soon("the total is used up", |usage| {
                usage.read_ahead_bytes >= total
            })
            .await;
        let mut stays = Vec::new();
        for waiting in [2, 3] {
            let mut client = Connection::open(protocol, stage.address).await;
            let sent = client.send(Method::POST, "stays", pattern(MIB));
            stays.push((client, sent));
            stage
                .usage_soon("it waits", |usage| usage.waiting == waiting)
                .await;
            assert_eq!(
                stage.usage().read_ahead_bytes,
                total,
                "nothing of it is read"
            );
        }
        leaves.close().await;
        stage
            .usage_soon("the next one is read", |usage| {
                usage.waiting == 2 && usage.read_ahead_bytes >= total
            })
            .await;

        give_the_slot_back(first).await;
        for (_client, sent) in stays {
            let (request, feed) = take_over(stage.orders.next().await).await;
            read(request.into_body(), &pattern(MIB), Length::Known).await;
            feed.end();
            assert_eq!(whole(head(sent).await.into_body()).await, "");
        }
        assert_eq!(stage.usage().read_ahead_bytes, 0, "{protocol:?}");
    }
}
