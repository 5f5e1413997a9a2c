//! The JSON Schema beside the loader that it describes.
//!
//! What the schema says of policies is `check.py`'s matter, which has a validator. Here it is made
//! sure that the schema in the repository is the one of these types, and that the policies
//! which `check.py` reads are what it takes them for.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::Value;
use tower_policy_queue::PolicyConfig;

const CHECKED_IN: &str = "examples/policy.schema.json";
const RENEW: &str = "UPDATE=1 cargo test --features schema --test schema";

/// The documents of a file beside this one.
fn documents(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("tests/schema/{file}")).unwrap();
    let documents: Vec<_> = text.split("\n---\n").skip(1).map(str::to_owned).collect();
    assert!(!documents.is_empty());
    documents
}

fn schema() -> Value {
    serde_json::from_str(&PolicyConfig::json_schema()).unwrap()
}

/// The schemas of the maps that a policy has, the whole first, each with its name.
fn maps(schema: &Value) -> Vec<(&str, &Value)> {
    let definitions = schema["definitions"].as_object().unwrap();
    let parts = definitions.iter().map(|(name, map)| (name.as_str(), map));
    [("Policy", schema)].into_iter().chain(parts).collect()
}

/// Every key and every text of a document.
fn words<'a>(value: &'a Value, words: &mut BTreeSet<&'a str>) {
    match value {
        Value::String(text) => _ = words.insert(text),
        Value::Array(values) => values.iter().for_each(|value| self::words(value, words)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            words.insert(key);
            self::words(value, words);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn the_schema_in_the_repository_is_current() {
    let current = PolicyConfig::json_schema();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(CHECKED_IN, &current).unwrap();
    }
    let checked_in = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
    // Not `assert_eq!`, which would print both.
    assert!(
        checked_in == current,
        "{CHECKED_IN} is not what the types in src/config/schema.rs say; renew it with\n\n    {RENEW}\n"
    );
}

#[test]
fn every_policy_to_be_refused_is_refused_by_the_loader() {
    let refused = documents("refused.yaml");
    assert!(refused.len() >= 15);
    for policy in refused {
        let loaded = policy.parse::<PolicyConfig>();
        assert!(loaded.is_err(), "this should not load:\n{policy}");
    }
}

#[test]
fn every_policy_to_be_accepted_loads() {
    for policy in documents("accepted.yaml") {
        if let Err(error) = policy.parse::<PolicyConfig>() {
            panic!("this should load:\n{policy}\nbut:\n{error}");
        }
    }
}

#[test]
fn the_policies_to_be_accepted_have_every_key_and_every_word() {
    let schema = schema();
    let accepted: Vec<Value> = documents("accepted.yaml")
        .iter()
        .map(|policy| serde_yaml::from_str(policy).unwrap())
        .collect();
    let mut used = BTreeSet::new();
    accepted.iter().for_each(|policy| words(policy, &mut used));
    for (name, map) in maps(&schema) {
        for (key, value) in map["properties"].as_object().unwrap() {
            assert!(used.contains(&**key), "no policy has the `{key}` of {name}");
            for word in value["enum"].as_array().into_iter().flatten() {
                let word = word.as_str();
                assert!(
                    word.is_none_or(|word| used.contains(word)),
                    "no policy has the word {word:?} for the `{key}` of {name}"
                );
            }
        }
    }
}

#[test]
fn every_map_knows_its_keys_and_every_key_is_described() {
    let schema = schema();
    for (name, map) in maps(&schema) {
        assert_eq!(map["additionalProperties"], false, "{name}");
        assert!(map["description"].is_string(), "{name} has no description");
        for (key, value) in map["properties"].as_object().unwrap() {
            let described = value["description"].is_string();
            assert!(described, "the `{key}` of {name} has no description");
        }
    }
}

#[test]
fn the_defaults_are_those_of_the_loader() {
    let schema = schema();
    let read_ahead =
        |config: &PolicyConfig| (config.read_ahead_bytes(), config.read_ahead_total_bytes());
    let default = |map: &Value, key: &str| map["properties"][key]["default"].clone();
    let config: PolicyConfig =
        "{dominions: [{id: a}], policy_classes: [{name: c, policy_family: f, \
        cache_bucket: b, quantum: 1}], default_policy_family: f, \
        uncached_isl_buckets: [{min_tokens: 0, bucket: b}]}"
            .parse()
            .unwrap();
    let (request, total) = read_ahead(&config);
    assert_eq!(default(&schema, "read_ahead_bytes"), request);
    assert_eq!(default(&schema, "read_ahead_total_bytes"), total);

    let dominion = config.dominions().next().unwrap();
    let map = &schema["definitions"]["Dominion"];
    assert_eq!(default(map, "max_queue"), dominion.max_queue());
    assert_eq!(default(map, "fair_scheduling"), dominion.fair_scheduling());
    assert_eq!(default(map, "enforce"), dominion.enforce());
    assert_eq!(default(map, "fair_unit"), dominion.fair_unit());
    assert_eq!(default(map, "kind"), dominion.kind());
    assert_eq!(default(map, "policy"), dominion.policy());

    let class = config.classes().next().unwrap();
    let map = &schema["definitions"]["PolicyClass"];
    assert_eq!(default(map, "queue_policy"), class.queue_policy());
    assert_eq!(default(map, "hold_until"), class.hold_until());
    assert_eq!(default(map, "prefill_until"), class.prefill_until());
    let weight = default(map, "output_token_weight").as_f64();
    assert_eq!(weight, Some(class.output_token_weight()));
}
