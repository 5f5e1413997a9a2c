//! The policies that requests are tried on, and what each of them has.

use std::sync::LazyLock;

use tower_policy_queue::PolicyConfig;

/// What a policy has, to be found again in its answers.
pub struct Policy {
    yaml: &'static str,
    config: LazyLock<PolicyConfig>,
    /// The model of the profile, if any, and the name of the class.
    pub classes: &'static [(Option<&'static str>, &'static str)],
    /// With the slots of those whose requests keep theirs until the end of the body.
    pub dominions: &'static [(&'static str, Option<usize>)],
    /// With their dominions.
    pub workers: &'static [(&'static str, Option<&'static str>)],
    /// Statuses other than the documented ones.
    pub statuses: &'static [(&'static str, u16)],
    pub bypass: &'static [&'static str],
}

impl Policy {
    pub fn config(&self) -> PolicyConfig {
        self.config.clone()
    }

    pub fn yaml(&self) -> &'static str {
        self.yaml
    }
}

macro_rules! policy {
    ($yaml:ident, $($field:ident: $value:expr),* $(,)?) => {
        Policy {
            yaml: $yaml,
            config: LazyLock::new(|| {
                let yaml = format!("{}{HEADERS}", $yaml);
                yaml.parse().unwrap_or_else(|error| panic!("{error}"))
            }),
            $($field: $value),*
        }
    };
}

const HEADERS: &str = "
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
  max_queue_wait_ms: x-wait
";

const SHARED: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: small}, {min_tokens: 100, bucket: large}]
policy_classes:
  - {name: std-small, policy_family: std, cache_bucket: small, quantum: 100, request_queue_limit_per_worker: 3}
  - {name: std-large, policy_family: std, cache_bucket: large, quantum: 10, queue_policy: wspt, prefill_busy_threshold: 50}
  - {name: pro-small, policy_family: pro, cache_bucket: small, quantum: 1, raw_isl_token_queue_limit_per_worker: 100}
  - {name: pro-large, policy_family: pro, cache_bucket: large, quantum: 500, cached_token_queue_limit_per_worker: 50}
  - {name: batch, quantum: 18446744073709551615, prefill_busy_threshold_frac: 0.5, busy_worker_ratio: 0.4}
models:
  m1:
    default_policy_family: one
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: one, policy_family: one, cache_bucket: any, quantum: 1, prefill_busy_threshold: 0}]
dominions: [{id: pool, kind: remote, max_concurrency: 2, max_queue: 6}]
endpoints:
  - {id: w1, dominion: pool, models: [x, m1, m2], max_num_batched_tokens: 64}
  - {id: w2, dominion: pool, models: [x, m1]}
";

const APART: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
max_queue_wait_ms: 300
policy_classes:
  - {name: std, policy_family: std, cache_bucket: all, quantum: 64, hold_until: headers, max_hold_ms: 200, output_token_weight: 3.5}
  - {name: pro, policy_family: pro, cache_bucket: all, quantum: 512, hold_until: first_byte, prefill_until: headers, prefill_busy_threshold: 100}
  - {name: batch, quantum: 16, max_queue_wait_ms: 18446744073709551615, max_hold_ms: 18446744073709551615, output_token_weight: 1}
dominions:
  - {id: fair, kind: remote, max_concurrency: 1, max_queue: 4, max_queue_per_client: 2, fair_unit: tokens}
  - {id: gpu, kind: local, max_concurrency: 1, policy: reject, vram_gb: 8}
endpoints:
  - {id: w1, dominion: fair, models: [m1, m2]}
  - {id: free, models: [m3]}
local_models:
  - {id: w2, dominion: gpu, vram_gb: 4}
default_dominion: fair
class_header: true
bypass: [/health, OPTIONS]
statuses: {queue_rejected: 503, invalid_queue_header: 422}
read_ahead_bytes: 16
read_ahead_total_bytes: 40
";

/// No dominion, so no slots: only thresholds make anybody wait.
const FREE: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: std, policy_family: std, cache_bucket: all, quantum: 1, prefill_busy_threshold: 10, request_queue_limit_per_worker: 4}
  - {name: batch, quantum: 1, prefill_busy_threshold: 0, request_queue_limit_per_worker: 0}
endpoints: [{id: w1, models: [m1, m2]}]
";

pub static POLICIES: [Policy; 3] = [
    policy!(
        SHARED,
        classes: &[
            (None, "std-small"),
            (None, "std-large"),
            (None, "pro-small"),
            (None, "pro-large"),
            (None, "batch"),
            (Some("m1"), "one"),
        ],
        dominions: &[("pool", Some(2))],
        workers: &[("w1", Some("pool")), ("w2", Some("pool"))],
        statuses: &[],
        bypass: &[],
    ),
    policy!(
        APART,
        classes: &[(None, "std"), (None, "pro"), (None, "batch")],
        dominions: &[("fair", None), ("gpu", None)],
        workers: &[("w1", Some("fair")), ("free", None), ("w2", Some("gpu"))],
        statuses: &[("queue_rejected", 503), ("invalid_queue_header", 422)],
        bypass: &["/health", "OPTIONS"],
    ),
    policy!(
        FREE,
        classes: &[(None, "std"), (None, "batch")],
        dominions: &[],
        workers: &[("w1", None)],
        statuses: &[],
        bypass: &[],
    ),
];
