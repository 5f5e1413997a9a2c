//! What goes through as it came.

use std::{
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncReadExt, time::timeout};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_policy_queue::{
    QueueHints,
    openai::{OpenAiHints, OpenAiHintsLayer, PromptBlocks, RequestBody},
};

use crate::{
    CHAT,
    common::{
        bell::Polled,
        feed::{Broken, FedBody, Feed},
    },
    post, read, send_through,
};

/// Not as anybody would write it again: white space, order, escapes, numbers, unknown fields.
const ODD: &str =
    "\r\n{ \"n\" : 1.0e0,\t\"model\":\"\\u006d\", \"x\": {\"b\":1,\"a\":[ ]}, \"messages\":[\n]}  ";

fn fed(feed: &Feed) -> Request<FedBody> {
    Request::post(CHAT).body(feed.body()).unwrap()
}

#[test]
fn the_inner_service_gets_the_same_bytes() {
    assert_eq!(read(CHAT, ODD).data, ODD);
}

#[test]
fn bytes_in_pieces_stay_the_same_and_become_one() {
    let frames = ODD.as_bytes().chunks(3).map(|piece| {
        let frame = http_body::Frame::data(Bytes::copy_from_slice(piece));
        Ok::<_, std::convert::Infallible>(frame)
    });
    let body = StreamBody::new(futures::stream::iter(frames.collect::<Vec<_>>()));
    let request = Request::post(CHAT).body(body).unwrap();
    let sent = send_through(&OpenAiHintsLayer::new(), request).unwrap();
    assert_eq!(sent.data, ODD);
    assert_eq!(sent.size.exact(), Some(ODD.len() as u64));
}

#[test]
fn the_body_knows_its_length() {
    let size = read(CHAT, ODD).size;
    assert_eq!(size.exact(), Some(ODD.len() as u64));
}

#[test]
fn trailers_are_kept() {
    let feed = Feed::new();
    feed.data("{}");
    feed.trailers();
    feed.end();
    let sent = send_through(&OpenAiHintsLayer::new(), fed(&feed)).unwrap();
    assert_eq!(sent.data, "{}");
    assert_eq!(sent.trailers.unwrap()["x-checksum"], "42");
}

#[test]
fn head_and_headers_are_untouched() {
    let mut request = post("/v1/chat/completions?api-version=1", "{}");
    let headers = request.headers_mut();
    headers.insert("content-length", "2".parse().unwrap());
    headers.append("x-twice", "1".parse().unwrap());
    headers.append("x-twice", "2".parse().unwrap());
    *request.version_mut() = http::Version::HTTP_2;
    let headers = request.headers().clone();
    let parts = send_through(&OpenAiHintsLayer::new(), request)
        .unwrap()
        .parts;
    assert_eq!(parts.headers, headers);
    assert_eq!(parts.uri, "/v1/chat/completions?api-version=1");
    assert_eq!(parts.method, http::Method::POST);
    assert_eq!(parts.version, http::Version::HTTP_2);
}

/// Whether a request goes to the inner service before any of its body is read.
fn passes_unread(mut request: Request<FedBody>) -> bool {
    let feed = Feed::new();
    *request.body_mut() = feed.body();
    let inner = service_fn(|request: Request<RequestBody<FedBody>>| async {
        assert!(request.extensions().get::<QueueHints>().is_none());
        assert!(request.extensions().get::<PromptBlocks>().is_none());
        Ok::<_, Broken>(Response::new(request.into_body()))
    });
    let mut service = OpenAiHintsLayer::new().layer(inner);
    let Poll::Ready(Ok(response)) = Polled::new(service.call(request)).poll() else {
        return false;
    };
    // Frame by frame as it comes, not as it would be read.
    let mut body = Polled::new(response.into_body());
    assert!(body.poll_frame().is_pending());
    for piece in ["not ", "json"] {
        feed.data(piece);
        let Poll::Ready(Some(Ok(frame))) = body.poll_frame() else {
            panic!("the frame goes on");
        };
        assert_eq!(frame.into_data().unwrap(), piece);
    }
    true
}

fn with_header(name: &'static str, value: &str) -> Request<FedBody> {
    let request = Request::post(CHAT).header(name, value);
    request.body(FedBody::empty()).unwrap()
}

#[test]
fn other_paths_and_methods_pass_unread() {
    for (method, path) in [
        ("POST", "/v1/audio/transcriptions"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("POST", "/"),
        ("GET", "/v1/responses"),
        ("PUT", CHAT),
        ("OPTIONS", CHAT),
    ] {
        let request = Request::builder().method(method).uri(path);
        assert!(
            passes_unread(request.body(FedBody::empty()).unwrap()),
            "{method} {path}"
        );
    }
    let request = Request::post(CHAT).body(FedBody::empty()).unwrap();
    assert!(!passes_unread(request));
}

#[test]
fn other_types_pass_unread() {
    for other in [
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/x-ndjson",
        "json",
        "",
    ] {
        assert!(passes_unread(with_header("content-type", other)), "{other}");
    }
    for json in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.api+json",
    ] {
        assert!(!passes_unread(with_header("content-type", json)), "{json}");
    }
}

#[test]
fn encoded_bodies_pass_unread() {
    for encoding in ["gzip", "br", "zstd", "identity, gzip", "unknown"] {
        assert!(
            passes_unread(with_header("content-encoding", encoding)),
            "{encoding}"
        );
    }
    assert!(!passes_unread(with_header("content-encoding", "Identity")));
}

#[test]
fn a_body_that_passes_keeps_its_length_and_its_end() {
    let inner = service_fn(|request: Request<RequestBody<Full<Bytes>>>| async move {
        let body = request.into_body();
        assert_eq!(body.size_hint().exact(), Some(3));
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        Ok::<_, Broken>(Response::new(Full::<Bytes>::default()))
    });
    let request = Request::get("/").body(Full::from("abc")).unwrap();
    let service = OpenAiHintsLayer::new().layer(inner);
    assert!(matches!(
        Polled::new(service.oneshot(request)).poll(),
        Poll::Ready(Ok(_))
    ));
}

#[test]
fn a_body_that_was_read_ends_after_its_last_frame() {
    let feed = Feed::new();
    feed.data("{}");
    feed.trailers();
    feed.end();
    let inner = service_fn(|request: Request<RequestBody<FedBody>>| async {
        Ok::<_, Broken>(Response::new(request.into_body()))
    });
    let mut service = OpenAiHintsLayer::new().layer(inner);
    let Poll::Ready(Ok(response)) = Polled::new(service.call(fed(&feed))).poll() else {
        panic!("it is answered at once");
    };
    let mut body = Polled::new(response.into_body());
    assert!(!body.inner.is_end_stream());
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(frame))) if frame.is_data()));
    assert!(!body.inner.is_end_stream());
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(frame))) if frame.is_trailers()));
    assert_eq!(body.inner.size_hint().exact(), Some(0));
    assert!(body.inner.is_end_stream());
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
}

#[tokio::test]
async fn trailers_reach_a_server_of_http_1() {
    let feed = Feed::new();
    feed.data("{}");
    feed.trailers();
    feed.end();
    let (client, mut server) = tokio::io::duplex(4096);
    let (sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    let connection = tokio::spawn(connection);
    let sender = Arc::new(Mutex::new(sender));
    let inner = service_fn(move |request: Request<RequestBody<FedBody>>| {
        sender.lock().unwrap().send_request(request)
    });
    let request = Request::post(CHAT)
        .header("host", "test")
        .header("trailer", "x-checksum")
        .body(feed.body())
        .unwrap();
    let sent = tokio::spawn(OpenAiHintsLayer::new().layer(inner).oneshot(request));
    let mut written = String::new();
    while !written.ends_with("0\r\nx-checksum: 42\r\n\r\n") {
        let mut bytes = [0; 1024];
        let read = timeout(Duration::from_secs(20), server.read(&mut bytes)).await;
        let read = read.unwrap_or_else(|_| panic!("no trailers: {written}"));
        written.push_str(std::str::from_utf8(&bytes[..read.unwrap()]).unwrap());
    }
    sent.abort();
    connection.abort();
}

#[test]
fn the_response_is_the_inner_services() {
    let inner = service_fn(|_: Request<RequestBody<Full<Bytes>>>| async {
        let trailers = HeaderMap::from_iter([(
            http::HeaderName::from_static("x-sum"),
            http::HeaderValue::from_static("1"),
        )]);
        let body = Full::<Bytes>::from("tea").with_trailers(async { Some(Ok(trailers)) });
        let response = Response::builder().status(StatusCode::IM_A_TEAPOT);
        Ok::<_, Broken>(
            response
                .header("x-pot", "1")
                .extension(7_u8)
                .body(body)
                .unwrap(),
        )
    });
    let mut service = OpenAiHintsLayer::new().layer(inner);
    let Poll::Ready(Ok(response)) = Polled::new(service.call(post(CHAT, "{}"))).poll() else {
        panic!("it is answered at once");
    };
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    assert_eq!(response.headers()["x-pot"], "1");
    assert_eq!(response.extensions().get(), Some(&7_u8));
    let mut body = Polled::new(response.into_body());
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(frame))) if frame.is_data()));
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(frame))) if frame.is_trailers()));
}

#[test]
fn errors_of_the_inner_service_are_passed_on() {
    let inner = service_fn(|_: Request<RequestBody<Full<Bytes>>>| async {
        Err::<Response<Full<Bytes>>, _>(Broken)
    });
    let mut service = OpenAiHintsLayer::new().layer(inner);
    for request in [post(CHAT, "{}"), post("/other", "{}")] {
        let answer = Polled::new(service.call(request)).poll();
        assert!(matches!(answer, Poll::Ready(Err(Broken))));
    }
}

#[test]
fn a_body_that_comes_slowly_does_not_hold_the_inner_services_readiness() {
    let feed = Feed::new();
    let inner = service_fn(|_: Request<RequestBody<FedBody>>| async {
        Ok::<_, Broken>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = OpenAiHintsLayer::new().layer(tower::limit::ConcurrencyLimit::new(inner, 1));
    let mut slow = Polled::new(service.call(fed(&feed)));
    assert!(slow.poll().is_pending());

    let mut quick =
        Polled::new(service.call(Request::post(CHAT).body(FedBody::full("{}")).unwrap()));
    assert!(matches!(quick.poll(), Poll::Ready(Ok(response)) if response.status() == 200));

    feed.data("{}");
    feed.end();
    assert!(slow.rings() > 0, "it is woken by its body");
    assert!(matches!(slow.poll(), Poll::Ready(Ok(response)) if response.status() == 200));
}

#[test]
fn a_body_that_says_it_has_ended_is_not_asked_again() {
    let request = Request::post(CHAT).body(FedBody::full("{}")).unwrap();
    let sent = send_through(&OpenAiHintsLayer::new(), request).unwrap();
    assert_eq!(sent.data, "{}");
}

#[test]
fn dropped_while_it_reads_it_drops_the_body() {
    let dropped = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let note = std::sync::Arc::clone(&dropped);
    let body =
        Feed::new().probed_body(move || note.store(true, std::sync::atomic::Ordering::Relaxed));
    let inner = service_fn(|_: Request<RequestBody<FedBody>>| async {
        Ok::<_, Broken>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = OpenAiHintsLayer::new().layer(inner);
    let mut reading = Polled::new(service.call(Request::post(CHAT).body(body).unwrap()));
    assert!(reading.poll().is_pending());
    drop(reading);
    assert!(dropped.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn services_are_as_free_as_what_they_wrap() {
    fn is_free<T: Clone + Send + Sync + 'static>() {}
    struct NotClone;
    is_free::<OpenAiHintsLayer<NotClone>>();
    is_free::<OpenAiHints<(), NotClone>>();
    is_free::<RequestBody<()>>();
}
