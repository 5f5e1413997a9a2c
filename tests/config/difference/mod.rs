//! What changes from one policy to the next.

mod keys;
mod order;

use tower_policy_queue::PolicyChanges;

use crate::{load, with_class};

/// What every key says here is its own: no default, and no other key's value.
const FULL: &str = "\
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: warm}, {min_tokens: 3000, bucket: cold}]
policy_classes:
  - name: a
    policy_family: f
    cache_bucket: warm
    quantum: 2048
    queue_policy: wspt
    prefill_busy_threshold: 100
    prefill_busy_threshold_frac: 16.0
    busy_worker_ratio: 0.95
    request_queue_limit_per_worker: 10
    raw_isl_token_queue_limit_per_worker: 11
    cached_token_queue_limit_per_worker: 12
    max_queue_wait_ms: 13
    hold_until: first_byte
    max_hold_ms: 14
    prefill_until: headers
    output_token_weight: 1.5
  - {name: b, policy_family: f, cache_bucket: cold, quantum: 512, max_queue_wait_ms: 15}
  - {name: x, quantum: 4}
models:
  big:
    default_policy_family: f
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}, {min_tokens: 4000, bucket: most}]
    policy_classes:
      - {name: c, policy_family: f, cache_bucket: all, quantum: 5, max_queue_wait_ms: 16}
      - {name: d, policy_family: f, cache_bucket: most, quantum: 5, max_queue_wait_ms: 16}
      - {name: e, policy_family: g, cache_bucket: all, quantum: 5, max_queue_wait_ms: 16}
      - {name: h, policy_family: g, cache_bucket: most, quantum: 5, max_queue_wait_ms: 16}
dominions:
  - {id: pool, kind: remote, max_concurrency: 4, max_queue: 20, max_queue_per_client: 5, fair_unit: tokens}
  - {id: gpu, kind: local, policy: reject, enforce: false, fair_scheduling: false, vram_gb: 24}
  - {id: idle}
endpoints:
  - id: openai
    dominion: pool
    models: [m, n]
    max_num_batched_tokens: 8192
    protocol: openai
    base_url: https://user:hunter2@example.com
    api_key: sk-secret
local_models: [{id: qwen, dominion: gpu, max_num_batched_tokens: 2048, vram_gb: 1.5}]
profiles: [{name: day, models: [qwen]}]
default_dominion: pool
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
max_queue_wait_ms: 17
read_ahead_bytes: 18
read_ahead_total_bytes: 19
statuses: {queue_full: 429}
bypass: [/health, OPTIONS]
class_header: true
server_timing: true
";

fn changes(before: &str, after: &str) -> PolicyChanges {
    load(after).changes_since(&load(before))
}

#[track_caller]
fn assert_changes(before: &str, after: &str, expected: &[&str]) {
    let changes = changes(before, after).to_string();
    let found: Vec<_> = changes.lines().collect();
    assert_eq!(found, expected, "from\n{before}\nto\n{after}");
}

fn replaced(key: &str, value: &str) -> String {
    assert_eq!(FULL.matches(key).count(), 1, "{key}");
    FULL.replace(key, value)
}

#[test]
fn a_policy_does_not_differ_from_itself() {
    for yaml in ["", FULL, &with_class("quantum: 1")] {
        let changes = changes(yaml, yaml);
        assert!(changes.is_empty(), "{changes}");
        assert_eq!(changes.to_string(), "");
    }
}

#[test]
fn a_policy_does_not_differ_from_its_clone() {
    let policy = load(FULL);
    assert!(policy.clone().changes_since(&policy).is_empty());
}

#[test]
fn defaults_that_are_written_out_are_no_change() {
    assert_changes(
        "dominions: [{id: a}]\nendpoints: [{id: e}]",
        "\
dominions: [{id: a, kind: remote, max_queue: 100, policy: queue, fair_scheduling: true, fair_unit: requests}]
endpoints: [{id: e, models: [e]}]
local_models: []
default_dominion: a
headers: {policy: X-Dynamo-Meta-Policy-Class, client: x-promptforge-client}
read_ahead_bytes: 1048576
read_ahead_total_bytes: 67108864
class_header: false
server_timing: false
bypass: []
statuses: {queue_timeout: 503}
",
        &[],
    );
    assert_changes(
        &with_class("quantum: 1, prefill_busy_threshold: 1"),
        &with_class(
            "quantum: 1, prefill_busy_threshold: 1, queue_policy: fcfs, busy_worker_ratio: 1.0, \
             hold_until: body_end, prefill_until: first_byte, output_token_weight: -0.0",
        ),
        &[],
    );
}

#[test]
fn a_longest_wait_is_the_same_wherever_it_is_written() {
    let for_all = with_class("quantum: 1") + "max_queue_wait_ms: 5\n";
    let of_class = with_class("quantum: 1, max_queue_wait_ms: 5");
    assert_changes(&for_all, &of_class, &[]);
    // Without classes there is one all the same.
    assert_changes(
        "",
        "max_queue_wait_ms: 5",
        &["~ policy_classes.default.max_queue_wait_ms: unlimited -> 5"],
    );
}

#[test]
fn another_name_is_another_thing() {
    assert_changes(
        FULL,
        &replaced("{name: x, quantum: 4}", "{name: y, quantum: 4}"),
        &[
            "+ policy_classes.y: quantum 4, max_queue_wait_ms 17",
            "- policy_classes.x: quantum 4, max_queue_wait_ms 17",
        ],
    );
    assert_changes(
        FULL,
        &replaced("- {id: idle}", "- {id: lazy}"),
        &[
            "+ dominions.lazy: max_queue 100",
            "- dominions.idle: max_queue 100",
        ],
    );
    assert_changes(
        FULL,
        &replaced("- id: openai", "- id: other"),
        &[
            "+ endpoints.other: dominion pool, models [m, n], max_num_batched_tokens 8192, \
             protocol openai, base_url (not shown), api_key (not shown)",
            "- endpoints.openai: dominion pool, models [m, n], max_num_batched_tokens 8192, \
             protocol openai, base_url (not shown), api_key (not shown)",
        ],
    );
    assert_changes(
        FULL,
        &replaced("{name: day", "{name: night"),
        &[
            "+ profiles.night: models [qwen]",
            "- profiles.day: models [qwen]",
        ],
    );
    assert_changes(
        "local_models: [{id: a}]",
        "endpoints: [{id: a}]",
        &["+ endpoints.a: (defaults)", "- local_models.a: (defaults)"],
    );
    assert_changes(
        &with_class("quantum: 1"),
        &with_class("quantum: 1").replace("all", "any"),
        &[
            "+ uncached_isl_buckets.any: min_tokens 0",
            "- uncached_isl_buckets.all: min_tokens 0",
            "~ policy_classes.a.cache_bucket: all -> any",
        ],
    );
}

#[test]
fn a_class_that_changes_its_place_in_the_matrix_says_which() {
    assert_changes(
        &with_class("quantum: 1"),
        &with_class("quantum: 1").replace("family: f", "family: g"),
        &[
            "~ default_policy_family: f -> g",
            "~ policy_classes.a.policy_family: f -> g",
        ],
    );
    assert_changes(
        FULL,
        &FULL
            .replace("cache_bucket: warm", "cache_bucket: tmp")
            .replace("cache_bucket: cold", "cache_bucket: warm")
            .replace("cache_bucket: tmp", "cache_bucket: cold"),
        &[
            "~ policy_classes.a.cache_bucket: warm -> cold",
            "~ policy_classes.b.cache_bucket: cold -> warm",
        ],
    );
    let explicit = "  - {name: b, quantum: 1}\n";
    let of_family = "  - {name: b, quantum: 1, policy_family: g, cache_bucket: all}\n";
    assert_changes(
        &(with_class("quantum: 1") + explicit),
        &(with_class("quantum: 1") + of_family),
        &[
            "~ policy_classes.b.policy_family: (none) -> g",
            "~ policy_classes.b.cache_bucket: (none) -> all",
        ],
    );
}

#[test]
fn classes_of_two_models_are_two_even_under_one_name() {
    let with = |quantum: u64| {
        with_class("quantum: 1")
            + &format!(
                "models: {{gpt-4.1: {{default_policy_family: f, uncached_isl_buckets: \
                 [{{min_tokens: 0, bucket: x}}], policy_classes: [{{name: a, policy_family: f, \
                 cache_bucket: x, quantum: {quantum}}}]}}}}"
            )
    };
    assert_changes(
        &with(1),
        &with(2),
        &["~ models.\"gpt-4.1\".policy_classes.a.quantum: 1 -> 2"],
    );
    assert_changes(
        &with(1),
        &with_class("quantum: 1"),
        &[
            "- models.\"gpt-4.1\": default_policy_family f, uncached_isl_buckets [x], \
             policy_classes [a]",
        ],
    );
}

#[test]
fn the_first_classes_replace_the_one_that_is_there_without_any() {
    assert_changes(
        "",
        &with_class("quantum: 2"),
        &[
            "~ default_policy_family: (none) -> f",
            "+ uncached_isl_buckets.all: min_tokens 0",
            "+ policy_classes.a: policy_family f, cache_bucket all, quantum 2",
            "- policy_classes.default: quantum 1",
        ],
    );
}

#[test]
fn a_second_dominion_ends_the_default_that_the_only_one_was() {
    assert_changes(
        "dominions: [{id: a}]",
        "dominions: [{id: a}, {id: b, max_concurrency: 2}]",
        &[
            "~ default_dominion: a -> (none)",
            "+ dominions.b: max_concurrency 2, max_queue 100",
        ],
    );
}

#[test]
fn secrets_never_appear() {
    let secrets = ["hunter2", "sk-secret", "hunter3", "sk-other"];
    let other = replaced("hunter2", "hunter3").replace("sk-secret", "sk-other");
    let without = "endpoints: [{id: openai}]";
    for (before, after) in [
        (FULL, &*other),
        (FULL, ""),
        ("", FULL),
        (FULL, without),
        (without, FULL),
        (FULL, &replaced("- id: openai", "- id: renamed")),
    ] {
        let changes = changes(before, after);
        assert!(!changes.is_empty());
        let shown = format!(
            "{changes} {changes:?} {}",
            serde_json::to_string(&changes).unwrap()
        );
        for secret in secrets {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    assert_changes(
        "endpoints: [{id: e, api_key: sk-secret}]",
        "endpoints: [{id: e, base_url: 'http://hunter2@h'}]",
        &[
            "~ endpoints.e.base_url: changed",
            "~ endpoints.e.api_key: changed",
        ],
    );
}

#[test]
fn long_lists_are_cut_and_still_show_what_differs() {
    let with = |count: usize| {
        let models: Vec<_> = (0..count).map(|index| format!("m{index}")).collect();
        format!("endpoints: [{{id: e, models: [{}]}}]", models.join(", "))
    };
    assert_changes(
        &with(1000),
        &with(1001),
        &["~ endpoints.e.models: (1000 alike) -> (1000 alike), m1000"],
    );
    assert_changes(
        "",
        &with(1000),
        &["+ endpoints.e: models [m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, (990 more)]"],
    );
}

#[test]
fn a_change_is_one_line_whatever_the_file_says() {
    let text = "x\\n+ dominions.fake: \\u001b[31m".repeat(100);
    let yaml = format!("endpoints: [{{id: e, protocol: \"{text}\", models: [\"{text}\"]}}]");
    let changes = changes("endpoints: [{id: e}]", &yaml);
    let shown = changes.to_string();
    assert_eq!((changes.len(), shown.lines().count()), (2, 2), "{shown}");
    assert!(!shown.contains('\u{1b}') && shown.len() < 500, "{shown}");
}

#[test]
fn a_change_can_be_taken_apart_and_serialized() {
    let changes = changes(
        "dominions: [{id: a}, {id: b}, {id: c, max_queue: 5}]\nendpoints: [{id: e, api_key: k}]",
        "dominions: [{id: b}, {id: a, max_queue: 9}, {id: d}]\nendpoints: [{id: e}]",
    );
    let parts: Vec<_> = changes
        .iter()
        .map(|change| {
            (
                change.kind(),
                change.path(),
                change.before(),
                change.after(),
            )
        })
        .collect();
    assert_eq!(
        parts,
        [
            ("changed", "dominions.a.max_queue", Some("100"), Some("9")),
            ("added", "dominions.d", None, Some("max_queue 100")),
            ("reordered", "dominions", Some("a, b"), Some("b, a")),
            ("removed", "dominions.c", Some("max_queue 5"), None),
            ("changed", "endpoints.e.api_key", None, None),
        ]
    );
    let serialized = serde_json::to_value(&changes).unwrap();
    for ((kind, path, before, after), value) in parts.iter().zip(serialized.as_array().unwrap()) {
        let expected =
            serde_json::json!({"kind": kind, "path": path, "before": before, "after": after});
        assert_eq!(*value, expected);
    }
    assert_eq!((&changes).into_iter().count(), changes.len());
}
