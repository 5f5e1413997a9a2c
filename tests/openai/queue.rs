//! Outside of a `PolicyQueueLayer`: what was read decides.

use axum::{Router, body::Body, http::Request, response::Response, routing::post};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt};
use tower_policy_queue::{
    Admission, PolicyQueueLayer,
    openai::{OpenAiHintsLayer, PromptBlocks},
};

use crate::{
    CHAT,
    common::{self, desk::policy},
};

const POLICY: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 1000, bucket: long}]
policy_classes:
  - {name: std-short, policy_family: std, cache_bucket: short, quantum: 100}
  - {name: std-long, policy_family: std, cache_bucket: long, quantum: 100}
dominions:
  - {id: small, kind: remote, max_concurrency: 1, policy: reject}
  - {id: large, kind: remote, max_concurrency: 1, policy: reject}
endpoints:
  - {id: a, dominion: small, models: [mini]}
  - {id: b, dominion: large, models: [maxi]}
default_dominion: small
headers: {model: x-model, raw_isl_tokens: x-raw}
";

/// Says where it was put, and returns the body.
async fn echo(request: Request<Body>) -> Response {
    let admission: Admission = request.extensions().get().cloned().unwrap();
    let blocks = request.extensions().get::<PromptBlocks>();
    Response::builder()
        .header("x-class", admission.class())
        .header("x-dominion", admission.dominion().unwrap_or("none"))
        .header("x-blocks", blocks.map_or(0, |blocks| blocks.hashes().len()))
        .body(request.into_body())
        .unwrap()
}

fn app() -> Router {
    let layers = ServiceBuilder::new()
        .layer(OpenAiHintsLayer::new())
        .layer(PolicyQueueLayer::new(policy(POLICY)));
    Router::new()
        .route(CHAT, post(echo))
        .route("/other", post(echo))
        .layer(layers)
}

fn request(path: &str, body: impl Into<Bytes>) -> Request<Body> {
    Request::post(path).body(Body::from(body.into())).unwrap()
}

fn chat(model: &str, content: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": content}]})
}

/// The answer, which comes at once; its slot is held while it is kept.
fn ask(app: &Router, request: Request<Body>) -> Response {
    let answer = app.clone().oneshot(request).now_or_never();
    answer.expect("it is answered at once").unwrap()
}

fn place(response: &Response) -> (&str, &str) {
    let header = |name: &str| response.headers()[name].to_str().unwrap();
    (header("x-dominion"), header("x-class"))
}

#[test]
fn the_model_picks_the_dominion_and_the_length_the_bucket() {
    let app = app();
    let asked =
        |model: &str, content: &str| ask(&app, request(CHAT, chat(model, content).to_string()));
    assert_eq!(place(&asked("mini", "Hi")), ("small", "std-short"));
    assert_eq!(place(&asked("maxi", "Hi")), ("large", "std-short"));
    assert_eq!(
        place(&asked("maxi", &"a".repeat(4000))),
        ("large", "std-long")
    );
    assert_eq!(place(&asked("unheard-of", "Hi")), ("small", "std-short"));
}

#[test]
fn models_of_different_dominions_do_not_wait_for_each_other() {
    let app = app();
    let asked = |model: &str| ask(&app, request(CHAT, chat(model, "Hi").to_string()));
    let first = asked("maxi");
    assert_eq!(asked("maxi").status(), 429);
    assert_eq!(asked("mini").status(), 200);
    drop(first);
    assert_eq!(asked("maxi").status(), 200);
}

#[test]
fn a_long_image_does_not_make_a_long_prompt() {
    let url = format!("data:image/png;base64,{}", "A".repeat(100_000));
    let content = json!([{"type": "image_url", "image_url": {"url": url}}]);
    let body = json!({"model": "maxi", "messages": [{"role": "user", "content": content}]});
    let response = ask(&app(), request(CHAT, body.to_string()));
    assert_eq!(place(&response), ("large", "std-short"));
}

#[test]
fn what_was_read_wins_over_headers() {
    let mut asked = request(CHAT, chat("maxi", "Hi").to_string());
    asked
        .headers_mut()
        .insert("x-model", "mini".parse().unwrap());
    asked.headers_mut().insert("x-raw", "5000".parse().unwrap());
    assert_eq!(place(&ask(&app(), asked)), ("large", "std-short"));
}

#[test]
fn requests_that_are_not_read_are_known_by_their_headers() {
    let mut asked = request("/other", chat("maxi", "Hi").to_string());
    asked
        .headers_mut()
        .insert("x-model", "maxi".parse().unwrap());
    asked.headers_mut().insert("x-raw", "5000".parse().unwrap());
    assert_eq!(place(&ask(&app(), asked)), ("large", "std-long"));
}

#[test]
fn the_handler_gets_the_bytes_and_the_blocks() {
    let body = chat("maxi", &"a".repeat(600)).to_string();
    let response = ask(&app(), request(CHAT, body.clone()));
    assert_eq!(response.headers()["x-blocks"], "2");
    let collected = response.into_body().collect().now_or_never().unwrap();
    assert_eq!(collected.unwrap().to_bytes(), body);
}

#[test]
fn a_request_that_cannot_be_read_takes_no_slot() {
    let app = app();
    let response = ask(&app, request(CHAT, "nonsense"));
    assert_eq!(response.status(), 400);
    let error = common::json(response.into_body());
    assert_eq!(error["error"]["code"], "invalid_json");
    let next = ask(&app, request(CHAT, chat("mini", "Hi").to_string()));
    assert_eq!(next.status(), 200);
}
