//! What callers send does not come back: answers stay small and valid JSON, whatever was sent.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use serde_json::Value;
use tower_policy_queue::{Rejection, ResponseBody};

use crate::{
    HUGE,
    common::{NoBody, feed::FedBody, json},
    hall::Hall,
};

/// What is to be looked for in answers.
const MARK: &str = "gotcha";

/// One dominion that queues, one that does not, and every header believed.
const POLICY: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - name: std
    policy_family: std
    cache_bucket: any
    quantum: 100
    max_queue_wait_ms: 1000
    max_hold_ms: 5000
  - {name: tight, quantum: 100, request_queue_limit_per_worker: 0}
dominions:
  - {id: pool, kind: remote, max_concurrency: 1, max_queue: 1}
  - {id: strict, kind: remote, max_concurrency: 1, policy: reject}
  - {id: gpu, kind: local, max_concurrency: 1}
endpoints: [{id: s1, dominion: strict, models: [s1]}]
local_models: [{id: l1, dominion: gpu}, {id: l2, dominion: gpu}]
profiles: [{name: first, models: [l1]}, {name: second, models: [l2]}]
default_dominion: pool
headers:
  model: x-model
  raw_isl_tokens: x-raw
  cached_tokens: x-cached
  strict_priority: x-tier
  priority_jump: x-jump
  worker: x-worker
  allowed_workers: x-allowed
  max_queue_wait_ms: x-wait
";

/// Values that break out of a JSON string, of a header, or of memory, if they are copied.
fn hostile() -> Vec<HeaderValue> {
    let values: [Vec<u8>; 5] = [
        format!("{MARK}\"}},\"error\":{{\"code\":\"ok\"").into(),
        format!("{MARK}\\").into(),
        format!("{MARK}\t\x7f<script>alert(1)</script>")
            .replace('\x7f', "")
            .into(),
        [MARK.as_bytes(), b"\xff\xfe\x80"].concat(),
        format!("{MARK}{}", "\"\\".repeat(HUGE / 2)).into(),
    ];
    let value = |bytes: &Vec<u8>| HeaderValue::from_bytes(bytes).unwrap();
    values.iter().map(value).collect()
}

/// A request that carries a hostile value wherever that is possible, and these headers.
fn request(id: &str, value: &HeaderValue, headers: &[(&'static str, &str)]) -> Request<NoBody> {
    let mut request = Request::builder()
        .uri(format!("/{id}?{MARK}=%22%0d%0a"))
        .body(NoBody::new())
        .unwrap();
    let map = request.headers_mut();
    for name in [
        "x-dynamo-meta-policy-class",
        "x-promptforge-client",
        "content-length",
        "authorization",
        "x-request-id",
    ] {
        map.insert(name, value.clone());
    }
    for (name, value) in headers {
        map.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    request
}

fn is_clean<B>(response: Response<ResponseBody<B>>, code: &str, status: u16)
where
    B: Body<Data = Bytes>,
    ResponseBody<B>: Body<Data = Bytes, Error: std::fmt::Debug>,
{
    assert_eq!(response.status(), status, "{code}");
    let rejection: Rejection = response.extensions().get().cloned().unwrap();
    assert_eq!(rejection.code(), code);
    for said in [rejection.to_string(), format!("{rejection:?}")] {
        assert!(!said.contains(MARK) && said.len() < 300, "{said}");
    }
    let heads = format!("{:?}", response.headers());
    assert!(!heads.contains(MARK) && heads.len() < 300, "{heads}");
    let error: Value = json(response.into_body());
    let text = error.to_string();
    assert!(!text.contains(MARK) && text.len() < 400, "{text}");
    assert_eq!(error["error"]["code"], code);
    assert!(error["error"]["message"].is_string());
    assert_eq!(error.as_object().unwrap().len(), 1, "nothing beside it");
}

#[test]
fn a_header_that_cannot_be_read_is_named_and_not_repeated() {
    for value in hostile() {
        for name in ["x-raw", "x-cached", "x-tier", "x-jump", "x-wait"] {
            let mut hall = Hall::new(POLICY);
            let mut sent = request("asked", &value, &[]);
            sent.headers_mut()
                .insert(HeaderName::from_static(name), value.clone());
            hall.send("asked", sent);
            is_clean(hall.response("asked"), "invalid_queue_header", 400);
        }
    }
}

#[test]
fn worker_ids_that_there_are_not_are_not_repeated() {
    for value in hostile() {
        for name in ["x-worker", "x-allowed"] {
            if std::str::from_utf8(value.as_bytes()).is_err() {
                continue;
            }
            let mut hall = Hall::new(POLICY);
            // An allow-list needs workers of which to leave none.
            let mut sent = request("asked", &value, &[("x-model", "s1")]);
            sent.headers_mut()
                .insert(HeaderName::from_static(name), value.clone());
            hall.send("asked", sent);
            is_clean(hall.response("asked"), "no_eligible_worker", 503);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_of_the_queue_repeats_anything() {
    for value in &hostile() {
        let mut hall = Hall::new(POLICY);
        hall.arrive("running");
        let tight = [("x-dynamo-meta-policy-class", "tight")];
        hall.send("tight", request("tight", value, &tight));
        is_clean(hall.response("tight"), "policy_class_queue_limit", 529);
        hall.send("parked", request("parked", value, &[]));
        hall.send("full", request("full", value, &[]));
        is_clean(hall.response("full"), "queue_full", 503);
        hall.pass(1000).await;
        is_clean(hall.response("parked"), "queue_timeout", 503);

        let strict = [("x-model", "s1")];
        hall.send("first", request("first", value, &strict));
        hall.send("refused", request("refused", value, &strict));
        is_clean(hall.response("refused"), "queue_rejected", 429);

        let local = [("x-model", "l1")];
        hall.send("local", request("local", value, &local));
        hall.handle.switch_profile("second").unwrap();
        is_clean(hall.response("local"), "profile_switch", 503);

        hall.pass(Duration::from_secs(5).as_millis() as u64).await;
        is_clean(hall.response("first"), "hold_timeout", 504);
        hall.handle.shutdown();
        hall.send("late", request("late", value, &[]));
        is_clean(hall.response("late"), "queue_unavailable", 503);
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_values_are_let_through_to_whom_they_are_meant_for() {
    // They are wrong nowhere, so that the answers above are about something else.
    for value in hostile() {
        let mut hall = Hall::new(POLICY);
        hall.send("asked", request("asked", &value, &[]));
        assert_eq!(hall.state("asked"), "running");
        drop(hall.answer("asked", FedBody::empty()));
    }
}
