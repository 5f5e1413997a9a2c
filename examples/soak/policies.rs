//! Policies, no two alike, for the same clients.
//!
//! The dominions `a` and `b` are in all of them. A third one comes and goes, under a new name each time;
//! classes that are not of a family come and go as well.

use std::{fmt::Write, time::Duration};

use fastrand::Rng;
use tower_policy_queue::{ConfigError, PolicyConfig};

use super::ledger::Cap;

/// The bytes that all policies allow to be read ahead.
pub(crate) const READ_AHEAD: usize = 1 << 20;

/// The longest hold of the class `brief`.
pub(crate) const BRIEF: Duration = Duration::from_millis(800);

/// What a client may ask for. No policy has a class for the last two.
pub(crate) const FAMILIES: [&str; 8] = [
    "interactive",
    "batch",
    "embed",
    "peek",
    "brief",
    "spare",
    "unheard-of",
    "",
];

/// The workers of the policies.
pub(crate) const WORKERS: [&str; 6] = ["a1", "a2", "a3", "b1", "b2", "c1"];

/// A policy, and what is known of it beforehand.
pub(crate) struct Plan {
    yaml: String,
    /// The slots of each dominion, as far as they are enforced.
    pub(crate) caps: Vec<(String, Cap)>,
    /// Dominions that admit all requests.
    pub(crate) lenient: Vec<String>,
}

impl Plan {
    /// The `number`th policy.
    pub(crate) fn new(rng: &mut Rng, number: usize) -> Self {
        let mut plan = Self {
            yaml: "default_policy_family: interactive\nmax_queue_wait_ms: 3000\n\
                   uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 512, bucket: long}]\n\
                   policy_classes:\n"
                .to_owned(),
            caps: Vec::new(),
            lenient: Vec::new(),
        };
        for (family, bucket) in [
            ("interactive", "short"),
            ("interactive", "long"),
            ("batch", "short"),
            ("batch", "long"),
        ] {
            let place = format!("policy_family: {family}, cache_bucket: {bucket}");
            plan.class(rng, &format!("{family}-{bucket}"), &place);
        }
        for (class, fields) in [
            ("embed", "hold_until: headers"),
            ("peek", "hold_until: first_byte, prefill_until: headers"),
            ("brief", "max_hold_ms: 800"),
            ("spare", "max_queue_wait_ms: 500"),
        ] {
            if rng.u8(..4) > 0 {
                plan.class(rng, class, fields);
            }
        }
        let third = (rng.u8(..3) == 0).then(|| format!("c-{number}"));
        plan.line("dominions:");
        plan.dominion(rng, "a", 4..=12);
        plan.dominion(rng, "b", 2..=8);
        if let Some(id) = &third {
            plan.dominion(rng, id, 1..=4);
        }
        plan.line("endpoints:");
        for (worker, tokens) in [("a1", 4096), ("a2", 8192), ("a3", 2048)] {
            // The model would belong to no dominion if all its workers were gone.
            if worker == "a1" || rng.u8(..5) > 0 {
                plan.line(&format!(
                    "  - {{id: {worker}, dominion: a, models: [m-a], max_num_batched_tokens: {tokens}}}"
                ));
            }
        }
        plan.line("  - {id: b1, dominion: b, models: [m-b, m-b-large]}");
        plan.line("  - {id: b2, dominion: b, models: [m-b]}");
        if let Some(id) = &third {
            plan.line(&format!("  - {{id: c1, dominion: {id}, models: [m-c]}}"));
        }
        plan.line(
            "default_dominion: a\n\
             headers:\n  model: x-model\n  raw_isl_tokens: x-raw-isl-tokens\n  \
             cached_tokens: x-cached-tokens\n  strict_priority: x-strict-priority\n  \
             priority_jump: x-priority-jump\n  worker: x-worker\n  \
             allowed_workers: x-allowed-workers\n  max_queue_wait_ms: x-max-queue-wait-ms\n\
             read_ahead_bytes: 65536\n\
             class_header: true",
        );
        plan.line(&format!("read_ahead_total_bytes: {READ_AHEAD}"));
        plan
    }

    pub(crate) fn config(&self) -> Result<PolicyConfig, ConfigError> {
        self.yaml.parse()
    }

    fn line(&mut self, line: &str) {
        self.yaml.push_str(line);
        self.yaml.push('\n');
    }

    fn class(&mut self, rng: &mut Rng, name: &str, fields: &str) {
        let quantum = 128 << rng.u32(..6);
        let order = if rng.bool() { "fcfs" } else { "wspt" };
        let mut class =
            format!("  - {{name: {name}, quantum: {quantum}, queue_policy: {order}, {fields}");
        let mut maybe = |one_in: u8, field: &str| {
            if rng.u8(..one_in) == 0 {
                // Writing to a string cannot fail.
                let _ = write!(class, ", {field}");
            }
        };
        maybe(3, "prefill_busy_threshold: 3000");
        maybe(5, "prefill_busy_threshold_frac: 0.75");
        maybe(4, "request_queue_limit_per_worker: 12");
        maybe(6, "raw_isl_token_queue_limit_per_worker: 20000");
        maybe(6, "cached_token_queue_limit_per_worker: 8000");
        maybe(3, "output_token_weight: 1.5");
        class.push('}');
        self.line(&class);
    }

    fn dominion(&mut self, rng: &mut Rng, id: &str, slots: std::ops::RangeInclusive<usize>) {
        let slots = rng.usize(slots);
        let enforce = rng.u8(..6) > 0;
        let max_queue = rng.usize(10..=120);
        let policy = if rng.u8(..12) == 0 { "reject" } else { "queue" };
        let turns = match rng.u8(..4) {
            0 => "fair_scheduling: false",
            1 => "fair_unit: tokens",
            _ => "fair_unit: requests",
        };
        self.line(&format!(
            "  - {{id: {id}, max_concurrency: {slots}, max_queue: {max_queue}, policy: {policy}, \
             enforce: {enforce}, {turns}}}"
        ));
        self.caps.push((id.to_owned(), enforce.then_some(slots)));
        if !enforce {
            self.lenient.push(id.to_owned());
        }
    }
}
