//! Refused: keys, types and words that a policy does not know.

use crate::{assert_mistakes, load, refuse, with_class};

#[test]
fn keys_that_there_are_not() {
    for (yaml, path) in [
        ("dominion_default: a", "dominion_default"),
        (
            "dominions: [{id: a, max_concurency: 1}]",
            "dominions[0].max_concurency",
        ),
        ("endpoints: [{id: a, vram_gb: 1}]", "endpoints[0].vram_gb"),
        (
            "local_models: [{id: a, api_key: x}]",
            "local_models[0].api_key",
        ),
        ("profiles: [{name: a, model: []}]", "profiles[0].model"),
        ("headers: {polcy: x}", "headers.polcy"),
        (
            "uncached_isl_buckets: [{min: 0}]",
            "uncached_isl_buckets[0].min",
        ),
        ("policy_classes: [{wieght: 1}]", "policy_classes[0].wieght"),
        ("models: {a/b: {headers: {}}}", "models.\"a/b\".headers"),
        (
            "models: {a/b: {policy_classes: [{x: 1}]}}",
            "models.\"a/b\".policy_classes[0].x",
        ),
    ] {
        let error = refuse(yaml);
        let first = &error.mistakes()[0];
        assert_eq!(first.path(), path, "{error}");
        assert!(first.message().starts_with("unknown field `"), "{error}");
    }
}

#[test]
fn a_misspelt_key_is_told_with_the_one_that_was_meant() {
    for (yaml, path, gist) in [
        (
            "max_queue_wait: 1",
            "max_queue_wait",
            "unknown field `max_queue_wait`; did you mean `max_queue_wait_ms`?",
        ),
        (
            "headers: {polcy: x}",
            "headers.polcy",
            "did you mean `policy`?",
        ),
        (
            "dominion: [{id: a, max_concurency: 1}]",
            "dominion[0].max_concurency",
            "did you mean `max_concurrency`?",
        ),
        (
            "dominions: [{id: a, Max-Concurrency: 1}]",
            "dominions[0].Max-Concurrency",
            "did you mean `max_concurrency`?",
        ),
        (
            "endpoints: [{id: a, dominon: b}]",
            "endpoints[0].dominon",
            "did you mean `dominion`?",
        ),
        (
            "dominions:\n- id: a\nmax_concurrency: 4\n",
            "max_concurrency",
            "; a dominion has such a key: is the line indented far enough?",
        ),
        (
            "bukets: []",
            "bukets",
            "; the keys here are `default_policy_family`, ",
        ),
        (
            "uncached_isl_buckets: [{zero: 0, min_tokens: 0, bucket: b}]\n\
             default_policy_family: f\n\
             policy_classes: [{name: n, policy_family: f, cache_bucket: b, quantum: 1}]",
            "uncached_isl_buckets[0].zero",
            "; the keys here are `min_tokens`, `bucket`",
        ),
    ] {
        assert_mistakes(yaml, &[(path, gist)]);
    }
}

#[test]
fn neither_unknown_keys_nor_values_of_another_type_hide_other_mistakes() {
    assert_mistakes(
        "\
dominions:
  - {id: gpu, max_concurency: 4, max_queue: 2s, enforce: off}
  - {id: gpu, fair_scheduling: 1, max_queue: 0}
headers: {worker: 'x worker', polcy: x}
class_header: 'yes'
server_timing: [true]
",
        &[("server_timing", "list")],
    );
    assert_mistakes(
        "\
dominions:
  - {id: gpu, max_concurency: 4, max_queue: 2s, enforce: off}
  - {id: gpu, fair_scheduling: 1, max_queue: 0}
headers: {worker: 'x worker', polcy: x}
class_header: 'yes'
",
        &[
            ("dominions[0].max_concurency", "`max_concurrency`"),
            ("headers.polcy", "`policy`"),
            ("dominions[0].enforce", "is \"off\"; must be true or false"),
            ("dominions[0].max_queue", "is \"2s\"; must be a whole"),
            ("dominions[1].id", "already taken"),
            ("dominions[1].fair_scheduling", "is 1; must be true"),
            ("dominions[1].max_queue", "is 0"),
            ("headers.worker", "x worker"),
            ("class_header", "is \"yes\""),
        ],
    );
}

#[test]
fn values_of_another_type() {
    for (yaml, path, gist) in [
        ("dominions: {a: 1}", "dominions", "expected a list"),
        ("dominions: [~]", "dominions[0]", "null"),
        ("dominions: [a]", "dominions[0]", "expected a dominion"),
        (
            "dominions: [[a, remote]]",
            "dominions[0]",
            "expected a dominion",
        ),
        (
            "dominions: [{id: [a]}]",
            "dominions[0].id",
            "expected a string",
        ),
        (
            "dominions: [{id: a, max_queue: [8]}]",
            "dominions[0].max_queue",
            "expected a single value",
        ),
        (
            "dominions: [{id: a, max_queue: many}]",
            "dominions[0].max_queue",
            "a whole number",
        ),
        (
            "dominions: [{id: a, max_queue: 8.0}]",
            "dominions[0].max_queue",
            "a whole number",
        ),
        (
            "dominions: [{id: a, max_queue: '8'}]",
            "dominions[0].max_queue",
            "a whole number",
        ),
        (
            "dominions: [{id: a, max_queue: 1_000}]",
            "dominions[0].max_queue",
            "a whole number",
        ),
        (
            "dominions: [{id: a, max_queue: 010}]",
            "dominions[0].max_queue",
            "a whole number",
        ),
        (
            "dominions: [{id: a, max_queue: .nan}]",
            "dominions[0].max_queue",
            "a whole number",
        ),
        (
            "dominions: [{id: a, fair_scheduling: yes}]",
            "dominions[0].fair_scheduling",
            "true or false",
        ),
        (
            "dominions: [{id: a, kind: local, vram_gb: lots}]",
            "dominions[0].vram_gb",
            "is \"lots\"; must be a finite number above 0",
        ),
        (
            "dominions: [{id: a, kind: local, vram_gb: 1e400}]",
            "dominions[0].vram_gb",
            "is \"1e400\"; must be a finite number above 0",
        ),
        ("models: [a]", "models", "expected a map"),
        ("models: {a: 1}", "models.a", "expected a model's policy"),
        ("models: {~: {}}", "models", "expected a name as the key"),
        ("- a", "", "expected a policy"),
        ("a", "", "expected a policy"),
    ] {
        assert_mistakes(yaml, &[(path, gist)]);
    }
}

#[test]
fn keys_that_are_repeated() {
    for (yaml, path) in [
        ("headers: {}\nheaders: {}", "headers"),
        ("dominions: [{id: a, id: b}]", "dominions[0].id"),
        ("models: {a/b: {}, c: {}, a/b: {}}", "models.\"a/b\""),
    ] {
        assert_mistakes(yaml, &[(path, "is repeated")]);
    }
    assert_mistakes(
        "dominions:\n  - id: a\n    max_queue: 1\n    max_queue: 2",
        &[(
            "dominions[0].max_queue",
            "is repeated; remove one of the two (the other is on line 3)",
        )],
    );
    for (first, second) in [("dominions", "dominion"), ("profile", "profiles")] {
        let gist = format!(
            "is another name for {first}, which is also given; keep only one of them (the other is on line 1)"
        );
        let yaml = format!("{first}: []\nheaders: {{}}\n{second}: []");
        assert_mistakes(&yaml, &[(second, &gist)]);
        assert_eq!(refuse(&yaml).mistakes()[0].line(), Some(3));
    }
}

#[test]
fn words_that_are_none_of_a_field_s() {
    for (yaml, path, gist) in [
        (
            with_class("quantum: 1, queue_policy: lcfs"),
            "policy_classes[0].queue_policy",
            "is \"lcfs\"; must be \"fcfs\" or \"wspt\"",
        ),
        (
            "dominions: [{id: a, kind: gpu}]".into(),
            "dominions[0].kind",
            "is \"gpu\"; must be \"remote\" or \"local\"",
        ),
        (
            "dominions: [{id: a, policy: Reject}]".into(),
            "dominions[0].policy",
            "is \"Reject\"; must be \"queue\" or \"reject\"",
        ),
    ] {
        assert_mistakes(&yaml, &[(path, gist)]);
    }
}

#[test]
fn headers_that_are_none() {
    for name in ["''", "'a b'", "'x:y'", "é"] {
        assert_mistakes(
            &format!("headers: {{model: {name}}}"),
            &[("headers.model", "is not a valid header name")],
        );
    }
}

#[test]
fn headers_that_are_read_twice() {
    assert_mistakes(
        "headers:\n  worker: X-Model\n  model: x-model\n",
        &[(
            "headers.worker",
            "x-model is already used for headers.model on line 3",
        )],
    );
    // The defaults count.
    assert_mistakes(
        "headers: {model: x-promptforge-client}",
        &[("headers.model", "is already used for headers.client")],
    );
    load("headers: {client: x-user, model: x-promptforge-client}");
}

#[test]
fn tags_and_merge_keys() {
    for (yaml, path, gist) in [
        (
            "endpoints: [{id: a, api_key: !env KEY}]",
            "endpoints[0].api_key",
            "tags (`!name`) are not supported",
        ),
        (
            "dominions: !include dominions.yaml",
            "dominions",
            "tags (`!name`) are not supported",
        ),
        (
            "dominions: [&a {id: a}, {<<: *a, id: b}]",
            "dominions[1].\"<<\"",
            "merge keys (`<<`) are not supported",
        ),
        (
            "models: {<<: {}}",
            "models.\"<<\"",
            "merge keys (`<<`) are not supported",
        ),
    ] {
        assert_mistakes(yaml, &[(path, gist)]);
    }
}
