//! The policy as it is written: the keys and their types, nothing else.
//!
//! All fields are optional and ranges are open, so that what is missing or out of range is
//! found by validation, which reports all mistakes, and not here, where the first ends it. Lists
//! of names hold options because YAML would otherwise read a `~` among them as the name "~".
//!
//! No type here is `Debug`: keys pass through.

use serde::Deserialize;

use super::value::{Map, Number, Whole};

/// The whole file.
///
/// The aliases are the table names of TOML: `[[dominion]]` and so on.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a policy, which is a map")]
pub(super) struct RawPolicy {
    pub(super) default_policy_family: Option<String>,
    pub(super) uncached_isl_buckets: Option<Vec<RawBucket>>,
    pub(super) policy_classes: Option<Vec<RawClass>>,
    pub(super) models: Option<Map<RawProfile>>,
    #[serde(alias = "dominion")]
    pub(super) dominions: Option<Vec<RawDominion>>,
    #[serde(alias = "endpoint")]
    pub(super) endpoints: Option<Vec<RawEndpoint>>,
    #[serde(alias = "local_model")]
    pub(super) local_models: Option<Vec<RawLocalModel>>,
    #[serde(alias = "profile")]
    pub(super) profiles: Option<Vec<RawSelection>>,
    pub(super) default_dominion: Option<String>,
    pub(super) headers: Option<RawHeaders>,
    pub(super) max_queue_wait_ms: Option<Whole>,
    pub(super) read_ahead_bytes: Option<Whole>,
    pub(super) read_ahead_total_bytes: Option<Whole>,
    pub(super) statuses: Option<Map<Whole>>,
    pub(super) bypass: Option<Vec<Option<String>>>,
    pub(super) class_header: Option<bool>,
}

/// The keys that go by another name in TOML: as the schema has them, and the other.
pub(super) const ALIASES: [(&str, &str); 4] = [
    ("dominions", "dominion"),
    ("endpoints", "endpoint"),
    ("local_models", "local_model"),
    ("profiles", "profile"),
];

/// A set of families, buckets and classes: the root's, or a model's.
#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a model's policy, which is a map"
)]
pub(super) struct RawProfile {
    pub(super) default_policy_family: Option<String>,
    pub(super) uncached_isl_buckets: Option<Vec<RawBucket>>,
    pub(super) policy_classes: Option<Vec<RawClass>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a bucket, which is a map")]
pub(super) struct RawBucket {
    pub(super) min_tokens: Option<Whole>,
    pub(super) bucket: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a policy class, which is a map"
)]
pub(super) struct RawClass {
    pub(super) name: Option<String>,
    pub(super) policy_family: Option<String>,
    pub(super) cache_bucket: Option<String>,
    pub(super) queue_policy: Option<String>,
    pub(super) quantum: Option<Whole>,
    pub(super) prefill_busy_threshold: Option<Whole>,
    pub(super) prefill_busy_threshold_frac: Option<Number>,
    pub(super) busy_worker_ratio: Option<Number>,
    pub(super) request_queue_limit_per_worker: Option<Whole>,
    pub(super) raw_isl_token_queue_limit_per_worker: Option<Whole>,
    pub(super) cached_token_queue_limit_per_worker: Option<Whole>,
    pub(super) max_queue_wait_ms: Option<Whole>,
    pub(super) hold_until: Option<String>,
    pub(super) max_hold_ms: Option<Whole>,
    pub(super) prefill_until: Option<String>,
    pub(super) output_token_weight: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a dominion, which is a map")]
pub(super) struct RawDominion {
    pub(super) id: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) max_concurrency: Option<Whole>,
    pub(super) max_queue: Option<Whole>,
    pub(super) policy: Option<String>,
    pub(super) enforce: Option<bool>,
    pub(super) fair_scheduling: Option<bool>,
    pub(super) fair_unit: Option<String>,
    pub(super) vram_gb: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "an endpoint, which is a map"
)]
pub(super) struct RawEndpoint {
    pub(super) id: Option<String>,
    pub(super) dominion: Option<String>,
    pub(super) models: Option<Vec<Option<String>>>,
    pub(super) max_num_batched_tokens: Option<Whole>,
    pub(super) protocol: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) api_key: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a local model, which is a map"
)]
pub(super) struct RawLocalModel {
    pub(super) id: Option<String>,
    pub(super) dominion: Option<String>,
    pub(super) max_num_batched_tokens: Option<Whole>,
    pub(super) vram_gb: Option<Number>,
}

/// A profile in the other sense: models that are loaded together.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a profile, which is a map")]
pub(super) struct RawSelection {
    pub(super) name: Option<String>,
    pub(super) models: Option<Vec<Option<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "header names, which are a map"
)]
pub(super) struct RawHeaders {
    pub(super) policy: Option<String>,
    pub(super) client: Option<String>,
    pub(super) model: Option<String>,
    pub(super) raw_isl_tokens: Option<String>,
    pub(super) cached_tokens: Option<String>,
    pub(super) strict_priority: Option<String>,
    pub(super) priority_jump: Option<String>,
    pub(super) worker: Option<String>,
    pub(super) allowed_workers: Option<String>,
    pub(super) max_queue_wait_ms: Option<String>,
}
