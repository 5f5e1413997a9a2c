//! Which series there are, from when on, and what they are called.

use std::collections::BTreeSet;

use tower_policy_queue::{QueueHints, WorkerSpec};

use crate::{
    agree, hall,
    hall::{hinted, with},
    ledger::{Ledger, Value},
    told,
};

pub(crate) const POLICY: &str = "
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: any, quantum: 100}
  - {name: batch, policy_family: batch, cache_bucket: any, quantum: 20}
models:
  org/large:
    default_policy_family: chat
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes:
      - {name: chat, policy_family: chat, cache_bucket: any, quantum: 7}
dominions:
  - {id: pool, kind: remote, max_concurrency: 2, max_queue: 2}
  - {id: other, kind: remote}
endpoints:
  - {id: w0, dominion: pool}
  - {id: w1, dominion: pool}
default_dominion: pool
headers: {model: x-model, worker: x-worker, strict_priority: x-tier, raw_isl_tokens: x-raw}
bypass: [/health]
";

/// The names of the reference table in the module's docs.
fn documented() -> BTreeSet<&'static str> {
    let docs = include_str!("../../src/metrics.rs");
    let rows = docs
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `policy_queue_"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

fn names(ledger: &Ledger) -> BTreeSet<String> {
    let name = |series: String| {
        let name = series.split('{').next().unwrap();
        name.strip_prefix("policy_queue_").unwrap().to_owned()
    };
    ledger.values().into_keys().map(name).collect()
}

#[test]
fn every_series_is_there_from_the_start_and_counts_nothing() {
    let (hall, ledger) = hall(POLICY);
    agree(&ledger, &hall.handle);
    for (series, value) in ledger.values() {
        match value {
            Value::Counter(count) => assert_eq!(count, 0, "{series}"),
            Value::Histogram(samples) => assert!(samples.is_empty(), "{series}"),
            Value::Gauge(_) => {}
        }
    }
    // Two dominions and the place of those without, three classes each, one of them of a model.
    let classes = |name: &str| {
        let of = |series: &String| series.starts_with(&format!("policy_queue_{name}{{"));
        ledger.values().into_keys().filter(of).count()
    };
    assert_eq!(classes("hold_seconds"), 9);
    assert_eq!(classes("wait_seconds"), 9);
    assert_eq!(classes("rejected_total"), (9 + 1) * 11);
    assert_eq!(classes("cancelled_total"), 9 * 3);
    let large = "dominion=\"pool\",profile=\"org/large\",class=\"chat\"";
    let quantum = format!("policy_queue_quantum_tokens{{{large}}}");
    assert_eq!(ledger.number(&quantum), 7.0);
    assert_eq!(ledger.number("policy_queue_slots{dominion=\"pool\"}"), 2.0);
    assert_eq!(
        ledger.number("policy_queue_slots{dominion=\"other\"}"),
        0.0,
        "unlimited"
    );
}

#[test]
fn the_reference_table_the_readme_and_the_descriptions_name_the_same_series() {
    let (_hall, ledger) = hall(POLICY);
    let documented: BTreeSet<String> = documented().into_iter().map(str::to_owned).collect();
    assert_eq!(names(&ledger), documented);
    let described = ledger.described();
    let described: BTreeSet<String> = described
        .iter()
        .map(|name| name.strip_prefix("policy_queue_").unwrap().to_owned())
        .collect();
    assert_eq!(described, documented);
    let readme = include_str!("../../README.md");
    for name in documented {
        assert!(readme.contains(&format!("`policy_queue_{name}`")), "{name}");
    }
}

#[test]
fn names_say_what_they_count_the_way_prometheus_has_it() {
    let (_hall, ledger) = hall(POLICY);
    for (series, value) in ledger.values() {
        let name = series.split('{').next().unwrap();
        let total = name.ends_with("_total");
        match value {
            Value::Counter(_) => assert!(total, "{name}"),
            Value::Gauge(_) => assert!(!total, "{name}"),
            Value::Histogram(_) => assert!(name.ends_with("_seconds"), "{name}"),
        }
    }
}

#[test]
fn labels_are_made_of_the_policy_and_never_of_what_a_client_sends() {
    let (mut hall, ledger) = hall(POLICY);
    let before: BTreeSet<String> = ledger.values().into_keys().collect();
    let evil = "evil-3f2a";
    for (number, headers) in [
        ("x-dynamo-meta-policy-class", evil),
        ("x-promptforge-client", evil),
        ("x-model", evil),
        ("x-worker", evil),
        ("x-tier", evil),
        ("x-raw", "18446744073709551615"),
        (evil, evil),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("{evil}-{number}");
        hall.send(&id, with(&id, &[headers]));
    }
    let hints = QueueHints {
        policy: Some(evil.to_owned()),
        client: Some(evil.to_owned()),
        model: Some(evil.to_owned()),
        allowed_workers: Some(vec![evil.to_owned()]),
        ..QueueHints::default()
    };
    hall.send(evil, hinted(evil, hints));
    let after: BTreeSet<String> = ledger.values().into_keys().collect();
    assert_eq!(before, after, "no series is added by a request");
    assert!(!after.iter().any(|series| series.contains("evil")));
    let settled =
        ledger.number("policy_queue_requests_total{dominion=\"pool\",profile=\"\",class=\"chat\"}");
    assert!(settled >= 4.0, "they came, {settled} of them");
}

#[test]
fn a_worker_that_is_added_has_its_series_at_once_and_one_that_is_removed_goes_to_nothing() {
    let (mut hall, ledger) = hall(POLICY);
    ledger.during(|| {
        let spec = WorkerSpec::new("w2").dominion("pool");
        hall.handle.add_worker(spec).unwrap();
    });
    let in_flight = "policy_queue_worker_in_flight_requests{dominion=\"pool\",worker=\"w2\"}";
    assert_eq!(ledger.number(in_flight), 0.0);
    agree(&ledger, &hall.handle);

    let request = with("a", &[("x-worker", "w2"), ("x-raw", "12")]);
    hall.send("a", request);
    let prefill = "policy_queue_worker_prefill_tokens{dominion=\"pool\",worker=\"w2\"}";
    assert_eq!(
        (ledger.number(in_flight), ledger.number(prefill)),
        (1.0, 12.0)
    );
    hall.handle.remove_worker("w2").unwrap();
    assert_eq!(
        (ledger.number(in_flight), ledger.number(prefill)),
        (1.0, 12.0),
        "what it has, it finishes"
    );
    hall.finish("a");
    assert_eq!(
        (ledger.number(in_flight), ledger.number(prefill)),
        (0.0, 0.0)
    );
}

#[test]
fn workers_of_ever_new_names_are_told_apart() {
    let (mut hall, ledger) = hall(POLICY);
    let in_flight = |id: &str| {
        let series = "policy_queue_worker_in_flight_requests";
        ledger.number(&format!("{series}{{dominion=\"pool\",worker={id:?}}}"))
    };
    ledger.during(|| {
        for number in 0..100 {
            let id = format!("new-{number}");
            let spec = WorkerSpec::new(&*id).dominion("pool");
            hall.handle.add_worker(spec).unwrap();
            hall.send(&id, with(&id, &[("x-worker", &id), ("x-raw", "12")]));
            assert_eq!(in_flight(&id), 1.0);
            hall.handle.remove_worker(&id).unwrap();
            hall.finish(&id);
            assert_eq!(in_flight(&id), 0.0);
        }
    });
    let all = told(&ledger);
    let workers = all
        .iter()
        .filter(|(series, _)| series.contains("worker=\"new-"));
    assert!(workers.clone().all(|(_, &value)| value == 0.0));
    assert_eq!(workers.count(), 200, "requests and prefill of each");
}
