//! The dashboard beside the example: whatever it asks for is there.

use std::collections::BTreeSet;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde_json::Value;
use tower_policy_queue::{PolicyQueueLayer, metrics};

use crate::{common::desk::policy, series::POLICY};

const DASHBOARD: &str = include_str!("../../examples/metrics/grafana.json");

/// Of PromQL, what the dashboard uses.
const WORDS: [&str; 6] = ["by", "histogram_quantile", "max", "rate", "scalar", "sum"];

/// The names of series and of labels in an exposition.
fn exposed() -> (BTreeSet<String>, BTreeSet<String>) {
    let buckets = [0.0, 1.0];
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(metrics::WAIT_SECONDS.to_owned()), &buckets)
        .unwrap()
        .set_buckets_for_metric(Matcher::Full(metrics::HOLD_SECONDS.to_owned()), &buckets)
        .unwrap()
        .build_recorder();
    let config = policy(POLICY);
    let _layer = ::metrics::with_local_recorder(&recorder, || PolicyQueueLayer::new(config));
    let text = recorder.handle().render();
    let (mut names, mut labels) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once(['{', ' ']) else {
            continue;
        };
        names.insert(name.to_owned());
        if let Some((inside, _)) = rest.split_once('}') {
            let label = |label: &str| label.split('=').next().map(str::to_owned);
            labels.extend(inside.split(',').filter_map(label));
        }
    }
    (names, labels)
}

/// What a query names, in whatever role: words outside of strings, durations and variables.
fn words(query: &str) -> Vec<String> {
    let outside: String = query.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    outside
        .split(|c| !is_word(c))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
        .map(str::to_owned)
        .collect()
}

/// The values of every key of this name.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if name == key {
                    found.push(value);
                }
                all(value, key, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

fn texts(dashboard: &Value, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    all(dashboard, key, &mut found);
    let text = |value: &&Value| value.as_str().map(str::to_owned);
    found.iter().filter_map(text).collect()
}

#[test]
fn every_query_of_the_dashboard_names_only_series_and_labels_that_exist() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let (names, labels) = exposed();
    let queries = texts(&dashboard, "expr");
    assert!(queries.len() >= 10, "{queries:?}");
    let mut asked = BTreeSet::new();
    for query in &queries {
        for word in words(query) {
            let known =
                names.contains(&word) || labels.contains(&word) || WORDS.contains(&word.as_str());
            assert!(known, "`{word}` in {query}");
            asked.extend(names.contains(&word).then_some(word));
        }
    }
    let variable = "label_values(policy_queue_slots, dominion)";
    assert!(texts(&dashboard, "query").contains(&variable.to_owned()));
    for series in [
        "wait_seconds_bucket",
        "served_tokens_total",
        "quantum_tokens",
        "slots",
        "slots_in_use",
        "waiting_requests",
        "rejected_total",
        "worker_prefill_tokens",
        "idle_slot_seconds",
    ] {
        let series = format!("policy_queue_{series}");
        assert!(asked.contains(&series), "nothing shows {series}");
    }
}

#[test]
fn legends_name_labels_that_the_query_keeps() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut targets = Vec::new();
    all(&dashboard, "targets", &mut targets);
    let targets = targets.iter().filter_map(|list| list.as_array()).flatten();
    for target in targets {
        let query = target["expr"].as_str().unwrap();
        let legend = target["legendFormat"].as_str().unwrap();
        let kept = query
            .split_once(" by (")
            .and_then(|(_, rest)| rest.split_once(')'))
            .map_or("", |(kept, _)| kept);
        let kept: Vec<&str> = kept.split(", ").collect();
        for label in legend.split("{{").skip(1) {
            let label = label.split("}}").next().unwrap();
            assert!(kept.contains(&label), "`{label}` of {query}");
        }
    }
}
