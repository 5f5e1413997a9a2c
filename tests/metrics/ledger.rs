//! A recorder that keeps everything it is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// What a series was told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Counter(u64),
    Gauge(f64),
    Histogram(Vec<f64>),
}

/// Runs whenever the recorder is called, before it does anything.
type Interruption = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
struct Pages {
    values: Mutex<BTreeMap<String, Value>>,
    described: Mutex<BTreeSet<String>>,
    interruption: Mutex<Option<Arc<Interruption>>>,
    farewell: Mutex<Option<Arc<Interruption>>>,
}

impl Pages {
    fn call(&self, series: &str) {
        let interruption = self.interruption.lock().unwrap().clone();
        if let Some(interrupt) = interruption {
            interrupt(series);
        }
    }
}

/// A recorder, and what it was told by series: `name{label="value",..}`.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Pages>);

struct Entry {
    pages: Arc<Pages>,
    series: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let farewell = self.pages.farewell.lock().unwrap().clone();
        if let Some(part) = farewell {
            part(&self.series);
        }
    }
}

impl Ledger {
    /// Everything it knows.
    pub(crate) fn values(&self) -> BTreeMap<String, Value> {
        self.0.values.lock().unwrap().clone()
    }

    /// The names that were described.
    pub(crate) fn described(&self) -> BTreeSet<String> {
        self.0.described.lock().unwrap().clone()
    }

    /// A counter's or a gauge's value.
    #[track_caller]
    pub(crate) fn number(&self, series: &str) -> f64 {
        match self.0.values.lock().unwrap().get(series) {
            Some(Value::Counter(count)) => *count as f64,
            Some(Value::Gauge(value)) => *value,
            other => panic!("{series} should be a number, not {other:?}"),
        }
    }

    /// What a histogram recorded, in order.
    #[track_caller]
    pub(crate) fn samples(&self, series: &str) -> Vec<f64> {
        match self.0.values.lock().unwrap().get(series) {
            Some(Value::Histogram(samples)) => samples.clone(),
            other => panic!("{series} should be a histogram, not {other:?}"),
        }
    }

    /// The series that have changed since.
    pub(crate) fn since(&self, before: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        let mut now = self.values();
        now.retain(|series, value| before.get(series) != Some(value));
        now
    }

    /// Has each call run this, with the series that it is about.
    pub(crate) fn interrupt(&self, interruption: impl Fn(&str) + Send + Sync + 'static) {
        *self.0.interruption.lock().unwrap() = Some(Arc::new(Box::new(interruption)));
    }

    /// Runs with this recorder in place.
    /// Has `farewell` run whenever a handle is dropped.
    pub(crate) fn part(&self, farewell: impl Fn(&str) + Send + Sync + 'static) {
        *self.0.farewell.lock().unwrap() = Some(Arc::new(Box::new(farewell)));
    }

    pub(crate) fn during<T>(&self, run: impl FnOnce() -> T) -> T {
        metrics::with_local_recorder(self, run)
    }

    fn entry(&self, key: &Key, value: Value) -> Arc<Entry> {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={:?}", label.key(), label.value()))
            .collect();
        let series = match labels.is_empty() {
            true => key.name().to_owned(),
            false => format!("{}{{{}}}", key.name(), labels.join(",")),
        };
        self.0.call(&series);
        let mut values = self.0.values.lock().unwrap();
        values.entry(series.clone()).or_insert(value);
        Arc::new(Entry {
            pages: Arc::clone(&self.0),
            series,
        })
    }

    fn describe(&self, name: &KeyName) {
        let mut described = self.0.described.lock().unwrap();
        described.insert(name.as_str().to_owned());
    }
}

impl Recorder for Ledger {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key, Value::Counter(0)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key, Value::Gauge(0.0)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.entry(key, Value::Histogram(Vec::new())))
    }
}

impl Entry {
    fn change(&self, change: impl FnOnce(&mut Value)) {
        self.pages.call(&self.series);
        let mut values = self.pages.values.lock().unwrap();
        change(values.get_mut(&self.series).unwrap());
    }

    fn gauge(&self, change: impl FnOnce(f64) -> f64) {
        self.change(|value| match value {
            Value::Gauge(now) => *now = change(*now),
            other => panic!("a gauge, not {other:?}"),
        });
    }

    fn counter(&self, change: impl FnOnce(u64) -> u64) {
        self.change(|value| match value {
            Value::Counter(now) => *now = change(*now),
            other => panic!("a counter, not {other:?}"),
        });
    }
}

impl CounterFn for Entry {
    fn increment(&self, by: u64) {
        self.counter(|now| now + by);
    }

    fn absolute(&self, value: u64) {
        self.counter(|now| now.max(value));
    }
}

impl GaugeFn for Entry {
    fn increment(&self, by: f64) {
        self.gauge(|now| now + by);
    }

    fn decrement(&self, by: f64) {
        self.gauge(|now| now - by);
    }

    fn set(&self, value: f64) {
        self.gauge(|_| value);
    }
}

impl HistogramFn for Entry {
    fn record(&self, sample: f64) {
        self.change(|value| match value {
            Value::Histogram(samples) => samples.push(sample),
            other => panic!("a histogram, not {other:?}"),
        });
    }
}
