//! Refused: workers and models that are nowhere, or in two places.

use crate::assert_mistakes;

#[test]
fn bindings_to_no_dominion_or_to_one_of_the_wrong_kind() {
    let dominions = "dominions: [{id: r}, {id: l, kind: local}]\n";
    for (workers, path, gist) in [
        (
            "endpoints: [{id: a, dominion: x}]",
            "endpoints[0].dominion",
            "the policy defines \"r\" and \"l\"",
        ),
        (
            "local_models: [{id: a, dominion: x}]",
            "local_models[0].dominion",
            "no dominion \"x\"",
        ),
        (
            "endpoints: [{id: a, dominion: l}]",
            "endpoints[0].dominion",
            "an endpoint needs a remote dominion, but \"l\" is local; see dominions[1] on line 1",
        ),
        (
            "local_models: [{id: a, dominion: r}]",
            "local_models[0].dominion",
            "a local model needs a local dominion, but \"r\" is remote; see dominions[0] on line 1",
        ),
    ] {
        assert_mistakes(&format!("{dominions}{workers}"), &[(path, gist)]);
    }
}

#[test]
fn models_served_from_two_dominions() {
    let dominions = "dominions: [{id: a}, {id: b}, {id: l, kind: local}]\n";
    for (workers, path, gist) in [
        (
            "endpoints: [{id: x, dominion: a, models: [m]}, {id: y, dominion: b, models: [n, m]}]",
            "endpoints[1].models[1]",
            "in the dominion \"b\" here and in the dominion \"a\" by endpoints[0].models[0] on line 2",
        ),
        (
            "endpoints: [{id: x, dominion: a, models: [m]}, {id: y, models: [m]}]",
            "endpoints[1].models[0]",
            "in no dominion here and in the dominion \"a\" by endpoints[0].models[0]",
        ),
        (
            "endpoints: [{id: m}, {id: y, dominion: b, models: [m]}]",
            "endpoints[1].models[0]",
            "in the dominion \"b\" here and in no dominion by endpoints[0].id",
        ),
        (
            "endpoints: [{id: x, dominion: a, models: [m]}]\nlocal_models: [{id: m, dominion: l}]",
            "local_models[0].id",
            "in the dominion \"l\" here and in the dominion \"a\" by endpoints[0].models[0]",
        ),
    ] {
        assert_mistakes(&format!("{dominions}{workers}"), &[(path, gist)]);
    }
}

#[test]
fn profiles_of_models_that_there_are_not() {
    assert_mistakes(
        "local_models: [{id: a}, {id: b}]\nprofiles: [{name: p, models: [a, c, ~]}, {name: q}]",
        &[
            ("profiles[0].models[2]", "is empty"),
            (
                "profiles[0].models[1]",
                "\"c\"; local models: \"a\" and \"b\"",
            ),
            ("profiles[1].models", "is missing"),
        ],
    );
}

#[test]
fn variables_that_are_not_set() {
    for (value, gist) in [
        (
            "${TOWER_POLICY_QUEUE_IS_NOT_SET}",
            "variable TOWER_POLICY_QUEUE_IS_NOT_SET is not set",
        ),
        ("sk-1${", "does not begin a valid `${VARIABLE}`"),
        ("${}", "does not begin a valid `${VARIABLE}`"),
    ] {
        for key in ["api_key", "base_url"] {
            assert_mistakes(
                &format!("endpoints: [{{id: a}}, {{id: b, {key}: '{value}'}}]"),
                &[(&format!("endpoints[1].{key}"), gist)],
            );
        }
    }
}
