//! What the check finds unintended.

use crate::{ONE_SLOT, families, replayed, report};

/// The warnings of a report.
fn warnings(out: &str) -> Vec<&str> {
    let section = out.split("== What looks unintended ==").nth(1).unwrap();
    let section = section.split("\n==").next().unwrap();
    let lines = section.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

#[track_caller]
fn assert_warnings(name: &str, policy: &str, max_cost: &str, expected: &[&str]) {
    let out = report(name, policy, &["--max-cost", max_cost]);
    let found = warnings(&out);
    let matches = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, gist)| found.starts_with(gist));
    assert!(
        matches,
        "{policy}\nshould have\n{expected:#?}\nbut has\n{found:#?}"
    );
}

/// A class of one of two buckets, with these fields.
fn with_class(fields: &str, rest: &str) -> String {
    format!(
        "default_policy_family: f
uncached_isl_buckets: [{{min_tokens: 0, bucket: short}}, {{min_tokens: 1000, bucket: long}}]
policy_classes:
  - {{name: short, policy_family: f, cache_bucket: short, quantum: 1000}}
  - {{name: long, policy_family: f, cache_bucket: long, quantum: 1000, {fields}}}
{rest}"
    )
}

#[test]
fn a_plain_policy_has_none() {
    assert_warnings("plain", "{}", "8192", &["dominions: none are defined"]);
    let policy = with_class("prefill_busy_threshold: 8000", ONE_SLOT);
    assert_warnings("plain-classes", &policy, "2000", &["nothing"]);
}

#[test]
fn quanta_far_from_the_largest_request() {
    assert_warnings(
        "quanta",
        &families(&[9000, 8000, 16, 15], ONE_SLOT),
        "1000",
        &[
            "policy_classes[0].quantum: is 9 times the largest request",
            "policy_classes[3].quantum: is far below the largest request, which needs 67 rounds",
        ],
    );
    // With nobody beside it there are no turns.
    assert_warnings("alone", &families(&[1], ONE_SLOT), "1000", &["nothing"]);
}

#[test]
fn thresholds_below_a_typical_request() {
    assert_warnings(
        "tokens",
        &with_class("prefill_busy_threshold: 1499", ONE_SLOT),
        "2000",
        &[
            "policy_classes[1].prefill_busy_threshold: is 1499 tokens, but a typical request of the class \
           has 1500 (the middle of its range)",
        ],
    );
    assert_warnings(
        "tokens-enough",
        &with_class("prefill_busy_threshold: 1500", ONE_SLOT),
        "2000",
        &["nothing"],
    );
    let fraction = "prefill_busy_threshold_frac: 0.5";
    let endpoint = "endpoints: [{id: x, dominion: pool, max_num_batched_tokens: 2048}]\n";
    assert_warnings(
        "fraction",
        &with_class(fraction, &format!("{ONE_SLOT}{endpoint}")),
        "2000",
        &["policy_classes[1].prefill_busy_threshold_frac: is 0.5 · 2048 = 1024 tokens"],
    );
    assert_warnings(
        "fraction-of-nothing",
        &with_class(fraction, ONE_SLOT),
        "2000",
        &["policy_classes[1].prefill_busy_threshold_frac: has no effect"],
    );
}

#[test]
fn a_typical_request_is_one_of_the_log_where_there_is_one() {
    let policy = with_class("prefill_busy_threshold: 1499", ONE_SLOT);
    let request = |tokens: u64| {
        format!("{{\"at_ms\": 0, \"service_ms\": 1, \"raw_isl_tokens\": {tokens}}}\n")
    };
    let log = request(1100).repeat(3) + &request(9000) + &request(10).repeat(9);
    let out = replayed("typical", &policy, &log);
    assert_eq!(warnings(&out), ["nothing"]);
    let log = request(1100) + &request(1600).repeat(2);
    let out = replayed("typical", &policy, &log);
    assert!(
        warnings(&out)[0].contains("has 1600 (the median of the log)"),
        "{out}"
    );
}

#[test]
fn classes_and_policies_that_nobody_reaches() {
    assert_warnings(
        "reach",
        &with_class("", ONE_SLOT),
        "999",
        &["policy_classes[1]: no request reaches this class: its bucket starts at 1000"],
    );
    let models = "models: {a.b: {default_policy_family: f, uncached_isl_buckets: [{min_tokens: 0, bucket: x}], \
                  policy_classes: [{name: c, policy_family: f, cache_bucket: x, quantum: 1000}]}}\n";
    let endpoints = "endpoints: [{id: x, dominion: pool, models: [c]}]\n";
    assert_warnings(
        "model",
        &with_class("", &format!("{ONE_SLOT}{models}{endpoints}")),
        "2000",
        &["models.\"a.b\": no worker serves this model"],
    );
    assert_warnings(
        "model-without-workers",
        &with_class("", &format!("{ONE_SLOT}{models}")),
        "2000",
        &["nothing"],
    );
}

#[test]
fn dominions_that_cannot_do_what_they_say() {
    assert_warnings(
        "dominions",
        &families(
            &[1000],
            "dominions: [{id: a, max_concurrency: 1}, {id: b}]\n\
             endpoints: [{id: x, dominion: a}, {id: y}]\n",
        ),
        "1000",
        &[
            "dominions[1]: no worker is bound to this dominion",
            "dominions[1].max_concurrency: is not set, and no class has a busy threshold",
            "default_dominion: is not set",
            "endpoints[1].dominion: is not set: requests to this worker take no slot",
        ],
    );
    assert_warnings(
        "enforce",
        &families(
            &[1000],
            "dominions: [{id: a, max_concurrency: 1, enforce: false}]\n",
        ),
        "1000",
        &["dominions[0].enforce: is false"],
    );
    // Two workers, ten requests each.
    let policy = |max_queue| {
        families(
            &[1000],
            &format!(
                "dominions: [{{id: a, max_concurrency: 1, max_queue: {max_queue}}}]\n\
                 endpoints: [{{id: x, dominion: a}}, {{id: y, dominion: a}}]\n"
            ),
        )
        .replace(
            "quantum: 1000",
            "quantum: 1000, request_queue_limit_per_worker: 10",
        )
    };
    assert_warnings(
        "limits",
        &policy(21),
        "1000",
        &[
            "dominions[0].max_queue: is 21, which is never reached: the limits of the classes let only 20 requests wait",
        ],
    );
    assert_warnings("limits-reached", &policy(20), "1000", &["nothing"]);
    assert_warnings(
        "limits-above",
        &policy(19),
        "1000",
        &[
            "policy_classes[0].request_queue_limit_per_worker: lets 20 requests wait, which is never reached: \
             max_queue lets only 19 wait over all classes",
        ],
    );
    let per_client = |limit| {
        policy(20).replace(
            "max_queue: 20",
            &format!("max_queue: 20, max_queue_per_client: {limit}"),
        )
    };
    assert_warnings(
        "clients",
        &per_client(20),
        "1000",
        &[
            "dominions[0].max_queue_per_client: is 20, which never turns anyone away: max_queue lets only 20 requests wait over all clients",
        ],
    );
    assert_warnings("clients-reached", &per_client(19), "1000", &["nothing"]);
}

#[test]
fn keys_and_addresses_that_nobody_would_take() {
    let pool = "dominions: [{id: pool, max_concurrency: 1}]";
    let policy = format!(
        "{pool}
endpoints:
  - {{id: a, dominion: pool, api_key: $SECRET_KEY, base_url: 'http://$HOST:80', protocol: '${{P}}', models: ['${{M}}']}}
  - {{id: b, dominion: pool, api_key: 'se$CRET-$', base_url: 'http://host/$1'}}
  - {{id: c, dominion: pool, api_key: \"secret\\n\"}}
"
    );
    assert_warnings(
        "variables",
        &policy,
        "1000",
        &[
            "endpoints[0].api_key: contains a `$` before a name",
            "endpoints[0].base_url: contains a `$` before a name",
            "endpoints[0].models: contains a `${`",
            "endpoints[0].protocol: contains a `${`",
            "endpoints[2].api_key: begins or ends with whitespace",
        ],
    );
    let out = report("variables-hidden", &policy, &[]);
    for hidden in ["SECRET_KEY", "HOST", "secret"] {
        assert!(!out.contains(hidden), "{out}");
    }
}
