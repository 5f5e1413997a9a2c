//! What became of the requests, as their clients saw it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::broken::lock;

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Served,
    ServedSlowly,
    Uploaded,
    LeftBeforeHead,
    LeftOnGrant,
    LeftAfterHead,
    LeftMidStream,
    StoppedReading,
    UploadGivenUp,
    UploadBroken,
    Failed,
    Panicked,
    /// The slot was revoked after `max_hold_ms`, and the stream ended.
    HoldEnded,
    /// The layer answered while the client was still sending, and the answer was lost.
    AnswerLost,
    /// Never answered, which breaks an invariant.
    Hung,
    /// A wrong answer, which breaks an invariant.
    Unexpected,
}

impl Outcome {
    fn what(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::ServedSlowly => "served, to a slow reader",
            Self::Uploaded => "served, after an upload",
            Self::LeftBeforeHead => "client left before the head",
            Self::LeftOnGrant => "client left on the grant",
            Self::LeftAfterHead => "client left after the head",
            Self::LeftMidStream => "client left mid-stream",
            Self::StoppedReading => "client stopped reading, then left",
            Self::UploadGivenUp => "client left while it sent",
            Self::UploadBroken => "client's body broke off",
            Self::Failed => "handler failed",
            Self::Panicked => "handler panicked",
            Self::HoldEnded => "stream ended by max_hold_ms",
            Self::AnswerLost => "answered while sending, answer lost",
            Self::Hung => "never answered",
            Self::Unexpected => "answered wrongly",
        }
    }
}

/// Counts of outcomes. Clones share the counts.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    begun: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
    outcomes: Arc<Mutex<BTreeMap<Outcome, u64>>>,
    /// By `error.code`.
    rejected: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// A request under way, from the client's side.
pub(crate) struct UnderWay(Arc<AtomicU64>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Tally {
    pub(crate) fn begin(&self) -> UnderWay {
        self.begun.fetch_add(1, Ordering::AcqRel);
        UnderWay(Arc::clone(&self.ended))
    }

    pub(crate) fn add(&self, outcome: Outcome) {
        *lock(&self.outcomes).entry(outcome).or_default() += 1;
    }

    pub(crate) fn add_rejected(&self, code: &str) {
        let mut rejected = lock(&self.rejected);
        match rejected.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                rejected.insert(code.to_owned(), 1);
            }
        }
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    pub(crate) fn under_way(&self) -> u64 {
        let ended = self.ended.load(Ordering::Acquire);
        self.begun().saturating_sub(ended)
    }

    /// Every outcome with its count; last, those that were turned away, by code.
    pub(crate) fn rows(&self) -> Vec<(String, u64)> {
        let outcomes = lock(&self.outcomes);
        let outcomes = outcomes
            .iter()
            .map(|(outcome, &count)| (outcome.what().to_owned(), count));
        let rejected = lock(&self.rejected);
        let rejected = rejected
            .iter()
            .map(|(code, &count)| (format!("turned away: {code}"), count));
        outcomes.chain(rejected).collect()
    }
}
