//! Headers that the policy does not name change nothing at all.

use http::Request;

use crate::{
    common::{NoBody, desk::get},
    crowd::Crowd,
    hall::with,
};

/// Two buckets, two workers, a model with a profile of its own, and one slot.
const POLICY: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: small}, {min_tokens: 100, bucket: large}]
policy_classes:
  - {name: small, policy_family: std, cache_bucket: small, quantum: 100}
  - {name: large, policy_family: std, cache_bucket: large, quantum: 100}
models:
  m1:
    default_policy_family: std
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: small, policy_family: std, cache_bucket: any, quantum: 100}]
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints:
  - {id: w1, dominion: pool, models: [w1, m1]}
  - {id: w2, dominion: pool, models: [w2, m1]}
";

/// What a caller could gain by: the field of `headers:`, the header, and its value.
const GAINS: &[(&str, &str, &str)] = &[
    ("strict_priority", "x-strict-priority", "4294967295"),
    ("priority_jump", "x-priority-jump", "1e300"),
    ("raw_isl_tokens", "x-raw-isl-tokens", "1"),
    ("cached_tokens", "x-cached-tokens", "18446744073709551615"),
    ("worker", "x-worker", "w2"),
    ("allowed_workers", "x-allowed-workers", "w2"),
    ("model", "x-model", "m1"),
];

/// What nobody could read, if it were asked.
const NONSENSE: &[&str] = &[
    "",
    "NaN",
    "-1",
    "1e400",
    "18446744073709551616",
    "nobody",
    "\u{e9}",
];

fn long_prompt(id: &str, headers: &[(&'static str, &str)]) -> Request<NoBody> {
    let mut request = with(id, headers);
    request.headers_mut().insert("content-length", 800.into());
    request
}

/// Four honest requests wait, and one with these headers comes last: in which order they are served,
/// and where.
fn outcome(policy: &str, headers: &[(&'static str, &str)]) -> Vec<String> {
    let mut crowd = Crowd::new(policy);
    crowd.occupy(get("running"));
    for id in ["one", "two", "three", "four"] {
        crowd.park(long_prompt(id, &[]));
    }
    crowd.park(long_prompt("last", headers));
    let order = crowd.serve_all();
    let describe = |id: &String| {
        let it = crowd.admission(id);
        format!("{id} {} {:?} {:?}", it.class(), it.profile(), it.worker())
    };
    order.iter().map(describe).collect()
}

#[test]
fn what_nobody_named_changes_neither_order_nor_class_nor_worker() {
    let plain = outcome(POLICY, &[]);
    assert_eq!(plain.len(), 5);
    assert_eq!(plain[4], "last large None Some(\"w1\")");
    for &(_, header, value) in GAINS {
        assert_eq!(outcome(POLICY, &[(header, value)]), plain, "{header}");
        // Twice, and unreadable: what is not asked cannot be wrong.
        let twice = [(header, value), (header, value)];
        assert_eq!(outcome(POLICY, &twice), plain, "{header} twice");
        for nonsense in NONSENSE {
            let odd = [(header, *nonsense)];
            assert_eq!(outcome(POLICY, &odd), plain, "{header}: {nonsense}");
        }
    }
    let all: Vec<_> = GAINS
        .iter()
        .map(|&(_, header, value)| (header, value))
        .collect();
    assert_eq!(outcome(POLICY, &all), plain, "all of them at once");
}

#[test]
fn the_same_headers_do_change_something_where_the_policy_names_them() {
    let plain = outcome(POLICY, &[]);
    for &(field, header, value) in GAINS {
        let trusting = format!("{POLICY}\nheaders: {{{field}: {header}}}");
        assert_eq!(outcome(&trusting, &[]), plain, "{field}: nobody sends it");
        assert_ne!(outcome(&trusting, &[(header, value)]), plain, "{field}");
        // To trust one is not to trust the others.
        let others: Vec<_> = GAINS
            .iter()
            .filter(|(other, ..)| *other != field)
            .map(|&(_, header, value)| (header, value))
            .collect();
        assert_eq!(outcome(&trusting, &others), plain, "all but {field}");
    }
}

#[test]
fn the_names_that_hints_have_elsewhere_are_no_headers() {
    let plain = outcome(POLICY, &[]);
    for name in [
        "x-tolerations",
        "x-max-queue-wait-ms",
        "x-policy-queue-class",
        "x-policy-queue-reason",
        "x-dynamo-meta-strict-priority",
        "x-dynamo-meta-priority-jump",
    ] {
        assert_eq!(outcome(POLICY, &[(name, "1")]), plain, "{name}");
    }
}
