//! Turned away: always with a response, which says why to programs, people and layers outside.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod custom;
mod teardown;

use bytes::Bytes;
use common::NoBody;
use common::{
    desk::{Client, Scene, get, policy},
    feed::FedBody,
    json,
};
use futures::FutureExt;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use serde_json::{Value, json};
use tower::{Layer, Service, service_fn};
use tower_policy_queue::RequestBody;
use tower_policy_queue::{LimitKind, PolicyQueueLayer, Reason, Rejection, ResponseBody};

/// One slot, and room for two in the queue.
const NARROW: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 2}]";
pub(crate) const REJECTS: &str =
    "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";

/// One slot, two workers, and a limit on what class `chat` may have queued.
fn limited(limit: &str) -> String {
    format!(
        "
default_policy_family: any
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: chat, policy_family: any, cache_bucket: any, quantum: 1, {limit}}}
dominions: [{{id: pool, kind: remote, max_concurrency: 1}}]
endpoints: [{{id: a, dominion: pool}}, {{id: b, dominion: pool}}]
headers: {{raw_isl_tokens: x-raw, cached_tokens: x-cached, worker: x-worker}}
"
    )
}

fn sized(raw: u64, cached: u64) -> Request<NoBody> {
    let mut request = get("sized");
    request.headers_mut().insert("x-raw", raw.into());
    request.headers_mut().insert("x-cached", cached.into());
    request
}

/// A cause, and all that is said about it.
struct Case {
    yaml: String,
    /// What waits already, behind the one request that runs.
    queued: Vec<Request<NoBody>>,
    request: Request<NoBody>,
    status: u16,
    /// The error, less its message.
    error: Value,
    message: &'static str,
}

fn cases() -> Vec<Case> {
    let class_limit = |limit: &str, kind: &str, current: u64, of: u64| Case {
        yaml: limited(limit),
        queued: vec![sized(30, 10), sized(30, 10)],
        request: sized(1, 0),
        status: 529,
        error: json!({
            "type": "overloaded_error", "code": "policy_class_queue_limit", "param": null,
            "policy_class": "chat", "limit_kind": kind, "current": current, "limit": of,
        }),
        message: "chat",
    };
    let mut no_worker = get("pinned");
    no_worker
        .headers_mut()
        .insert("x-worker", HeaderValue::from_static("c"));
    let mut no_number = get("odd");
    no_number
        .headers_mut()
        .insert("x-raw", HeaderValue::from_static("many"));
    let server_error = |code: &str| json!({"type": "server_error", "code": code, "param": null});
    vec![
        Case {
            yaml: REJECTS.to_owned(),
            queued: vec![],
            request: get("refused"),
            status: 429,
            error: json!({"type": "rate_limit_error", "code": "queue_rejected", "param": null}),
            message: "pool",
        },
        Case {
            yaml: NARROW.to_owned(),
            queued: vec![get("queued"), get("queued")],
            request: get("refused"),
            status: 503,
            error: server_error("queue_full"),
            message: "pool",
        },
        Case {
            yaml: NARROW.replace("max_queue", "max_queue_per_client"),
            queued: vec![get("queued"), get("queued")],
            request: get("refused"),
            status: 429,
            error: json!({"type": "rate_limit_error", "code": "client_queue_limit", "param": null}),
            message: "pool",
        },
        class_limit("request_queue_limit_per_worker: 1", "requests", 2, 2),
        class_limit(
            "raw_isl_token_queue_limit_per_worker: 30",
            "raw_isl_tokens",
            60,
            60,
        ),
        class_limit(
            "cached_token_queue_limit_per_worker: 7",
            "cached_tokens",
            20,
            14,
        ),
        Case {
            yaml: limited(""),
            queued: vec![],
            request: no_worker,
            status: 503,
            error: server_error("no_eligible_worker"),
            message: "worker",
        },
        Case {
            yaml: limited(""),
            queued: vec![],
            request: no_number,
            status: 400,
            error: json!({
                "type": "invalid_request_error", "code": "invalid_queue_header", "param": null,
                "header": "x-raw",
            }),
            message: "x-raw",
        },
    ]
}

pub(crate) fn check(
    response: Response<ResponseBody<FedBody>>,
    status: u16,
    error: Value,
    message: &str,
) {
    let code = error["code"].as_str().unwrap().to_owned();
    assert_eq!(response.status(), status, "{code}");
    assert_eq!(
        response.headers()["content-type"],
        "application/json",
        "{code}"
    );
    let rejection = response
        .extensions()
        .get::<Rejection>()
        .expect("the typed reason, too")
        .clone();
    assert_eq!(rejection.status(), status, "{code}");
    assert_eq!(rejection.code(), code);
    assert_eq!(error["type"], rejection.error_type(), "{code}");

    let mut body = json(response.into_body());
    let said = body["error"]
        .as_object_mut()
        .unwrap()
        .remove("message")
        .unwrap();
    assert_eq!(said, rejection.to_string(), "{code}");
    assert!(
        said.as_str().unwrap().contains(message),
        "{code}: the message names what it is about"
    );
    assert_eq!(
        body,
        json!({ "error": error }),
        "nothing more and nothing less"
    );
}

#[test]
fn each_cause_has_its_status_code_type_and_fields() {
    for case in cases() {
        let mut scene = Scene::new(policy(&case.yaml));
        let _running = scene.stream("running");
        let mut queued: Vec<_> = case
            .queued
            .into_iter()
            .map(|request| scene.call_with("queued", request))
            .collect();
        assert!(queued.iter_mut().all(Client::waits));

        let mut refused = scene.call_with("refused", case.request);
        check(refused.response(), case.status, case.error, case.message);
        assert_eq!(
            scene.desk.started(),
            ["running"],
            "it never reached the inner service"
        );
        assert!(
            queued.iter_mut().all(Client::waits),
            "and harmed nobody who waits"
        );
    }
}

#[test]
fn the_decision_is_made_at_the_arrival() {
    let mut scene = Scene::new(policy(REJECTS));
    let running = scene.stream("running");
    let mut refused = scene.call("refused");
    drop(running);
    assert_eq!(
        refused.response().status(),
        429,
        "there was no slot when it came"
    );
    assert!(scene.refusal("next").is_none());
}

#[test]
fn a_limit_of_zero_means_never_queue_and_still_admits_at_once() {
    let mut scene = Scene::new(policy(&limited("request_queue_limit_per_worker: 0")));
    let _running = scene.stream("running");
    let rejection = scene.refusal("refused").expect("nothing may be queued");
    match rejection.reason() {
        Reason::ClassLimit {
            policy_class,
            kind,
            current,
            limit,
            ..
        } => {
            assert_eq!(
                (&**policy_class, *kind, *current, *limit),
                ("chat", LimitKind::Requests, 0, 0)
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        scene.desk.started(),
        ["running"],
        "a limit of 0 still lets a request start at once"
    );
}

#[test]
fn the_class_limit_is_looked_at_before_the_queue() {
    let yaml = limited("request_queue_limit_per_worker: 1")
        .replace("max_concurrency: 1", "max_concurrency: 1, max_queue: 2");
    let mut scene = Scene::new(policy(&yaml));
    let _running = scene.stream("running");
    let _queued = [scene.send("a"), scene.send("b")];
    let code = scene.refusal("c").map(|rejection| rejection.code());
    assert_eq!(code, Some("policy_class_queue_limit"), "both are reached");
}

#[test]
fn an_admitted_request_is_not_marked_as_rejected() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    scene.desk.answer("first", FedBody::empty());
    assert!(first.response().extensions().get::<Rejection>().is_none());
}

#[test]
fn a_rejection_knows_class_and_dominion_as_far_as_they_were_known() {
    let typed = |id: &str, request| {
        let mut scene = Scene::new(policy(&limited("request_queue_limit_per_worker: 0")));
        let _running = scene.send("running");
        let response = scene.call_with(id, request).response();
        let rejection: &Rejection = response.extensions().get().unwrap();
        let known = |name: Option<&str>| name.map(str::to_owned);
        (known(rejection.class()), known(rejection.dominion()))
    };
    let chat = (Some("chat".to_owned()), Some("pool".to_owned()));
    assert_eq!(typed("late", sized(1, 0)), chat);
    let mut odd = get("odd");
    odd.headers_mut()
        .insert("x-raw", HeaderValue::from_static("many"));
    assert_eq!(typed("odd", odd), (None, None));
}

#[test]
fn a_rejection_may_become_an_error_of_a_layer_outside() {
    let mut scene = Scene::new(policy(REJECTS));
    let _running = scene.send("running");
    let rejection = scene.refusal("refused").unwrap();
    let text = rejection.to_string();
    let error: tower::BoxError = rejection.clone().into();
    assert_eq!(error.to_string(), text);
    assert_eq!(error.downcast_ref(), Some(&rejection));
}

#[test]
fn names_in_an_answer_are_those_of_the_policy_not_of_the_request() {
    let mut scene = Scene::new(policy(&limited("")));
    let mut request = get("odd");
    let hostile = HeaderValue::from_static(r#""},"injected":{"#);
    request.headers_mut().insert("x-worker", hostile.clone());
    request.headers_mut().insert("x-raw", hostile);
    let body = json(scene.call_with("odd", request).response().into_body());
    assert_eq!(body.as_object().unwrap().len(), 1);
    assert!(!body.to_string().contains("injected"));
}

#[test]
fn a_rejection_is_a_whole_http_response_for_any_inner_body() {
    let inner = service_fn(|_: Request<RequestBody<NoBody>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, std::convert::Infallible>>()
    });
    let mut service = PolicyQueueLayer::new(policy(REJECTS)).layer(inner);
    let _running = service.call(get("running"));
    let response = service
        .call(get("refused"))
        .now_or_never()
        .unwrap()
        .unwrap();
    let hint = http_body::Body::size_hint(response.body()).exact();
    let body = json(response.into_body());
    assert_eq!(
        hint,
        Some(body.to_string().len() as u64),
        "its length is known"
    );
}
