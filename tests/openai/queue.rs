//! Outside of a `PolicyQueueLayer`: what was read decides.

use axum::{Router, body::Body, http::Request, response::Response, routing::post};
use bytes::Bytes;
use futures::FutureExt;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_policy_queue::{
    Admission, PolicyQueueLayer, QueueHints,
    openai::{self, OpenAiHintsLayer, PromptBlocks},
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

#[test]
fn a_request_that_goes_on_with_the_extensions_of_another_is_what_its_own_body_says() {
    type Seen = std::sync::Arc<std::sync::Mutex<http::Extensions>>;
    let seen = Seen::default();
    let note = Seen::clone(&seen);
    let service = OpenAiHintsLayer::new().layer(service_fn(move |request: Request<_>| {
        let _: &openai::RequestBody<Body> = request.body();
        *note.lock().unwrap() = request.extensions().clone();
        async { Ok::<_, std::convert::Infallible>(Response::new(Body::empty())) }
    }));
    let send = |path: &str, body: Value, extensions: http::Extensions| {
        let mut request = request(path, body.to_string());
        *request.extensions_mut() = extensions;
        let answer = service.clone().oneshot(request).now_or_never().unwrap();
        assert_eq!(answer.unwrap().status(), 200);
        std::mem::take(&mut *seen.lock().unwrap())
    };
    let mut outside = http::Extensions::new();
    outside.insert(QueueHints {
        client: Some("c".to_owned()),
        ..QueueHints::default()
    });
    let chat = json!({"model": "big", "messages": [{"role": "user", "content": "x".repeat(9000)}]});
    let chat = send(CHAT, chat, outside);
    let blocks = |it: &http::Extensions| it.get::<PromptBlocks>().unwrap().hashes().len();
    assert!(blocks(&chat) > 1);
    let embedding = json!({"model": "tiny", "input": "four words of text"});
    let embedding = send("/v1/embeddings", embedding, chat.clone());
    let hints: &QueueHints = embedding.get().unwrap();
    assert_eq!(hints.model.as_deref(), Some("tiny"));
    assert!(hints.raw_isl_tokens.unwrap() < 10, "{hints:?}");
    assert_eq!(hints.client.as_deref(), Some("c"), "as it was said outside");
    assert_eq!(blocks(&embedding), 0);

    // One whose body is not read says nothing.
    let speech = send("/v1/audio/speech", json!({"model": "tts"}), chat);
    let hints: &QueueHints = speech.get().unwrap();
    let kept = QueueHints {
        client: Some("c".to_owned()),
        ..QueueHints::default()
    };
    assert_eq!(*hints, kept);
    assert!(speech.get::<PromptBlocks>().is_none());

    // What a layer outside says of one it says of the other.
    let mut outside = http::Extensions::new();
    outside.insert(QueueHints {
        model: Some("said".to_owned()),
        raw_isl_tokens: Some(7),
        ..QueueHints::default()
    });
    let first = send(CHAT, json!({"model": "big", "messages": []}), outside);
    let second = send(
        "/v1/embeddings",
        json!({"model": "tiny", "input": "x"}),
        first,
    );
    let third = send("/v1/audio/speech", json!({"model": "tts"}), second.clone());
    for other in [second, third] {
        let hints: &QueueHints = other.get().unwrap();
        assert_eq!(hints.model.as_deref(), Some("said"));
        assert_eq!(hints.raw_isl_tokens, Some(7));
    }
}
