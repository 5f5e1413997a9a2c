//! Refused: names that are none, are taken, or point nowhere.

use crate::{assert_mistakes, with_class};

#[test]
fn names_that_are_missing_empty_or_made_of_other_characters() {
    for (list, key) in [
        ("dominions", "id"),
        ("endpoints", "id"),
        ("local_models", "id"),
        ("profiles", "name"),
    ] {
        let models = if list == "profiles" {
            ", models: []"
        } else {
            ""
        };
        let path = format!("{list}[0].{key}");
        for (value, gist) in [
            ("~", "is missing"),
            ("", "is missing"),
            ("''", "is empty"),
            ("a b", "\"a b\" is not a valid name"),
            ("a/b", "[A-Za-z0-9_.-]"),
            ("ä", "is not a valid name"),
            ("'~'", "is not a valid name"),
        ] {
            assert_mistakes(
                &format!("{list}: [{{{key}: {value}{models}}}]"),
                &[(&path, gist)],
            );
        }
    }
}

#[test]
fn names_of_classes_families_and_buckets() {
    let policy = |family: &str, bucket: &str, class: &str| {
        format!(
            "default_policy_family: f\n\
             uncached_isl_buckets: [{{min_tokens: 0, bucket: '{bucket}'}}]\n\
             policy_classes:\n\
             - {{name: '{class}', policy_family: f, cache_bucket: '{bucket}', quantum: 1}}\n\
             - {{name: b, policy_family: '{family}', cache_bucket: '{bucket}', quantum: 1}}\n"
        )
    };
    assert_mistakes(
        &policy("f/g", "b", "c"),
        &[("policy_classes[1].policy_family", "not a valid name")],
    );
    assert_mistakes(
        &policy("", "b", "c"),
        &[("policy_classes[1].policy_family", "is empty")],
    );
    assert_mistakes(
        &policy("g", "a b", "c"),
        &[("uncached_isl_buckets[0].bucket", "not a valid name")],
    );
    assert_mistakes(
        &policy("g", "b", "c!"),
        &[("policy_classes[0].name", "not a valid name")],
    );
}

#[test]
fn names_that_are_taken_name_both_places() {
    for (yaml, path, other) in [
        (
            "dominions: [{id: a}, {id: b}, {id: a}]",
            "dominions[2].id",
            "dominions[0].id",
        ),
        (
            "endpoints: [{id: a}, {id: a}]",
            "endpoints[1].id",
            "endpoints[0].id",
        ),
        (
            "endpoints: [{id: a, models: [x]}]\nlocal_models: [{id: b}, {id: a}]",
            "local_models[1].id",
            "endpoints[0].id",
        ),
        (
            "profiles: [{name: a, models: []}, {name: a, models: []}]",
            "profiles[1].name",
            "profiles[0].name",
        ),
        (
            "endpoints: [{id: a, models: [m, n, m]}]",
            "endpoints[0].models[2]",
            "endpoints[0].models[0]",
        ),
        (
            "local_models: [{id: a}]\nprofiles: [{name: p, models: [a, a]}]",
            "profiles[0].models[1]",
            "profiles[0].models[0]",
        ),
    ] {
        assert_mistakes(
            yaml,
            &[(path, &format!("is already taken by {other} on line"))],
        );
    }
    assert_mistakes(
        "\
default_policy_family: f
uncached_isl_buckets:
  - {min_tokens: 0, bucket: x}
  - {min_tokens: 9, bucket: x}
policy_classes:
  - {name: a, policy_family: f, cache_bucket: x, quantum: 1}
  - {name: a, quantum: 1}
",
        &[
            (
                "uncached_isl_buckets[1].bucket",
                "taken by uncached_isl_buckets[0].bucket on line 3",
            ),
            (
                "policy_classes[1].name",
                "taken by policy_classes[0].name on line 6",
            ),
        ],
    );
}

#[test]
fn defaults_that_there_are_not() {
    assert_mistakes(
        &with_class("quantum: 1").replace("default_policy_family: f", "default_policy_family: g"),
        &[(
            "default_policy_family",
            "no family \"g\"; the policy defines \"f\"",
        )],
    );
    // An explicit class is no family.
    assert_mistakes(
        &(with_class("quantum: 1").replace("default_policy_family: f", "default_policy_family: e")
            + "  - {name: e, quantum: 1}\n"),
        &[("default_policy_family", "no family \"e\"")],
    );
    assert_mistakes(
        "default_policy_family: e\nuncached_isl_buckets: [{min_tokens: 0, bucket: x}]\n\
         policy_classes: [{name: e, quantum: 1}]",
        &[(
            "default_policy_family",
            "the policy defines none: a class belongs to a family by its policy_family and cache_bucket",
        )],
    );
    assert_mistakes(
        "dominions: [{id: a}, {id: b}]\ndefault_dominion: c",
        &[(
            "default_dominion",
            "no dominion \"c\"; the policy defines \"a\" and \"b\"",
        )],
    );
    assert_mistakes(
        "default_dominion: c",
        &[("default_dominion", "the policy defines none")],
    );
}

#[test]
fn models_without_a_name() {
    assert_mistakes(
        "endpoints: [{id: a, models: ['', ~, ' ', m]}]",
        &[
            ("endpoints[0].models[0]", "is empty"),
            ("endpoints[0].models[1]", "is empty"),
            ("endpoints[0].models[2]", "is empty"),
        ],
    );
}
