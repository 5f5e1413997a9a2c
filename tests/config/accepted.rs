//! What loads.

use crate::{load, with_class};

#[test]
fn nothing_is_an_empty_policy() {
    for yaml in [
        "",
        "\n\n",
        "# only a comment\n",
        "null",
        "~",
        "---\n...\n",
        "{}",
        "\u{feff}",
    ] {
        load(yaml);
    }
}

#[test]
fn a_key_without_a_value_is_as_good_as_none() {
    load("dominions:\nendpoints: ~\nmodels: null\nheaders: {}\nprofiles: []\nlocal_models:\n");
}

#[test]
fn every_trace_loads() {
    let mut count = 0;
    for entry in std::fs::read_dir("tests/traces").unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
        load(trace["config"].as_str().unwrap());
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn a_router_s_policy_file_loads_unchanged() {
    load(
        "\
# A cached and an uncached class for each of two families, and one for insiders.
default_policy_family: web
uncached_isl_buckets:
  - min_tokens: 0
    bucket: warm
  - min_tokens: 2000
    bucket: cold
policy_classes:
  - name: web_warm
    policy_family: web
    cache_bucket: warm
    queue_policy: wspt
    quantum: 2000
    prefill_busy_threshold_frac: 16.0
    request_queue_limit_per_worker: 1000
    cached_token_queue_limit_per_worker: 2000000
  - name: web_cold
    policy_family: web
    cache_bucket: cold
    queue_policy: fcfs
    quantum: 500
    prefill_busy_threshold_frac: 16.0
    busy_worker_ratio: 0.95     # of the workers
    raw_isl_token_queue_limit_per_worker: 1000000
  - name: agents_warm
    policy_family: agents
    cache_bucket: warm
    quantum: 4000
    prefill_busy_threshold: 0
  - name: agents_cold
    policy_family: agents
    cache_bucket: cold
    quantum: 1000
    request_queue_limit_per_worker: 0
  - name: insiders
    queue_policy: wspt
    quantum: 4000

models:
  vendor/large-model:
    default_policy_family: agents
    uncached_isl_buckets:
      - min_tokens: 0
        bucket: all
    policy_classes:
      - name: web_warm          # classes of other profiles do not count
        policy_family: agents
        cache_bucket: all
        quantum: 1
",
    );
}

#[test]
fn every_key_there_is_loads() {
    load(
        "\
dominions:
  - id: pool-r
    kind: remote
    max_concurrency: 4
    max_queue: 100
    policy: reject
    fair_scheduling: false
  - {id: gpu0, kind: local, max_concurrency: 2, policy: queue, vram_gb: 24}
endpoints:
  - id: openai
    dominion: pool-r
    models: [gpt-4o, 'free text, with spaces', vendor/model:tag]
    max_num_batched_tokens: 8192
    protocol: openai
    base_url: https://api.openai.com/v1
    api_key: ${CARGO_PKG_NAME}
local_models:
  - {id: qwen, dominion: gpu0, vram_gb: 1.22, max_num_batched_tokens: 2048}
profiles:
  - {name: day, models: [qwen, gpt-4o]}
default_dominion: pool-r
headers:
  policy: x-dynamo-meta-policy-class
  client: X-Client
  model: x-model
  raw_isl_tokens: x-raw-isl-tokens
  cached_tokens: x-cached-tokens
  strict_priority: x-strict-priority
  priority_jump: x-priority-jump
  worker: x-worker
  allowed_workers: x-allowed-workers
",
    );
}

#[test]
fn profiles_of_models_need_no_root() {
    load(
        "models: {a/b: {default_policy_family: f, uncached_isl_buckets: [{min_tokens: 0, bucket: x}], \
         policy_classes: [{name: a, policy_family: f, cache_bucket: x, quantum: 1}]}}",
    );
}

#[test]
fn numbers_at_the_edge_of_their_range_load() {
    for fields in [
        "quantum: 1",
        "quantum: 18446744073709551615",
        "quantum: 1, prefill_busy_threshold: 0",
        "quantum: 1, prefill_busy_threshold_frac: 0",
        "quantum: 1, prefill_busy_threshold_frac: 1e300",
        "quantum: 1, prefill_busy_threshold: 1, busy_worker_ratio: 1",
        "quantum: 1, prefill_busy_threshold_frac: 1, busy_worker_ratio: 0.0001",
        "quantum: 1, request_queue_limit_per_worker: 0",
        "quantum: 1, raw_isl_token_queue_limit_per_worker: 0",
        "quantum: 1, cached_token_queue_limit_per_worker: 18446744073709551615",
    ] {
        load(&with_class(fields));
    }
    load("dominions: [{id: a, max_concurrency: 18446744073709551615, max_queue: 1}]");
    load("endpoints: [{id: a, max_num_batched_tokens: 0}]");
}

#[test]
fn aliases_spare_repetition() {
    load(
        "\
default_policy_family: f
uncached_isl_buckets: &buckets [{min_tokens: 0, bucket: all}]
policy_classes: &classes
  - {name: a, policy_family: f, cache_bucket: all, quantum: 1}
models:
  a: {default_policy_family: f, uncached_isl_buckets: *buckets, policy_classes: *classes}
",
    );
}

#[test]
fn workers_of_one_dominion_may_serve_one_model() {
    load(
        "dominions: [{id: a}, {id: b}]\n\
         endpoints: [{id: x, dominion: a, models: [m, n]}, {id: y, dominion: a, models: [m]}, \
         {id: z, models: []}, {id: w, dominion: b}]\n",
    );
}

#[test]
fn models_that_fit_exactly_fit() {
    for (budget, estimates) in [
        ("24", vec!["12", "12"]),
        // In floating point, 0.1 + 0.2 is more than 0.3.
        ("0.3", vec!["0.1", "0.2"]),
        ("1", vec!["0.1"; 10]),
        ("8.1", vec!["2.7"; 3]),
    ] {
        let models = estimates.iter().enumerate();
        let models: String = models
            .map(|(id, estimate)| format!("{{id: m{id}, dominion: gpu, vram_gb: {estimate}}}, "))
            .collect();
        load(&format!(
            "dominions: [{{id: gpu, kind: local, vram_gb: {budget}}}]\nlocal_models: [{models}]"
        ));
    }
}

#[test]
fn only_models_that_a_profile_loads_together_have_to_fit_together() {
    load(
        "dominions: [{id: gpu, kind: local, vram_gb: 24}, {id: cpu, kind: local}]\n\
         local_models: [{id: a, dominion: gpu, vram_gb: 20}, {id: b, dominion: gpu, vram_gb: 20}, \
         {id: c, dominion: gpu}, {id: d, dominion: cpu}, {id: e, vram_gb: 500}]\n\
         profiles: [{name: day, models: [a, d, e]}, {name: night, models: [b]}, {name: off, models: []}]",
    );
}

#[test]
fn brackets_that_open_nothing_are_not_counted() {
    let many = "[{".repeat(100);
    for yaml in [
        format!("# {many}\n"),
        format!("endpoints: [{{id: a, base_url: '{many}'}}]"),
        format!("endpoints: [{{id: a, base_url: \"\\\"{many}\"}}]"),
        format!("endpoints:\n  - id: a\n    base_url: http://{many}\n"),
        format!("endpoints:\n  - id: a\n    base_url: |\n      {many}\n      {many}\n"),
        format!("endpoints:\n  - id: a\n    base_url: x\n      {many}\n"),
    ] {
        load(&yaml);
    }
}

#[test]
fn windows_files_load() {
    load("\u{feff}---\r\ndominions:\r\n  - id: a\r\n    kind: remote\r\nheaders: {}\r\n");
}

#[test]
fn the_policies_of_the_readme_load() {
    let readme = include_str!("../../README.md");
    let blocks = readme.split("```yaml\n").skip(1);
    let policies: Vec<_> = blocks
        .map(|block| block.split_once("```").unwrap().0)
        .filter(|block| block.contains("policy_classes:"))
        .collect();
    assert_eq!(policies.len(), 2, "a small one and all keys");
    for policy in policies {
        load(&policy.replace("${OPENAI_API_KEY}", "key"));
    }
}
