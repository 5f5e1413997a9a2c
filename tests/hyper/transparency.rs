//! What a client sees is what it would see without the layer, to the byte.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::{Layer, service_fn};
use tower_policy_queue::{PolicyConfig, PolicyQueueLayer};

use crate::{
    common::{desk::pool, feed::Broken},
    stage::{Connection, Content, Protocol, content, head, serve, soon},
};

const CASES: &[&str] = &[
    "GET /full",
    "HEAD /full",
    "GET /empty",
    "GET /no-content",
    "GET /not-modified",
    "GET /stream",
    "GET /declared",
    "GET /trailers",
    "GET /large",
    "GET /error",
];

fn frames(frames: Vec<Frame<Bytes>>) -> Content {
    let frames = frames.into_iter().map(Ok::<_, Broken>);
    content(StreamBody::new(futures::stream::iter(frames)))
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

fn full(bytes: impl Into<Bytes>) -> Content {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

fn empty() -> Content {
    Empty::new()
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

async fn answer<B>(request: Request<B>) -> Result<Response<Content>, Infallible> {
    let builder = Response::builder()
        .header("x-kept", "as it is")
        .header("X-Twice", "1");
    let builder = builder.header("x-twice", "2");
    let (builder, body) = match request.uri().path() {
        "/full" => (builder, full("all of it")),
        "/empty" => (builder, empty()),
        "/no-content" => (builder.status(204), empty()),
        "/not-modified" => (builder.status(304), empty()),
        "/stream" => (builder, frames(vec![data("one"), data("two")])),
        "/declared" => (
            builder.header("content-length", "6"),
            frames(vec![data("one"), data("two")]),
        ),
        "/trailers" => {
            let trailers =
                HeaderMap::from_iter([("x-checksum".parse().unwrap(), "42".parse().unwrap())]);
            let body = frames(vec![data("one"), Frame::trailers(trailers)]);
            (builder.header("trailer", "x-checksum"), body)
        }
        "/large" => (builder, full(vec![7; 1_000_000])),
        _ => (
            builder
                .status(500)
                .header("content-type", "application/json"),
            full("{}"),
        ),
    };
    Ok(builder.body(body).unwrap())
}

/// All bytes of the answer to one request on a connection of its own.
async fn wire(address: std::net::SocketAddr, case: &str) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request =
        format!("{case} HTTP/1.1\r\nhost: test\r\nte: trailers\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    soon("the whole answer", socket.read_to_end(&mut bytes))
        .await
        .unwrap();
    bytes
}

async fn with_and_without() -> [(&'static str, std::net::SocketAddr); 3] {
    let plain = serve(service_fn(answer)).await;
    let default = PolicyQueueLayer::new(PolicyConfig::default());
    let default = serve(default.layer(service_fn(answer))).await;
    let limited = serve(PolicyQueueLayer::new(pool(1)).layer(service_fn(answer))).await;
    [
        ("without", plain),
        ("with the default policy", default),
        ("with a limit", limited),
    ]
}

#[tokio::test]
async fn http_1_answers_are_the_same_to_the_byte() {
    let [(_, plain), layered @ ..] = with_and_without().await;
    for case in CASES {
        let expected = wire(plain, case).await;
        assert!(expected.starts_with(b"HTTP/1.1 "), "{case}");
        for (name, address) in layered {
            let bytes = wire(address, case).await;
            assert!(
                bytes == expected,
                "{case} {name}: {}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

#[tokio::test]
async fn a_known_length_stays_a_content_length_and_an_unknown_one_chunked() {
    let [_, _, (_, limited)] = with_and_without().await;
    let has = |bytes: &[u8], line: &str| {
        String::from_utf8_lossy(bytes)
            .lines()
            .any(|l| l.eq_ignore_ascii_case(line))
    };
    let full = wire(limited, "GET /full").await;
    assert!(has(&full, "content-length: 9") && !has(&full, "transfer-encoding: chunked"));
    let empty = wire(limited, "GET /empty").await;
    assert!(has(&empty, "content-length: 0") && !has(&empty, "transfer-encoding: chunked"));
    let stream = wire(limited, "GET /stream").await;
    assert!(has(&stream, "transfer-encoding: chunked"));
}

#[tokio::test]
async fn http_2_answers_have_the_same_headers_data_and_trailers() {
    let [(_, plain), layered @ ..] = with_and_without().await;
    for case in CASES.iter().filter_map(|case| case.strip_prefix("GET /")) {
        let mut seen = Vec::new();
        for address in [plain, layered[0].1, layered[1].1] {
            let mut client = Connection::open(Protocol::Http2, address).await;
            let (parts, body) = head(client.get(case)).await.into_parts();
            let collected = soon("the body", body.collect()).await.unwrap();
            let trailers = collected.trailers().cloned();
            seen.push((parts.status, parts.headers, collected.to_bytes(), trailers));
        }
        assert!(seen.iter().all(|one| *one == seen[0]), "{case}: {seen:?}");
    }
}
