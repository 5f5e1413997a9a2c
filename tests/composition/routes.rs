//! axum: which routes share a limit.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{Request, StatusCode},
    response::Response,
    routing::get,
};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;
use tower_policy_queue::{Admission, PolicyQueueLayer, Rejection};

use crate::common::desk::policy;

const REJECTS: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";
const TWO_POOLS: &str = "
dominions:
  - {id: a, kind: remote, max_concurrency: 1, policy: reject}
  - {id: b, kind: remote, max_concurrency: 1, policy: reject}
default_dominion: a
";

/// Answers with a stream that stays open, and says which dominion gave the slot.
async fn open_stream(request: Request<Body>) -> Response {
    let admission = request.extensions().get::<Admission>();
    let dominion = admission
        .and_then(Admission::dominion)
        .unwrap_or("none")
        .to_owned();
    let first = futures::stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from("token"))]);
    let body = futures::StreamExt::chain(first, futures::stream::pending());
    Response::builder()
        .header("x-dominion", dominion)
        .body(Body::from_stream(body))
        .unwrap()
}

fn three_routes() -> Router {
    Router::new()
        .route("/one", get(open_stream))
        .route("/two", get(open_stream))
        .route("/three", get(open_stream).post(open_stream))
}

fn layer(yaml: &str) -> PolicyQueueLayer {
    PolicyQueueLayer::new(policy(yaml))
}

/// The answer to a request, which comes at once; its body stays open while it is kept.
fn ask(app: &Router, path: &str) -> Response {
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    app.clone()
        .oneshot(request)
        .now_or_never()
        .expect("the answer is there at once")
        .unwrap()
}

fn status(app: &Router, path: &str) -> u16 {
    ask(app, path).status().as_u16()
}

#[test]
fn the_routes_of_a_router_share_one_limit() {
    let app = three_routes().layer(layer(REJECTS));
    let running = ask(&app, "/one");
    for path in ["/one", "/two", "/three"] {
        let refused = ask(&app, path);
        assert_eq!(refused.status(), 429, "{path}");
        assert!(
            refused.extensions().get::<Rejection>().is_some(),
            "axum keeps the typed reason"
        );
    }
    drop(running);
    for path in ["/one", "/two", "/three"] {
        assert_eq!(status(&app, path), 200, "{path}");
    }
}

#[test]
fn the_fallback_is_limited_by_layer_and_not_by_route_layer() {
    for (app, refused) in [
        (three_routes().layer(layer(REJECTS)), 429),
        (three_routes().route_layer(layer(REJECTS)), 404),
    ] {
        let _running = ask(&app, "/one");
        assert_eq!(
            status(&app, "/two"),
            429,
            "the routes share the limit either way"
        );
        assert_eq!(status(&app, "/nowhere"), refused);
    }
}

#[test]
fn only_the_routes_that_were_there_when_it_was_added_are_limited() {
    let app = three_routes()
        .layer(layer(REJECTS))
        .route("/healthz", get(|| async { "ok" }));
    let _running = ask(&app, "/one");
    assert_eq!(status(&app, "/two"), 429);
    assert_eq!(status(&app, "/healthz"), 200, "probes need no slot");
}

#[test]
fn clones_of_a_layer_share_its_limit_and_layers_of_one_policy_share_nothing() {
    let shared = layer(REJECTS);
    let route = |layer: PolicyQueueLayer| Router::new().route("/", get(open_stream)).layer(layer);
    let app = Router::new()
        .nest("/one", route(shared.clone()))
        .nest("/two", route(shared))
        .nest("/other", route(layer(REJECTS)));
    let _running = ask(&app, "/one");
    assert_eq!(status(&app, "/two"), 429);
    let _other = ask(&app, "/other");
    assert_eq!(_other.status(), 200, "a layer of its own");
    assert_eq!(status(&app, "/other"), 429);
}

#[test]
fn a_route_may_be_bound_to_its_own_dominion() {
    let layer = layer(TWO_POOLS);
    let app = Router::new()
        .route("/a", get(open_stream))
        .layer(layer.dominion("a").unwrap())
        .merge(
            Router::new()
                .route("/b", get(open_stream))
                .layer(layer.dominion("b").unwrap()),
        )
        .merge(
            Router::new()
                .route("/default", get(open_stream))
                .layer(layer.clone()),
        );
    let a = ask(&app, "/a");
    let b = ask(&app, "/b");
    assert_eq!(
        (&a.headers()["x-dominion"], &b.headers()["x-dominion"]),
        (&"a".parse().unwrap(), &"b".parse().unwrap())
    );
    assert_eq!(status(&app, "/a"), 429);
    assert_eq!(status(&app, "/b"), 429);
    assert_eq!(status(&app, "/default"), 429, "the default dominion is `a`");
    drop(a);
    assert_eq!(ask(&app, "/default").headers()["x-dominion"], "a");
    assert_eq!(status(&app, "/b"), 429, "`b` is a pool of its own");
}

#[test]
fn an_unknown_dominion_is_an_error_that_names_it_and_those_there_are() {
    let error = layer(TWO_POOLS).dominion("c").unwrap_err();
    assert_eq!(error.id(), "c");
    let error = error.to_string();
    assert!(
        ["`c`", "`a`", "`b`"].iter().all(|id| error.contains(id)),
        "{error}"
    );
    let error = PolicyQueueLayer::new(Default::default())
        .dominion("c")
        .unwrap_err()
        .to_string();
    assert!(error.contains("`c`"), "{error}");
}

#[test]
fn a_request_that_passes_the_layer_twice_uses_one_slot() {
    let shared = layer(REJECTS);
    let app = three_routes().layer(shared.clone()).layer(shared.clone());
    for _ in 0..2 {
        assert_eq!(
            status(&app, "/one"),
            200,
            "the inner pass runs on the slot of the outer one"
        );
    }
    assert_eq!(shared.handle().usage().slots_in_use, 0);
}

#[tokio::test]
async fn all_connections_of_a_served_router_share_one_limit() {
    let gate = Arc::new(Semaphore::new(0));
    let (arrived, mut arrivals) = watch::channel(0);
    async fn work(
        State((gate, arrived)): State<(Arc<Semaphore>, watch::Sender<u32>)>,
    ) -> &'static str {
        arrived.send_modify(|count| *count += 1);
        gate.acquire().await.unwrap().forget();
        "done"
    }
    let app = Router::new()
        .route("/", get(work))
        .with_state((Arc::clone(&gate), arrived))
        .layer(layer(REJECTS));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });

    let connect = || async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender
    };
    let request = || {
        Request::builder()
            .uri("/")
            .header("host", "test")
            .body(Body::empty())
            .unwrap()
    };
    let (mut first, mut second) = (connect().await, connect().await);
    let running = tokio::spawn(first.send_request(request()));
    arrivals.wait_for(|&count| count == 1).await.unwrap();

    let refused = second.send_request(request()).await.unwrap();
    assert_eq!(
        refused.status(),
        StatusCode::TOO_MANY_REQUESTS,
        "another connection, one limit"
    );
    drop(refused.into_body().collect().await.unwrap());
    gate.add_permits(2);
    let body = running
        .await
        .unwrap()
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap();
    assert_eq!(body.to_bytes(), "done");
    assert_eq!(
        second.send_request(request()).await.unwrap().status(),
        StatusCode::OK
    );
}
