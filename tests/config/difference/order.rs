//! The order of things: where it says something, and where it does not.

use super::{FULL, assert_changes};
use crate::with_class;

#[test]
fn another_order_of_keys_is_no_change() {
    assert_changes(
        "dominions: [{id: a, max_queue: 5}]\nclass_header: true\n\
         bypass: [/a, GET, /b]\nstatuses: {queue_full: 500, hold_timeout: 500}",
        "statuses: {hold_timeout: 500, queue_full: 500}\nbypass: [GET, /b, /a, /a]\n\
         class_header: true\ndominions: [{max_queue: 5, id: a}]",
        &[],
    );
    let (one, other) = (
        "dominions: [{id: a, kind: local}]\nlocal_models: [{id: m}, {id: n}]\n\
         profiles: [{name: day, models: [m, n]}, {name: night, models: [m]}]",
        "dominions: [{id: a, kind: local}]\nlocal_models: [{id: m}, {id: n}]\n\
         profiles: [{name: night, models: [m]}, {name: day, models: [n, m]}]",
    );
    assert_changes(one, other, &[]);
}

fn explicit(names: &[&str]) -> String {
    let class = |name: &&str| format!("  - {{name: {name}, quantum: 1}}\n");
    with_class("quantum: 1") + &names.iter().map(class).collect::<String>()
}

#[test]
fn another_order_of_classes_is_a_change() {
    assert_changes(
        &explicit(&["b", "c"]),
        &explicit(&["c", "b"]),
        &["~ policy_classes: order a, b, c -> a, c, b"],
    );
}

#[test]
fn what_comes_and_goes_moves_nothing() {
    assert_changes(
        &explicit(&["b", "c", "d"]),
        &explicit(&["e", "b", "d", "g"]),
        &[
            "+ policy_classes.e: quantum 1",
            "+ policy_classes.g: quantum 1",
            "- policy_classes.c: quantum 1",
        ],
    );
    assert_changes(
        &explicit(&["b", "c", "d"]),
        &explicit(&["d", "e", "b"]),
        &[
            "+ policy_classes.e: quantum 1",
            "~ policy_classes: order a, b, d -> a, d, b",
            "- policy_classes.c: quantum 1",
        ],
    );
}

#[test]
fn another_order_of_models_dominions_and_workers_is_a_change() {
    let profile = "{default_policy_family: f, uncached_isl_buckets: [{min_tokens: 0, bucket: x}], \
                   policy_classes: [{name: a, policy_family: f, cache_bucket: x, quantum: 1}]}";
    assert_changes(
        &format!("models: {{a: {profile}, b: {profile}}}"),
        &format!("models: {{b: {profile}, a: {profile}}}"),
        &["~ models: order a, b -> b, a"],
    );
    for key in ["dominions", "endpoints", "local_models"] {
        assert_changes(
            &format!("{key}: [{{id: a}}, {{id: b}}, {{id: c}}]"),
            &format!("{key}: [{{id: c}}, {{id: a}}, {{id: b}}]"),
            &[&format!("~ {key}: order a, b, c -> c, a, b")],
        );
    }
}

#[test]
fn buckets_may_change_places_without_a_word_about_order() {
    let with = |first: &str, second: &str| {
        FULL.replace("0, bucket: warm", &format!("0, bucket: {first}"))
            .replace("3000, bucket: cold", &format!("3000, bucket: {second}"))
    };
    assert_changes(
        FULL,
        &with("cold", "warm"),
        &[
            "~ uncached_isl_buckets.cold.min_tokens: 3000 -> 0",
            "~ uncached_isl_buckets.warm.min_tokens: 0 -> 3000",
        ],
    );
}
