//! The layer is not seen in what the inner service answers.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    convert::Infallible,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use common::{
    NoBody,
    desk::pool,
    feed::{Broken, FedBody, Feed},
};
use futures::{FutureExt, stream};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full, LengthLimitError, Limited, StreamBody};
use tower::{Layer, ServiceExt, service_fn};
use tower_policy_queue::{
    Admission, BoxError, PolicyConfig, PolicyQueueLayer, RequestBody, ResponseBody,
};

/// What a body says of itself, and each frame that comes, until its end.
fn transcript<B>(body: B) -> Vec<String>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let mut body = pin!(body);
    let mut cx = Context::from_waker(Waker::noop());
    let mut lines = Vec::new();
    // A poll after the end is part of the contract too: some bodies answer it.
    for _ in 0..8 {
        let hint = (body.size_hint().lower(), body.size_hint().upper());
        lines.push(format!("hint {hint:?}, ended {}", body.is_end_stream()));
        lines.push(match body.as_mut().poll_frame(&mut cx) {
            Poll::Pending => "pending".to_owned(),
            Poll::Ready(None) => "end".to_owned(),
            Poll::Ready(Some(frame)) => format!("{frame:?}"),
        });
    }
    lines
}

/// The body as it is behind the layer.
fn layered<B>(config: PolicyConfig, body: B) -> ResponseBody<B>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let body = std::sync::Mutex::new(Some(body));
    let body = std::sync::Arc::new(body);
    let service = service_fn(move |_: Request<RequestBody<NoBody>>| {
        let body = body.lock().unwrap().take().expect("one request");
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let answer = PolicyQueueLayer::new(config)
        .layer(service)
        .oneshot(Request::new(NoBody::new()));
    answer
        .now_or_never()
        .expect("it answers at once")
        .unwrap()
        .into_body()
}

fn same<B>(make: impl Fn() -> B)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug + Into<BoxError>,
{
    let plain = transcript(make());
    assert_eq!(transcript(layered(pool(1), make())), plain, "with a limit");
    assert_eq!(
        transcript(layered(PolicyConfig::default(), make())),
        plain,
        "without any"
    );
}

fn fed(script: impl Fn(&Feed)) -> FedBody {
    let feed = Feed::new();
    script(&feed);
    feed.body()
}

#[test]
fn frames_hints_and_the_end_are_those_of_the_inner_body() {
    same(|| Full::<Bytes>::from("all of it"));
    same(Full::<Bytes>::default);
    same(Empty::<Bytes>::new);
    same(|| {
        let frames = ["one", "two"].map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
        StreamBody::new(stream::iter(frames))
    });
    same(|| {
        Full::<Bytes>::from("all of it").with_trailers(async {
            Some(Ok::<_, Infallible>(HeaderMap::from_iter([(
                http::header::ETAG,
                "42".parse().unwrap(),
            )])))
        })
    });
    same(|| BodyExt::boxed_unsync(Full::<Bytes>::from("in a box")));
}

#[test]
fn errors_pauses_and_odd_endings_are_those_of_the_inner_body() {
    same(|| fed(|feed| feed.data("token")));
    same(|| {
        fed(|feed| {
            feed.data("token");
            feed.error();
            feed.data("after the error");
            feed.end();
        })
    });
    same(|| {
        fed(|feed| {
            feed.trailers();
            feed.data("after the trailers");
            feed.end();
            feed.data("after the end");
        })
    });
    same(|| fed(|feed| feed.say_ended()));
    same(|| {
        fed(|feed| {
            feed.say_ended();
            feed.data("although it says it has ended");
            feed.end();
        })
    });
}

#[test]
fn the_error_type_of_the_body_is_kept() {
    let limited = || Limited::new(Full::<Bytes>::from("too much"), 3);
    let mut body = layered(pool(1), limited());
    match body.frame().now_or_never() {
        Some(Some(Err(error))) => assert!(error.is::<LengthLimitError>()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_passes_through_uncopied() {
    let bytes = Bytes::from(vec![7; 4096]);
    let mut body = layered(pool(1), Full::new(bytes.clone()));
    let frame = body.frame().now_or_never().unwrap().unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap().as_ptr(), bytes.as_ptr());
}

#[test]
fn status_version_headers_and_extensions_are_kept_and_the_admission_is_added() {
    #[derive(Clone, Debug, PartialEq)]
    struct Mark(u8);

    for config in [pool(1), PolicyConfig::default()] {
        let service = service_fn(|request: Request<RequestBody<String>>| async move {
            assert_eq!(request.headers()["x-asked"], "yes");
            assert_eq!(request.extensions().get(), Some(&Mark(1)));
            let body = request.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, "asked", "the request is passed on");
            let response = Response::builder()
                .status(StatusCode::ACCEPTED)
                .version(Version::HTTP_3)
                .header("x-twice", "1")
                .header("x-twice", "2")
                .extension(Mark(2))
                .body(Empty::<Bytes>::new());
            Ok::<_, Infallible>(response.unwrap())
        });
        let request = Request::builder()
            .header("x-asked", "yes")
            .extension(Mark(1))
            .body("asked".to_owned());
        let answer = PolicyQueueLayer::new(config)
            .layer(service)
            .oneshot(request.unwrap());
        let response = answer.now_or_never().unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        assert_eq!(response.version(), Version::HTTP_3);
        let twice: Vec<_> = response.headers().get_all("x-twice").iter().collect();
        assert_eq!(twice, ["1", "2"]);
        assert_eq!(response.headers().len(), 2, "and no other");
        assert_eq!(response.extensions().get(), Some(&Mark(2)));
        assert!(response.extensions().get::<Admission>().is_some());
    }
}

#[test]
fn an_error_of_the_inner_service_keeps_its_type_and_value() {
    let service = service_fn(|_: Request<RequestBody<NoBody>>| async {
        Err::<Response<Full<Bytes>>, _>(Broken)
    });
    let answer = PolicyQueueLayer::new(pool(1))
        .layer(service)
        .oneshot(Request::new(NoBody::new()));
    assert_eq!(answer.now_or_never().unwrap().unwrap_err(), Broken);
}

#[test]
fn the_default_policy_lets_everybody_go_at_once() {
    let service = service_fn(|_: Request<RequestBody<NoBody>>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("unread")))
    });
    let service = PolicyQueueLayer::new(PolicyConfig::default()).layer(service);
    let answers: Vec<_> = (0..1000)
        .map(|_| {
            service
                .clone()
                .oneshot(Request::new(NoBody::new()))
                .now_or_never()
                .expect("at once")
                .unwrap()
        })
        .collect();
    let admission: &Admission = answers[999].extensions().get().unwrap();
    assert_eq!(admission.class(), "default");
    assert_eq!(
        (
            admission.dominion(),
            admission.worker(),
            admission.profile()
        ),
        (None, None, None)
    );
    assert_eq!(admission.queued_for(), std::time::Duration::ZERO);
}
