//! Each key by itself.

use std::collections::BTreeSet;

use super::{FULL, assert_changes, changes};
use crate::refuse;

/// Each key as `FULL` has it, another value of it, and the one change that this makes.
const KEYS: &[(&str, &str, &str)] = &[
    (
        "quantum: 2048",
        "quantum: 1024",
        "~ policy_classes.a.quantum: 2048 -> 1024",
    ),
    (
        "queue_policy: wspt",
        "queue_policy: fcfs",
        "~ policy_classes.a.queue_policy: wspt -> fcfs",
    ),
    (
        "prefill_busy_threshold: 100",
        "prefill_busy_threshold: ~",
        "~ policy_classes.a.prefill_busy_threshold: 100 -> (none)",
    ),
    (
        "prefill_busy_threshold_frac: 16.0",
        "prefill_busy_threshold_frac: 0.5",
        "~ policy_classes.a.prefill_busy_threshold_frac: 16 -> 0.5",
    ),
    (
        "busy_worker_ratio: 0.95",
        "busy_worker_ratio: ~",
        "~ policy_classes.a.busy_worker_ratio: 0.95 -> 1",
    ),
    (
        "request_queue_limit_per_worker: 10",
        "request_queue_limit_per_worker: ~",
        "~ policy_classes.a.request_queue_limit_per_worker: 10 -> unlimited",
    ),
    (
        "raw_isl_token_queue_limit_per_worker: 11",
        "raw_isl_token_queue_limit_per_worker: 0",
        "~ policy_classes.a.raw_isl_token_queue_limit_per_worker: 11 -> 0",
    ),
    (
        "cached_token_queue_limit_per_worker: 12",
        "cached_token_queue_limit_per_worker: 18446744073709551615",
        "~ policy_classes.a.cached_token_queue_limit_per_worker: 12 -> 18446744073709551615",
    ),
    (
        "max_queue_wait_ms: 13",
        "max_queue_wait_ms: 60000",
        "~ policy_classes.a.max_queue_wait_ms: 13 -> 60000",
    ),
    (
        "hold_until: first_byte",
        "hold_until: headers",
        "~ policy_classes.a.hold_until: first_byte -> headers",
    ),
    (
        "max_hold_ms: 14",
        "max_hold_ms: ~",
        "~ policy_classes.a.max_hold_ms: 14 -> unlimited",
    ),
    (
        "prefill_until: headers",
        "prefill_until: first_byte",
        "~ policy_classes.a.prefill_until: headers -> first_byte",
    ),
    (
        "output_token_weight: 1.5",
        "output_token_weight: 0",
        "~ policy_classes.a.output_token_weight: 1.5 -> 0",
    ),
    (
        "min_tokens: 3000",
        "min_tokens: 2000",
        "~ uncached_isl_buckets.cold.min_tokens: 3000 -> 2000",
    ),
    (
        "min_tokens: 4000",
        "min_tokens: 2000",
        "~ models.big.uncached_isl_buckets.most.min_tokens: 4000 -> 2000",
    ),
    (
        "big:\n    default_policy_family: f",
        "big:\n    default_policy_family: g",
        "~ models.big.default_policy_family: f -> g",
    ),
    (
        "kind: remote, max_concurrency: 4",
        "kind: remote",
        "~ dominions.pool.max_concurrency: 4 -> unlimited",
    ),
    (
        "max_queue: 20",
        "max_queue: 21",
        "~ dominions.pool.max_queue: 20 -> 21",
    ),
    (
        "max_queue_per_client: 5, ",
        "",
        "~ dominions.pool.max_queue_per_client: 5 -> unlimited",
    ),
    (
        "fair_unit: tokens",
        "fair_unit: requests",
        "~ dominions.pool.fair_unit: tokens -> requests",
    ),
    (
        "policy: reject",
        "policy: queue",
        "~ dominions.gpu.policy: reject -> queue",
    ),
    (
        "fair_scheduling: false",
        "fair_scheduling: true",
        "~ dominions.gpu.fair_scheduling: false -> true",
    ),
    (
        "enforce: false",
        "enforce: true",
        "~ dominions.gpu.enforce: false -> true",
    ),
    (
        "vram_gb: 24",
        "vram_gb: 1.5",
        "~ dominions.gpu.vram_gb: 24 -> 1.5",
    ),
    (
        "{id: idle}",
        "{id: idle, kind: local}",
        "~ dominions.idle.kind: remote -> local",
    ),
    (
        "dominion: pool",
        "dominion: idle",
        "~ endpoints.openai.dominion: pool -> idle",
    ),
    (
        "models: [m, n]",
        "models: [m, 'o, p']",
        r#"~ endpoints.openai.models: m, n -> m, "o, p""#,
    ),
    (
        "max_num_batched_tokens: 8192",
        "max_num_batched_tokens: ~",
        "~ endpoints.openai.max_num_batched_tokens: 8192 -> (none)",
    ),
    (
        "protocol: openai",
        "protocol: other",
        "~ endpoints.openai.protocol: openai -> other",
    ),
    ("hunter2", "hunter3", "~ endpoints.openai.base_url: changed"),
    (
        "sk-secret",
        "sk-other",
        "~ endpoints.openai.api_key: changed",
    ),
    (
        "id: qwen, dominion: gpu",
        "id: qwen",
        "~ local_models.qwen.dominion: gpu -> (none)",
    ),
    (
        "max_num_batched_tokens: 2048",
        "max_num_batched_tokens: 0",
        "~ local_models.qwen.max_num_batched_tokens: 2048 -> 0",
    ),
    (
        "vram_gb: 1.5",
        "vram_gb: 2",
        "~ local_models.qwen.vram_gb: 1.5 -> 2",
    ),
    (
        "models: [qwen]",
        "models: []",
        "~ profiles.day.models: qwen -> (none)",
    ),
    (
        "default_dominion: pool",
        "default_dominion: ~",
        "~ default_dominion: pool -> (none)",
    ),
    (
        "policy: x-policy",
        "policy: x-p",
        "~ headers.policy: x-policy -> x-p",
    ),
    (
        "client: x-client",
        "client: x-c",
        "~ headers.client: x-client -> x-c",
    ),
    (
        "model: x-model",
        "model: x-m",
        "~ headers.model: x-model -> x-m",
    ),
    (
        "raw_isl_tokens: x-raw",
        "raw_isl_tokens: x-r",
        "~ headers.raw_isl_tokens: x-raw -> x-r",
    ),
    (
        "cached_tokens: x-cached",
        "cached_tokens: ~",
        "~ headers.cached_tokens: x-cached -> (not believed)",
    ),
    (
        "strict_priority: x-tier",
        "strict_priority: ~",
        "~ headers.strict_priority: x-tier -> (not believed)",
    ),
    (
        "priority_jump: x-jump",
        "priority_jump: ~",
        "~ headers.priority_jump: x-jump -> (not believed)",
    ),
    (
        "worker: x-worker",
        "worker: ~",
        "~ headers.worker: x-worker -> (not believed)",
    ),
    (
        "allowed_workers: x-allowed",
        "allowed_workers: ~",
        "~ headers.allowed_workers: x-allowed -> (not believed)",
    ),
    (
        "max_queue_wait_ms: x-wait",
        "max_queue_wait_ms: ~",
        "~ headers.max_queue_wait_ms: x-wait -> (not believed)",
    ),
    (
        "max_queue_wait_ms: 17",
        "max_queue_wait_ms: ~",
        "~ policy_classes.x.max_queue_wait_ms: 17 -> unlimited",
    ),
    (
        "read_ahead_bytes: 18",
        "read_ahead_bytes: ~",
        "~ read_ahead_bytes: 18 -> 1048576",
    ),
    (
        "read_ahead_total_bytes: 19",
        "read_ahead_total_bytes: 0",
        "~ read_ahead_total_bytes: 19 -> 0",
    ),
    (
        "statuses: {queue_full: 429}",
        "statuses: {}",
        "~ statuses.queue_full: 429 -> 503",
    ),
    (
        "bypass: [/health, OPTIONS]",
        "bypass: [/healthz, OPTIONS]",
        "~ bypass: /health, OPTIONS -> /healthz, OPTIONS",
    ),
    (
        "class_header: true",
        "class_header: false",
        "~ class_header: true -> false",
    ),
    (
        "server_timing: true",
        "server_timing: false",
        "~ server_timing: true -> false",
    ),
    // What is a thing by itself.
    (
        "  - {name: x, quantum: 4}\n",
        "  - {name: x, quantum: 4}\n  - {name: y, quantum: 6, queue_policy: wspt}\n",
        "+ policy_classes.y: quantum 6, queue_policy wspt, max_queue_wait_ms 17",
    ),
    (
        "  - {name: x, quantum: 4}\n",
        "",
        "- policy_classes.x: quantum 4, max_queue_wait_ms 17",
    ),
    ("  - {id: idle}\n", "", "- dominions.idle: max_queue 100"),
    (
        "local_models: [",
        "local_models: [{id: llama}, ",
        "+ local_models.llama: (defaults)",
    ),
    (
        "endpoints:\n",
        "endpoints:\n  - {id: own, dominion: pool, models: [k, l], base_url: u, api_key: v}\n",
        "+ endpoints.own: dominion pool, models [k, l], base_url (not shown), api_key (not shown)",
    ),
    (
        "      - {name: h, policy_family: g",
        "      - {name: i, quantum: 1}\n      - {name: h, policy_family: g",
        "+ models.big.policy_classes.i: quantum 1, max_queue_wait_ms 17",
    ),
    (
        "profiles: [",
        "profiles: [{name: night, models: [qwen, m]}, ",
        "+ profiles.night: models [qwen]",
    ),
    (
        "models:\n  big:\n",
        "models:\n  some/model:\n    default_policy_family: k\n    uncached_isl_buckets: \
         [{min_tokens: 0, bucket: all}]\n    policy_classes: [{name: c, policy_family: k, \
         cache_bucket: all, quantum: 1}]\n  big:\n",
        "+ models.\"some/model\": default_policy_family k, uncached_isl_buckets [all], \
         policy_classes [c]",
    ),
];

/// Keys whose change is another thing, or the change of two: they have tests of their own.
const NAMES: [&str; 5] = ["name", "id", "bucket", "policy_family", "cache_bucket"];

#[test]
fn every_key_that_changes_is_one_change() {
    for (was, is, expected) in KEYS {
        // The first of several, unless it is the only one.
        let changed = FULL.replacen(was, is, 1);
        assert_ne!(changed, FULL, "{was}");
        assert_changes(FULL, &changed, &[expected]);
    }
}

/// The keys that the parser knows, out of its refusal of one that it does not.
fn known_keys(yaml: &str) -> Vec<String> {
    let error = refuse(yaml);
    let message = error.mistakes()[0].message();
    let known = message.split_once("the keys here are").unwrap().1;
    known
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_key_of_the_schema_is_forgotten_here() {
    // What a path begins with, and whether a name comes before the key.
    let sections = [
        ("", false, "{no_such_key: 1}"),
        ("models.big.", false, "models: {big: {no_such_key: 1}}"),
        (
            "uncached_isl_buckets.",
            true,
            "uncached_isl_buckets: [{no_such_key: 1}]",
        ),
        (
            "policy_classes.",
            true,
            "policy_classes: [{no_such_key: 1}]",
        ),
        ("dominions.", true, "dominions: [{no_such_key: 1}]"),
        ("endpoints.", true, "endpoints: [{no_such_key: 1}]"),
        ("local_models.", true, "local_models: [{no_such_key: 1}]"),
        ("profiles.", true, "profiles: [{no_such_key: 1}]"),
        ("headers.", false, "headers: {no_such_key: 1}"),
    ];
    let change = |(was, is, _): &(&str, &str, &str)| changes(FULL, &FULL.replacen(was, is, 1));
    let all: Vec<_> = KEYS.iter().map(change).collect();
    let paths: Vec<_> = all.iter().flatten().map(|change| change.path()).collect();
    for (section, named, yaml) in sections {
        let keys = known_keys(yaml);
        assert!(keys.len() > 1, "{section}: {keys:?}");
        for key in keys {
            let covered = paths.iter().any(|path| {
                let below = path.strip_prefix(section);
                below.and_then(|below| below.split('.').nth(named.into())) == Some(&key)
            });
            let elsewhere = match section {
                "" => {
                    key == "default_policy_family" || {
                        // It is compared in the classes that have none of their own.
                        key == "max_queue_wait_ms"
                            && KEYS.iter().any(|row| row.0.contains("_ms: 17"))
                    }
                }
                _ => NAMES.contains(&&*key),
            };
            assert!(covered || elsewhere, "{section}{key} is in no row of KEYS");
        }
    }
}

#[test]
fn every_status_of_the_readme_is_compared_with_its_default() {
    let readme = include_str!("../../../README.md");
    let rows = readme.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(2);
        let status: u16 = cells.next()?.parse().ok()?;
        let status = Some(status).filter(|status| (400..600).contains(status))?;
        Some((status, cells.next()?.trim_matches('`')))
    });
    let rows: BTreeSet<_> = rows.collect();
    assert_eq!(rows.len(), 11);
    for (default, code) in rows {
        let status = |status| format!("statuses: {{{code}: {status}}}");
        assert_changes("", &status(default), &[]);
        let expected = format!("~ statuses.{code}: {default} -> 418");
        assert_changes("", &status(418), &[&expected]);
    }
}
