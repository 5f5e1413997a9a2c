//! What is believed about a request: headers that the policy names, `QueueHints` among the
//! extensions, and the classifier's word, the later ones winning field by field.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod headers;
mod order;
mod sources;

use common::NoBody;
use common::desk::{Client, Desk, Scene, get, policy};
use http::{HeaderName, HeaderValue, Request};
use tower_policy_queue::Admission;

/// Every request's class, profile and worker tell what was believed of it.
pub(crate) const POLICY: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: small}, {min_tokens: 100, bucket: large}]
policy_classes:
  - {name: std-small, policy_family: std, cache_bucket: small, quantum: 100}
  - {name: std-large, policy_family: std, cache_bucket: large, quantum: 100}
  - {name: pro-small, policy_family: pro, cache_bucket: small, quantum: 100}
  - {name: pro-large, policy_family: pro, cache_bucket: large, quantum: 100}
  - {name: batch, quantum: 100}
models:
  m1:
    default_policy_family: one
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: one, policy_family: one, cache_bucket: any, quantum: 1}]
  m2:
    default_policy_family: two
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: two, policy_family: two, cache_bucket: any, quantum: 1}]
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints:
  - {id: w1, dominion: pool, models: [x, m1, m2]}
  - {id: w2, dominion: pool, models: [x, m1, m2]}
  - {id: w3, dominion: pool, models: [x, m1, m2]}
";

const TRUSTING: &str = "
headers:
  policy: x-policy
  client: x-client
  model: x-model
  raw_isl_tokens: x-raw
  cached_tokens: x-cached
  strict_priority: x-tier
  priority_jump: x-jump
  worker: x-worker
  allowed_workers: x-allowed
";

pub(crate) fn trusting() -> Scene {
    Scene::new(policy(&format!("{POLICY}{TRUSTING}")))
}

pub(crate) fn with(
    mut request: Request<NoBody>,
    headers: &[(&'static str, &str)],
) -> Request<NoBody> {
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        request
            .headers_mut()
            .append(HeaderName::from_static(name), value);
    }
    request
}

pub(crate) fn describe(admission: &Admission) -> String {
    let profile = admission.profile().unwrap_or("root");
    format!(
        "{} {profile} {}",
        admission.class(),
        admission.worker().unwrap_or("none")
    )
}

/// What is believed of a request that starts at once.
pub(crate) fn believed(scene: &mut Scene, request: Request<NoBody>) -> String {
    let client = scene.call_with("asked", request);
    describe(&admitted(&scene.desk, client))
}

pub(crate) fn admitted(desk: &Desk, mut client: Client) -> Admission {
    match client.polled.poll() {
        std::task::Poll::Pending => desk.admission("asked"),
        answered => panic!("it is admitted, not answered with {answered:?}"),
    }
}

pub(crate) fn asked(headers: &[(&'static str, &str)]) -> Request<NoBody> {
    with(get("asked"), headers)
}
