//! The series: their names and labels, and the recorder's handles on them.

use std::sync::{Arc, OnceLock};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder, Unit};

use crate::{
    metrics::{HOLD_SECONDS, WAIT_SECONDS},
    pool::tally::{Code, Totals},
};

const METADATA: Metadata<'_> =
    Metadata::new(env!("CARGO_CRATE_NAME"), Level::INFO, Some(module_path!()));

/// The counters of a class that have no label of their own, in the order of [`counts`].
const COUNTERS: [&str; 6] = [
    "policy_queue_requests_total",
    "policy_queue_admitted_total",
    "policy_queue_served_tokens_total",
    "policy_queue_completed_total",
    "policy_queue_failed_total",
    "policy_queue_revoked_total",
];
const CANCELLED: &str = "policy_queue_cancelled_total";
const STAGES: [&str; 3] = ["queued", "granted", "running"];
const REJECTED: &str = "policy_queue_rejected_total";
const BYPASSED: &str = "policy_queue_bypassed_total";
const NESTED: &str = "policy_queue_nested_total";

pub(super) const CLASS_COUNTERS: usize = COUNTERS.len() + STAGES.len() + Code::ALL.len();

/// What is told about a class's requests, in the order of its counters.
pub(super) fn counts(totals: &Totals) -> [u64; CLASS_COUNTERS] {
    let Totals {
        arrived,
        admitted,
        tokens_served,
        completed,
        failed,
        revoked,
        cancelled,
        rejected,
        ..
    } = totals;
    let plain = [
        *arrived,
        *admitted,
        *tokens_served,
        *completed,
        *failed,
        *revoked,
        cancelled.queued,
        cancelled.granted,
        cancelled.running,
    ];
    let mut counts = [0; CLASS_COUNTERS];
    let (first, codes) = counts.split_at_mut(plain.len());
    first.copy_from_slice(&plain);
    codes.copy_from_slice(rejected.counts());
    counts
}

/// Series with the same labels.
#[derive(Debug)]
pub(super) struct Family {
    /// Whether they have the counters of a class.
    counters: bool,
    gauges: &'static [&'static str],
    histograms: &'static [&'static str],
}

const CLASS_GAUGES: [&str; 4] = [
    "policy_queue_waiting_requests",
    "policy_queue_waiting_tokens",
    "policy_queue_deficit_tokens",
    "policy_queue_quantum_tokens",
];
const DOMINION_GAUGES: [&str; 3] = [
    "policy_queue_slots",
    "policy_queue_slots_in_use",
    "policy_queue_idle_slot_seconds",
];
const WORKER_GAUGES: [&str; 2] = [
    "policy_queue_worker_in_flight_requests",
    "policy_queue_worker_prefill_tokens",
];

pub(super) const CLASS: Family = Family {
    counters: true,
    gauges: &CLASS_GAUGES,
    histograms: &[WAIT_SECONDS, HOLD_SECONDS],
};

/// Indices into the histograms of [`CLASS`].
pub(super) const WAIT: usize = 0;
pub(super) const HOLD: usize = 1;

/// The classes that a reload has removed.
pub(super) const FORMER: Family = Family {
    gauges: &[],
    ..CLASS
};

pub(super) const DOMINION: Family = Family {
    counters: false,
    gauges: &DOMINION_GAUGES,
    histograms: &[],
};

/// This gauge is in nanoseconds here, and in seconds for the recorder.
const IDLE_SECONDS: &str = DOMINION_GAUGES[2];

pub(super) const WORKER: Family = Family {
    counters: false,
    gauges: &WORKER_GAUGES,
    histograms: &[],
};

/// The series of one class, dominion or worker.
#[derive(Debug)]
pub(super) struct Series {
    family: Family,
    labels: Vec<(&'static str, Arc<str>)>,
    /// Registered when something is first told rather than when this is made, which happens under the lock,
    /// where no recorder may be called.
    handles: OnceLock<Handles>,
}

#[derive(Debug)]
pub(super) struct Handles {
    pub(super) counters: Vec<Counter>,
    /// Each with the factor from this crate's unit to the recorder's.
    pub(super) gauges: Vec<(Gauge, f64)>,
    pub(super) histograms: Vec<Histogram>,
}

impl Series {
    pub(super) fn new(family: Family, labels: Vec<(&'static str, Arc<str>)>) -> Arc<Self> {
        Arc::new(Self {
            family,
            labels,
            handles: OnceLock::new(),
        })
    }

    /// Must not be called under a lock: the first call registers.
    pub(super) fn handles(&self) -> &Handles {
        match self.handles.get() {
            Some(handles) => handles,
            None => {
                // Registered outside the cell, which would have others wait for the recorder. Two that
                // register at once get handles to the same series.
                let handles = metrics::with_recorder(|recorder| self.register(recorder));
                self.handles.get_or_init(|| handles)
            }
        }
    }

    fn register(&self, recorder: &dyn Recorder) -> Handles {
        let own = || {
            let label = |(name, value): &(&'static str, Arc<str>)| {
                Label::new(*name, Arc::<str>::clone(value))
            };
            self.labels.iter().map(label).collect::<Vec<_>>()
        };
        let with = |name: &'static str, value: &'static str| {
            let mut labels = own();
            labels.push(Label::new(name, value));
            labels
        };
        let plain = COUNTERS.iter().map(|name| (*name, own()));
        let stages = STAGES.iter().map(|stage| (CANCELLED, with("stage", stage)));
        let codes = Code::ALL
            .iter()
            .map(|code| (REJECTED, with("code", code.as_str())));
        let counters = plain.chain(stages).chain(codes);
        let gauges = self.family.gauges.iter();
        let histograms = self.family.histograms.iter();
        Handles {
            counters: counters
                .filter(|_| self.family.counters)
                .map(|key| recorder.register_counter(&key.into(), &METADATA))
                .collect(),
            gauges: gauges
                .map(|&name| {
                    let gauge = recorder.register_gauge(&(name, own()).into(), &METADATA);
                    (gauge, if name == IDLE_SECONDS { 1e-9 } else { 1.0 })
                })
                .collect(),
            histograms: histograms
                .map(|&name| recorder.register_histogram(&(name, own()).into(), &METADATA))
                .collect(),
        }
    }
}

/// The series of requests that get no class.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) bypassed: Counter,
    pub(super) nested: Counter,
    /// By code.
    pub(super) rejected: [Counter; Code::ALL.len()],
}

impl Unplaced {
    pub(super) fn register() -> Self {
        let counter = |name: &'static str, labels: Vec<Label>| {
            let key = Key::from_parts(name, labels);
            metrics::with_recorder(|recorder| recorder.register_counter(&key, &METADATA))
        };
        let rejected = |code: Code| {
            let nothing = ["dominion", "profile", "class"].map(|label| Label::new(label, ""));
            let mut labels = nothing.to_vec();
            labels.push(Label::new("code", code.as_str()));
            counter(REJECTED, labels)
        };
        Self {
            bypassed: counter(BYPASSED, Vec::new()),
            nested: counter(NESTED, Vec::new()),
            rejected: Code::ALL.map(rejected),
        }
    }
}

/// Tells the recorder what the series are.
pub(super) fn describe() {
    let [requests, admitted, tokens, completed, failed, revoked] = COUNTERS;
    let [waiting, waiting_tokens, deficit, quantum] = CLASS_GAUGES;
    let [slots, in_use, idle] = DOMINION_GAUGES;
    let [in_flight, prefill] = WORKER_GAUGES;

    let count = Unit::Count;
    metrics::describe_counter!(requests, count, "Requests that came.");
    metrics::describe_counter!(admitted, count, "Requests that were given a slot.");
    metrics::describe_counter!(
        tokens,
        count,
        "Uncached input tokens of the admitted requests."
    );
    metrics::describe_counter!(
        completed,
        count,
        "Requests that kept their slot for as long as their class says."
    );
    metrics::describe_counter!(
        failed,
        count,
        "Requests whose inner service or response failed."
    );
    metrics::describe_counter!(
        revoked,
        count,
        "Requests whose slot was taken back while the response was under way."
    );
    metrics::describe_counter!(
        CANCELLED,
        count,
        "Requests whose clients went away, by how far they had come."
    );
    metrics::describe_counter!(
        REJECTED,
        count,
        "Requests that were turned away, by the code of the answer."
    );
    metrics::describe_counter!(
        BYPASSED,
        count,
        "Requests that the policy does not concern."
    );
    metrics::describe_counter!(
        NESTED,
        count,
        "Requests that ran on the slot of the one that sent them."
    );
    metrics::describe_gauge!(waiting, count, "Requests that wait.");
    metrics::describe_gauge!(
        waiting_tokens,
        count,
        "Input tokens of the requests that wait."
    );
    metrics::describe_gauge!(
        deficit,
        count,
        "Tokens credited and not spent; negative in debt."
    );
    metrics::describe_gauge!(quantum, count, "Tokens credited in each round; 0: closed.");
    metrics::describe_gauge!(
        slots,
        count,
        "Requests that may run at the same time; 0: unlimited, or closed."
    );
    metrics::describe_gauge!(in_use, count, "Requests that have a slot.");
    metrics::describe_gauge!(
        idle,
        Unit::Seconds,
        "How long a slot was free beside a request that could have used it; should be 0."
    );
    metrics::describe_gauge!(in_flight, count, "Requests that a worker has.");
    metrics::describe_gauge!(
        prefill,
        count,
        "Uncached tokens of a worker's requests whose first byte has not come."
    );
    metrics::describe_histogram!(
        WAIT_SECONDS,
        Unit::Seconds,
        "From the arrival to the grant; 0 for requests that did not wait."
    );
    metrics::describe_histogram!(
        HOLD_SECONDS,
        Unit::Seconds,
        "From when a request went on to when its slot came back."
    );
}
