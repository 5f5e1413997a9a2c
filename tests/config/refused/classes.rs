//! Refused: classes, families and buckets that make no policy.

use crate::{assert_mistakes, load, with_class};

#[test]
fn zeros_and_negatives_where_they_mean_nothing() {
    for value in ["0", "-1", "-9223372036854775809"] {
        let gist = format!("is {value}; must be a whole number of at least 1");
        assert_mistakes(
            &with_class(&format!("quantum: {value}")),
            &[("policy_classes[0].quantum", &gist)],
        );
        for key in ["max_concurrency", "max_queue", "max_queue_per_client"] {
            assert_mistakes(
                &format!("dominions: [{{id: a, {key}: {value}}}]"),
                &[(&format!("dominions[0].{key}"), &gist)],
            );
        }
    }
    for key in [
        "prefill_busy_threshold",
        "request_queue_limit_per_worker",
        "raw_isl_token_queue_limit_per_worker",
        "cached_token_queue_limit_per_worker",
    ] {
        assert_mistakes(
            &with_class(&format!("quantum: 1, {key}: -1")),
            &[(
                &format!("policy_classes[0].{key}"),
                "is -1; must be a whole number of at least 0",
            )],
        );
    }
    assert_mistakes(
        "endpoints: [{id: a, max_num_batched_tokens: -1}]",
        &[("endpoints[0].max_num_batched_tokens", "at least 0")],
    );
}

#[test]
fn numbers_that_are_too_large() {
    for value in [
        "18446744073709551616",
        "99999999999999999999999999999999999999",
    ] {
        assert_mistakes(
            &with_class(&format!("quantum: {value}")),
            &[(
                "policy_classes[0].quantum",
                "is more than 18446744073709551615",
            )],
        );
    }
}

#[test]
fn classes_with_one_of_family_and_bucket() {
    let policy = |class: &str| {
        format!(
            "{}  - {{name: b, quantum: 1, {class}}}\n",
            with_class("quantum: 1")
        )
    };
    assert_mistakes(
        &policy("policy_family: f"),
        &[("policy_classes[1].cache_bucket", "needs a cache_bucket too")],
    );
    assert_mistakes(
        &policy("policy_family: g"),
        &[("policy_classes[1].cache_bucket", "needs a cache_bucket too")],
    );
    assert_mistakes(
        &policy("cache_bucket: all"),
        &[(
            "policy_classes[1].policy_family",
            "needs a policy_family too",
        )],
    );
}

#[test]
fn buckets_that_there_are_not() {
    assert_mistakes(
        &with_class("quantum: 1").replace("cache_bucket: all", "cache_bucket: some"),
        &[(
            "policy_classes[0].cache_bucket",
            "no bucket \"some\"; the policy defines \"all\"",
        )],
    );
}

#[test]
fn matrices_with_holes_or_with_two_in_a_cell() {
    let policy = |classes: &[(&str, &str)]| {
        let mut yaml = "default_policy_family: f\nuncached_isl_buckets:\n- {min_tokens: 0, bucket: x}\n\
                        - {min_tokens: 10, bucket: y}\n- {min_tokens: 20, bucket: z}\npolicy_classes:\n"
            .to_owned();
        for (index, (family, bucket)) in classes.iter().enumerate() {
            yaml += &format!(
                "- {{name: c{index}, policy_family: {family}, cache_bucket: {bucket}, quantum: 1}}\n"
            );
        }
        yaml
    };
    load(&policy(&[("f", "z"), ("f", "x"), ("f", "y")]));
    assert_mistakes(
        &policy(&[("f", "x"), ("f", "y"), ("f", "z"), ("g", "y")]),
        &[(
            "policy_classes[3].policy_family",
            "the family \"g\" has no class for the buckets \"x\" and \"z\"",
        )],
    );
    assert_mistakes(
        &policy(&[("f", "x"), ("f", "y"), ("f", "z"), ("f", "y")]),
        &[(
            "policy_classes[3].cache_bucket",
            "\"f\" already has a class for the bucket \"y\", in policy_classes[1] on line 8",
        )],
    );
}

#[test]
fn explicit_classes_named_like_a_family() {
    let policy = with_class("quantum: 1") + "  - {name: f, quantum: 1}\n";
    assert_mistakes(
        &policy,
        &[(
            "policy_classes[1].name",
            "family of the same name; rename one of them, see policy_classes[0].policy_family on line 4",
        )],
    );
}

#[test]
fn buckets_that_do_not_start_at_0_or_do_not_rise() {
    let policy = |floors: &[&str]| {
        let mut yaml = "default_policy_family: f\nuncached_isl_buckets:\n".to_owned();
        let mut classes = "policy_classes:\n".to_owned();
        for (index, floor) in floors.iter().enumerate() {
            yaml += &format!("- {{min_tokens: {floor}, bucket: b{index}}}\n");
            classes += &format!(
                "- {{name: c{index}, policy_family: f, cache_bucket: b{index}, quantum: 1}}\n"
            );
        }
        yaml + &classes
    };
    let path = |index| format!("uncached_isl_buckets[{index}].min_tokens");
    assert_mistakes(
        &policy(&["1"]),
        &[(&path(0), "is 1; the first bucket must start at 0")],
    );
    assert_mistakes(
        &policy(&["0", "0"]),
        &[(&path(1), "is 0; must be greater than the 0 of")],
    );
    assert_mistakes(
        &policy(&["0", "9", "8", "9"]),
        &[(&path(2), "greater than the 9 of the bucket before it")],
    );
    assert_mistakes(&policy(&["0", "~"]), &[(&path(1), "is missing")]);
    assert_mistakes(&policy(&["-1"]), &[(&path(0), "at least 0")]);
}

#[test]
fn policies_given_in_part() {
    let family = ("default_policy_family", "is missing");
    let buckets = ("uncached_isl_buckets", "is missing");
    let classes = ("policy_classes", "is missing");
    assert_mistakes("default_policy_family: f", &[buckets, classes]);
    assert_mistakes(
        "uncached_isl_buckets: [{min_tokens: 0, bucket: a}]",
        &[family, classes],
    );
    assert_mistakes(
        "policy_classes: []",
        &[family, buckets, ("policy_classes", "is empty")],
    );
    let whole = with_class("quantum: 1");
    let (before, _) = whole.split_once("policy_classes").unwrap();
    assert_mistakes(
        &format!("{before}policy_classes: []"),
        &[("policy_classes", "is empty")],
    );
    assert_mistakes(
        &whole.replace("[{min_tokens: 0, bucket: all}]", "[]"),
        &[("uncached_isl_buckets", "is empty")],
    );
    assert_mistakes(
        "models: {a/b: {}}",
        &[
            ("models.\"a/b\".default_policy_family", "is missing"),
            ("models.\"a/b\".uncached_isl_buckets", "is missing"),
            ("models.\"a/b\".policy_classes", "is missing"),
        ],
    );
    assert_mistakes(
        "models: {'': {}}",
        &[
            ("models.\"\"", "is empty"),
            ("models.\"\".default_policy_family", "is missing"),
            ("models.\"\".uncached_isl_buckets", "is missing"),
            ("models.\"\".policy_classes", "is missing"),
        ],
    );
}

#[test]
fn classes_without_a_quantum() {
    let policy = with_class("queue_policy: wspt");
    assert_mistakes(&policy, &[("policy_classes[0].quantum", "is missing")]);
}

#[test]
fn thresholds_that_no_worker_could_meet_or_miss() {
    for value in ["-0.5", ".nan", ".inf", "-.inf"] {
        assert_mistakes(
            &with_class(&format!("quantum: 1, prefill_busy_threshold_frac: {value}")),
            &[(
                "policy_classes[0].prefill_busy_threshold_frac",
                "finite number of at least 0",
            )],
        );
    }
    for value in ["0", "-1", "1.01", "16.0", ".nan", ".inf"] {
        assert_mistakes(
            &with_class(&format!(
                "quantum: 1, prefill_busy_threshold: 1, busy_worker_ratio: {value}"
            )),
            &[(
                "policy_classes[0].busy_worker_ratio",
                "above 0 and at most 1",
            )],
        );
    }
    assert_mistakes(
        &with_class("quantum: 1, busy_worker_ratio: 0.5"),
        &[(
            "policy_classes[0].busy_worker_ratio",
            "without a prefill_busy_threshold",
        )],
    );
}
