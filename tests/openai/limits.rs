//! What is too long, and what fails.

use std::task::Poll;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tower::{Layer, Service, service_fn};
use tower_policy_queue::openai::{OpenAiHintsLayer, RequestBody, UnreadableBody};

use crate::{
    CHAT, Refused,
    common::{
        bell::Polled,
        feed::{FedBody, Feed},
    },
    post, send_through,
};

const BODY: &str = r#"{"model":"m"}"#;

fn fed(feed: &Feed) -> Request<FedBody> {
    Request::post(CHAT).body(feed.body()).unwrap()
}

fn layer(bytes: usize) -> OpenAiHintsLayer {
    OpenAiHintsLayer::new().max_body_bytes(bytes)
}

fn is_too_large(refused: &Refused, limit: usize) {
    assert_eq!(refused.status, 413);
    assert_eq!(refused.error["code"], "request_too_large");
    assert_eq!(refused.error["type"], "invalid_request_error");
    let message = format!("the request body is longer than {limit} bytes");
    assert_eq!(refused.error["message"], message);
    assert!(refused.error["param"].is_null());
    assert_eq!(refused.headers["content-type"], "application/json");
    assert_eq!(
        refused.headers["x-policy-queue-reason"],
        "request_too_large"
    );
    assert!(
        matches!(refused.why, UnreadableBody::TooLarge { max_body_bytes, .. } if max_body_bytes == limit)
    );
}

#[test]
fn a_body_of_the_limit_is_read_and_one_byte_more_is_413() {
    let sent = send_through(&layer(BODY.len()), post(CHAT, BODY));
    assert_eq!(sent.unwrap().hints().model.as_deref(), Some("m"));

    let less = BODY.len() - 1;
    let refused = send_through(&layer(less), post(CHAT, BODY)).unwrap_err();
    is_too_large(&refused, less);
}

#[test]
fn the_default_limit_is_8_mib() {
    let filled = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    let default = OpenAiHintsLayer::default();
    assert!(send_through(&default, post(CHAT, filled(8 << 20))).is_ok());
    let refused = send_through(&default, post(CHAT, filled((8 << 20) + 1))).unwrap_err();
    is_too_large(&refused, 8 << 20);
}

#[test]
fn a_length_announced_beyond_the_limit_is_413_before_a_byte_is_read() {
    let announced = Full::new(Bytes::from(vec![b' '; 11]));
    let inner = service_fn(|_: Request<RequestBody<Unread>>| async {
        panic!("it is not called");
        #[allow(unreachable_code)]
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::<Bytes>::default()))
    });
    let request = Request::post(CHAT).body(Unread(announced)).unwrap();
    let mut answer = Polled::new(layer(10).layer(inner).call(request));
    let Poll::Ready(Ok(response)) = answer.poll() else {
        panic!("it is answered at once");
    };
    assert_eq!(response.status(), 413);
}

#[test]
fn a_body_of_unknown_length_is_413_as_soon_as_it_is_longer() {
    let feed = Feed::new();
    feed.data("{\"model\"");
    feed.data(":\"m");
    // Open still.
    let refused = send_through(&layer(10), fed(&feed)).unwrap_err();
    is_too_large(&refused, 10);
}

#[test]
fn frames_of_the_limit_together_are_read() {
    let feed = Feed::new();
    for piece in ["", "{\"model\"", "", ":\"m\"}", ""] {
        feed.data(piece);
    }
    feed.end();
    let sent = send_through(&layer(BODY.len()), fed(&feed)).unwrap();
    assert_eq!(sent.data, BODY);
}

#[test]
fn a_body_that_fails_is_400() {
    let feed = Feed::new();
    feed.data(BODY);
    feed.error();
    let refused = send_through(&OpenAiHintsLayer::new(), fed(&feed)).unwrap_err();
    assert_eq!(refused.status, 400);
    assert_eq!(refused.error["code"], "request_body_error");
    assert_eq!(refused.error["type"], "invalid_request_error");
    assert_eq!(refused.why, UnreadableBody::Failed);
}

#[test]
fn a_layer_that_reads_nothing_takes_nothing() {
    let refused = send_through(&layer(0), post(CHAT, "{}")).unwrap_err();
    is_too_large(&refused, 0);
    let refused = send_through(&layer(0), post(CHAT, "")).unwrap_err();
    assert_eq!(refused.error["code"], "invalid_json");
}

/// Knows its length, and is not to be read.
struct Unread(Full<Bytes>);

impl http_body::Body for Unread {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        panic!("it is not read");
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.size_hint()
    }
}
