//! Metrics: what a recorder is told, and that it adds up to what the layer counts.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod dashboard;
mod faults;
mod ledger;
mod levels;
mod outcomes;
mod reload;
mod series;
mod shadow;
mod threads;

use std::collections::BTreeMap;

use tower_policy_queue::{PolicyQueueHandle, Snapshot, Totals};

use crate::{
    hall::Hall,
    ledger::{Ledger, Value},
};

/// Requests behind a layer, and what it tells.
pub(crate) fn hall(yaml: &str) -> (Hall, Ledger) {
    let ledger = Ledger::default();
    let hall = ledger.during(|| Hall::new(yaml));
    (hall, ledger)
}

/// What counters and gauges should be by what the layer says of itself. Histograms are by the number
/// of their samples.
pub(crate) fn expected(handle: &PolicyQueueHandle) -> BTreeMap<String, f64> {
    let Snapshot {
        dominions,
        unplaced,
        ..
    } = handle.snapshot_of(0);
    let mut all = BTreeMap::new();
    let mut put = |name: &str, labels: &str, value: f64| {
        let labels = match labels {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        *all.entry(format!("policy_queue_{name}{labels}"))
            .or_insert(0.0) += value;
    };
    let dominions = dominions.into_iter().flat_map(|mut dominion| {
        let id = dominion.id.clone().unwrap_or_default();
        let would_be = dominion.would_be.take();
        let would_be = would_be.map(|it| (format!("{id} (if enforced)"), *it));
        [(id.to_string(), dominion)].into_iter().chain(would_be)
    });
    for (id, dominion) in dominions {
        let labels = format!("dominion={id:?}");
        let open = f64::from(u8::from(!dominion.closed));
        put("slots", &labels, dominion.slots.unwrap_or(0) as f64 * open);
        put("slots_in_use", &labels, dominion.in_use as f64);
        put("idle_slot_seconds", &labels, 0.0);
        assert_eq!(dominion.idle_beside_waiter_ms, 0);
        let mut classes = 0;
        for class in &dominion.classes {
            let profile = class.profile.as_deref().unwrap_or_default();
            let labels = format!("{labels},profile={profile:?},class={:?}", class.name);
            put("waiting_requests", &labels, class.queued as f64);
            put("waiting_tokens", &labels, class.queued_tokens as f64);
            put("deficit_tokens", &labels, class.deficit as f64);
            put("quantum_tokens", &labels, class.quantum as f64 * open);
            counts(&class.totals, &labels, &mut put);
            classes += 1;
        }
        assert!(classes > 0);
        for worker in &dominion.workers {
            let id = worker.id.as_deref().unwrap_or_default();
            let labels = format!("{labels},worker={id:?}");
            put(
                "worker_in_flight_requests",
                &labels,
                worker.in_flight as f64,
            );
            put(
                "worker_prefill_tokens",
                &labels,
                worker.prefill_tokens as f64,
            );
        }
    }
    for (code, count) in unplaced.rejected.iter() {
        let labels = format!("dominion=\"\",profile=\"\",class=\"\",code={code:?}");
        put("rejected_total", &labels, count as f64);
    }
    put("bypassed_total", "", unplaced.bypassed as f64);
    put("nested_total", "", unplaced.nested as f64);
    all
}

fn counts(totals: &Totals, labels: &str, put: &mut impl FnMut(&str, &str, f64)) {
    for (name, count) in [
        ("requests_total", totals.arrived),
        ("admitted_total", totals.admitted),
        ("served_tokens_total", totals.tokens_served),
        ("completed_total", totals.completed),
        ("failed_total", totals.failed),
        ("revoked_total", totals.revoked),
        ("wait_seconds", totals.admitted),
    ] {
        put(name, labels, count as f64);
    }
    for (stage, count) in [
        ("queued", totals.cancelled.queued),
        ("granted", totals.cancelled.granted),
        ("running", totals.cancelled.running),
    ] {
        put(
            "cancelled_total",
            &format!("{labels},stage={stage:?}"),
            count as f64,
        );
    }
    for (code, count) in totals.rejected.iter() {
        put(
            "rejected_total",
            &format!("{labels},code={code:?}"),
            count as f64,
        );
    }
}

/// What the recorder was told, in the same form.
pub(crate) fn told(ledger: &Ledger) -> BTreeMap<String, f64> {
    let number = |(series, value): (String, Value)| match value {
        Value::Counter(count) => Some((series, count as f64)),
        Value::Gauge(value) => Some((series, value)),
        // How many holds there were is not among the counts of a snapshot.
        Value::Histogram(_) if series.starts_with("policy_queue_hold") => None,
        Value::Histogram(samples) => Some((series, samples.len() as f64)),
    };
    ledger.values().into_iter().filter_map(number).collect()
}

/// The recorder knows what the layer knows, and nothing else.
#[track_caller]
pub(crate) fn agree(ledger: &Ledger, handle: &PolicyQueueHandle) {
    let (told, expected) = (told(ledger), expected(handle));
    let differ = |(series, value): (&String, &f64)| {
        (expected.get(series) != Some(value))
            .then(|| format!("{series}: told {value}, is {:?}", expected.get(series)))
    };
    let wrong: Vec<String> = told.iter().filter_map(differ).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let untold: Vec<&String> = expected
        .keys()
        .filter(|series| !told.contains_key(*series))
        .collect();
    assert!(untold.is_empty(), "untold: {untold:?}");
}
