//! The keys about waiting, holding, reading ahead, answers and bypasses: what loads and what is
//! refused.

use crate::{assert_mistakes, load, refuse, with_class};

#[test]
fn every_one_of_these_keys_loads() {
    load(
        "\
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
max_queue_wait_ms: 60000
policy_classes:
  - name: a
    policy_family: f
    cache_bucket: all
    quantum: 1
    max_queue_wait_ms: 30000
    hold_until: body_end
    max_hold_ms: 600000
    prefill_until: first_byte
models:
  m:
    default_policy_family: f
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes:
      - {name: a, policy_family: f, cache_bucket: all, quantum: 1, max_queue_wait_ms: 1, max_hold_ms: 1}
headers: {max_queue_wait_ms: x-max-queue-wait-ms}
read_ahead_bytes: 1048576
read_ahead_total_bytes: 67108864
bypass: [/health, /metrics, OPTIONS, HEAD]
statuses:
  queue_rejected: 429
  queue_full: 503
  policy_class_queue_limit: 503
  queue_timeout: 408
  queue_unavailable: 503
  no_eligible_worker: 502
  profile_switch: 409
  hold_timeout: 504
  request_body_error: 400
  invalid_queue_header: 422
",
    );
}

#[test]
fn every_word_there_is_for_them_loads() {
    for word in ["headers", "first_byte", "body_end"] {
        load(&with_class(&format!("quantum: 1, hold_until: {word}")));
    }
    for word in ["headers", "first_byte"] {
        load(&with_class(&format!("quantum: 1, prefill_until: {word}")));
    }
}

#[test]
fn their_numbers_load_up_to_the_edge_of_their_range() {
    for number in ["1", "18446744073709551615"] {
        load(&with_class(&format!(
            "quantum: 1, max_queue_wait_ms: {number}"
        )));
        load(&with_class(&format!("quantum: 1, max_hold_ms: {number}")));
        load(&format!("max_queue_wait_ms: {number}"));
    }
    for number in ["0", "1", "18446744073709551615"] {
        load(&format!("read_ahead_bytes: {number}"));
        load(&format!("read_ahead_total_bytes: {number}"));
    }
    for status in ["400", "599"] {
        load(&format!("statuses: {{queue_full: {status}}}"));
    }
}

#[test]
fn without_a_value_they_are_as_good_as_none() {
    load(
        "max_queue_wait_ms:\nread_ahead_bytes: ~\nread_ahead_total_bytes: null\nbypass:\nstatuses: ~\n",
    );
    load("statuses: {queue_full: }");
    load("bypass: []\nstatuses: {}\nheaders: {max_queue_wait_ms: ~}");
    load(&with_class(
        "quantum: 1, max_queue_wait_ms: ~, hold_until: ~, max_hold_ms: ~, prefill_until: ~",
    ));
}

#[test]
fn toml_reads_them_too() {
    toml::from_str::<tower_policy_queue::PolicyConfig>(
        r#"
max_queue_wait_ms = 1000
read_ahead_bytes = 0
read_ahead_total_bytes = 1
bypass = ["/health", "OPTIONS"]
default_policy_family = "f"
uncached_isl_buckets = [{ min_tokens = 0, bucket = "all" }]

[headers]
max_queue_wait_ms = "x-wait"

[statuses]
queue_full = 429

[[policy_classes]]
name = "a"
policy_family = "f"
cache_bucket = "all"
quantum = 10
max_queue_wait_ms = 1
hold_until = "headers"
max_hold_ms = 1
prefill_until = "headers"
"#,
    )
    .unwrap();
}

#[test]
fn a_time_is_a_whole_number_of_milliseconds_above_0() {
    let class = |key: &str, value: &str| with_class(&format!("quantum: 1, {key}: {value}"));
    for (value, gist) in [
        ("0", "is 0; must be a whole number of at least 1"),
        ("-1", "is -1"),
        ("18446744073709551616", "is more than 18446744073709551615"),
    ] {
        for key in ["max_queue_wait_ms", "max_hold_ms"] {
            let path = format!("policy_classes[0].{key}");
            assert_mistakes(&class(key, value), &[(&path, gist)]);
        }
        assert_mistakes(
            &format!("max_queue_wait_ms: {value}"),
            &[("max_queue_wait_ms", gist)],
        );
    }
    for value in ["1.5", "'100'", "10s", "[1]", "true", ".inf"] {
        for key in ["max_queue_wait_ms", "max_hold_ms"] {
            let error = refuse(&class(key, value));
            let path = format!("policy_classes[0].{key}");
            assert_eq!(error.mistakes()[0].path(), path, "{value}: {error}");
        }
        let error = refuse(&format!("max_queue_wait_ms: {value}"));
        assert_eq!(
            error.mistakes()[0].path(),
            "max_queue_wait_ms",
            "{value}: {error}"
        );
    }
}

#[test]
fn a_point_is_one_of_the_words_for_it() {
    for (fields, path, gist) in [
        ("hold_until: body", "hold_until", "\"body_end\""),
        ("hold_until: first-byte", "hold_until", "\"first_byte\""),
        ("hold_until: ''", "hold_until", "\"headers\""),
        ("hold_until: Headers", "hold_until", "\"headers\""),
        ("prefill_until: body_end", "prefill_until", "\"first_byte\""),
        ("prefill_until: never", "prefill_until", "\"headers\""),
    ] {
        let yaml = with_class(&format!("quantum: 1, {fields}"));
        assert_mistakes(&yaml, &[(&format!("policy_classes[0].{path}"), gist)]);
    }
}

#[test]
fn a_size_is_a_whole_number_of_bytes() {
    for key in ["read_ahead_bytes", "read_ahead_total_bytes"] {
        assert_mistakes(
            &format!("{key}: -1"),
            &[(key, "is -1; must be a whole number of at least 0")],
        );
        for value in ["1.0", "1MiB", "1_000", "{}"] {
            let error = refuse(&format!("{key}: {value}"));
            assert_eq!(error.mistakes()[0].path(), key, "{value}: {error}");
        }
    }
}

#[test]
fn a_status_is_that_of_an_answer_there_is_and_tells_of_an_error() {
    for status in ["399", "600", "200", "0", "-1", "429000"] {
        let gist = format!("is {status}; must be a status from 400 to 599");
        assert_mistakes(
            &format!("statuses: {{queue_full: {status}}}"),
            &[("statuses.queue_full", &gist)],
        );
    }
    for code in ["queue-full", "QUEUE_FULL", "full", "''"] {
        let error = refuse(&format!("statuses: {{{code}: 503}}"));
        let [mistake] = error.mistakes() else {
            panic!("{error}")
        };
        assert!(mistake.path().starts_with("statuses"), "{error}");
        assert!(mistake.message().contains("is an unknown code"), "{error}");
        assert!(
            mistake.message().ends_with("\"invalid_queue_header\""),
            "what there is: {error}"
        );
    }
    let error = refuse("statuses: {queue_full: busy}");
    assert!(
        error.mistakes()[0].path().starts_with("statuses"),
        "{error}"
    );
    let error = refuse("statuses: {queue_full: 503, queue_full: 429}");
    assert!(error.to_string().contains("queue_full"), "{error}");
    refuse("statuses: [queue_full]");
}

#[test]
fn a_bypass_is_the_beginning_of_a_path_or_a_method() {
    for (entry, gist) in [
        ("health", "\"health\"; must be a path prefix"),
        ("''", "\"\""),
        ("~", "\"\""),
        ("options", "\"options\""),
        ("Options", "a method in capitals, such as OPTIONS"),
        ("'GET /health'", "\"GET /health\""),
        ("'*'", "\"*\""),
        ("http://host/health", "\"http://host/health\""),
    ] {
        assert_mistakes(
            &format!("bypass: [/ok, {entry}, GET]"),
            &[("bypass[1]", gist)],
        );
    }
    for value in ["/health", "{path: /health}", "[[/health]]"] {
        let error = refuse(&format!("bypass: {value}"));
        assert!(
            error.mistakes()[0].path().starts_with("bypass"),
            "{value}: {error}"
        );
    }
}

#[test]
fn the_header_of_the_wait_is_a_header_and_no_other_s() {
    assert_mistakes(
        "headers: {max_queue_wait_ms: no header}",
        &[("headers.max_queue_wait_ms", "is not a valid header name")],
    );
    assert_mistakes(
        "headers: {max_queue_wait_ms: ''}",
        &[("headers.max_queue_wait_ms", "is not a valid header name")],
    );
    assert_mistakes(
        "headers: {worker: x-same, max_queue_wait_ms: X-Same}",
        &[(
            "headers.max_queue_wait_ms",
            "already used for headers.worker",
        )],
    );
    assert_mistakes(
        "headers: {max_queue_wait_ms: x-promptforge-client}",
        &[(
            "headers.max_queue_wait_ms",
            "already used for headers.client",
        )],
    );
}

#[test]
fn misspelt_keys_are_refused_where_they_stand() {
    for yaml in [
        "max_queue_wait: 1".to_owned(),
        "read_ahead: 1".to_owned(),
        "status: {queue_full: 503}".to_owned(),
        "headers: {max_queue_wait: x}".to_owned(),
        "max_hold_ms: 1".to_owned(),
        "hold_until: headers".to_owned(),
        "dominions: [{id: a, max_queue_wait_ms: 1}]".to_owned(),
        with_class("quantum: 1, hold: headers"),
        with_class("quantum: 1, read_ahead_bytes: 1"),
    ] {
        let error = refuse(&yaml);
        assert!(
            error.to_string().contains("unknown field"),
            "{yaml}: {error}"
        );
    }
}

#[test]
fn all_their_mistakes_are_told_at_once() {
    let yaml = format!(
        "{}max_queue_wait_ms: 0\nread_ahead_bytes: -1\nread_ahead_total_bytes: -1\n\
         bypass: [x]\nstatuses: {{x: 1, queue_full: 1}}\nheaders: {{max_queue_wait_ms: ''}}\n",
        with_class(
            "quantum: 1, max_queue_wait_ms: 0, hold_until: x, max_hold_ms: 0, prefill_until: x"
        )
    );
    let error = refuse(&yaml);
    let mut paths: Vec<_> = error
        .mistakes()
        .iter()
        .map(|mistake| mistake.path())
        .collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "bypass[0]",
            "headers.max_queue_wait_ms",
            "max_queue_wait_ms",
            "policy_classes[0].hold_until",
            "policy_classes[0].max_hold_ms",
            "policy_classes[0].max_queue_wait_ms",
            "policy_classes[0].prefill_until",
            "read_ahead_bytes",
            "read_ahead_total_bytes",
            "statuses.queue_full",
            "statuses.x",
        ]
    );
    assert!(
        error
            .mistakes()
            .iter()
            .all(|mistake| mistake.line().is_some()),
        "each with its line: {error}"
    );
}
