use std::sync::Mutex;

use metrics::{GaugeFn, Key, KeyName, Metadata, Recorder, SharedString};

use super::*;
use crate::pool::Pool;

/// Records the gauge of idle slots.
#[derive(Clone, Default)]
struct Idle(Arc<Mutex<f64>>);

impl GaugeFn for Idle {
    fn increment(&self, by: f64) {
        *self.0.lock().unwrap() += by;
    }

    fn decrement(&self, by: f64) {
        *self.0.lock().unwrap() -= by;
    }

    fn set(&self, value: f64) {
        *self.0.lock().unwrap() = value;
    }
}

impl Recorder for Idle {
    fn describe_counter(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> metrics::Counter {
        metrics::Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        match key.name() {
            "policy_queue_idle_slot_seconds" => metrics::Gauge::from_arc(Arc::new(self.clone())),
            _ => metrics::Gauge::noop(),
        }
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        metrics::Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_idles_beside_a_request_would_be_told_in_seconds() {
    let idle = Idle::default();
    let policy = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
    let policy: Arc<PolicyConfig> = Arc::new(policy.parse().unwrap());
    let pool = metrics::with_local_recorder(&idle, || Pool::new(policy, Some(0)));
    // No change of state leaves an idle slot behind, so it is noted by hand.
    pool.lock().idling.note(true);
    tokio::time::advance(Duration::from_millis(1500)).await;
    pool.with_state(|_, _| ());
    assert_eq!(*idle.0.lock().unwrap(), 1.5);
}

#[test]
fn a_gauge_holds_its_tongue_beyond_what_adds_up_exactly() {
    assert_eq!(gauge(7_u64), 7);
    assert_eq!(gauge(u64::MAX), 1 << 50);
    assert_eq!(gauge(i64::MIN), -(1 << 50));
    assert_eq!(gauge(u128::MAX), 1 << 50);
}

#[test]
fn what_would_happen_is_told_with_what_happens() {
    let policy = "dominions: [{id: pool, kind: remote, max_concurrency: 1, enforce: false}]";
    let policy: Arc<PolicyConfig> = Arc::new(policy.parse().unwrap());
    let pool = Pool::new(policy, Some(0));
    let mut state = pool.lock();
    let shadow = state.shadow.as_mut().unwrap();
    shadow.state.note_wait(0, Duration::ZERO);
    assert!(!shadow.state.meter.pending.is_empty());
    let mut wakes = WakeList::default();
    state.report(&mut wakes);
    let shadow = state.shadow.as_ref().unwrap();
    assert!(
        shadow.state.meter.pending.is_empty(),
        "nothing is left to pile up"
    );
    drop(state);
    drop(wakes);
}

#[test]
fn a_few_touched_workers_are_told_one_by_one_and_many_all() {
    let mut touched = Touched::default();
    assert_eq!(touched.indexes(100).count(), 0);
    (0..8).for_each(|index| touched.add(90 - index));
    let some: Vec<usize> = touched.indexes(100).collect();
    assert_eq!(some, [90, 89, 88, 87, 86, 85, 84, 83]);
    touched.add(3);
    assert!(touched.indexes(100).eq(0..100));
}

#[test]
fn what_was_retired_has_nothing_more_to_tell() {
    let policy = "dominions: [{id: pool, kind: remote, max_concurrency: 1, enforce: false}]";
    let policy: Arc<PolicyConfig> = Arc::new(policy.parse().unwrap());
    let pool = Pool::new(policy, Some(0));
    let mut wakes = WakeList::default();
    let mut meter = pool.lock().shadow.take().unwrap().state.meter;
    meter.retire(&mut wakes);
    assert!(!wakes.bulletin.steps.is_empty());
    let mut again = Vec::new();
    meter.retract(&mut again);
    assert!(again.is_empty(), "as it may be dropped under a lock");
}
