//! One worker: what it has in hand, and what keeps requests from it.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    config::{self, BusyThreshold},
    pool::group::Load,
};

/// A worker, known by its index.
#[derive(Debug)]
pub(super) struct Worker {
    /// As the policy describes it; `None` for the implicit worker of a dominion without workers.
    pub(super) configured: Option<Arc<config::Worker>>,
    /// Uncached tokens of its requests whose first byte has not come. Wider than the tokens of any request,
    /// so that it does not saturate, and what is added can be taken off again.
    pub(super) prefill: u128,
    pub(super) in_flight: u64,
    pub(super) groups: Vec<u32>,
    pub(super) condition: Condition,
}

/// What keeps requests from a worker, besides being busy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Only requests that tolerate all of these may go to it.
    pub(crate) taints: BTreeSet<Box<str>>,
    pub(crate) overloaded: bool,
    /// It takes no more requests, and finishes those it has.
    pub(crate) draining: bool,
    /// A local model that the profile in force leaves out.
    pub(crate) unselected: bool,
    /// It is gone, except for the requests it still has.
    pub(in crate::pool) removed: bool,
}

impl Condition {
    /// True if every request may go to the worker.
    pub(super) fn open_to_all(&self) -> bool {
        self.open_to(&[])
    }

    pub(super) fn open_to(&self, tolerations: &[Box<str>]) -> bool {
        let shut = self.overloaded || self.draining || self.unselected || self.removed;
        !shut && self.taints.iter().all(|taint| tolerations.contains(taint))
    }
}

impl Worker {
    pub(super) fn idle(configured: Option<Arc<config::Worker>>, groups: Vec<u32>) -> Self {
        Self {
            configured,
            prefill: 0,
            in_flight: 0,
            groups,
            condition: Condition::default(),
        }
    }

    pub(super) fn load(&self, index: u32) -> Load {
        let in_flight = u32::try_from(self.in_flight).unwrap_or(u32::MAX);
        (fits(self.prefill), in_flight, index)
    }

    /// True for the placeholder of requests without a worker.
    pub(super) fn is_nowhere(&self) -> bool {
        self.groups.is_empty()
    }

    fn batch(&self) -> Option<u64> {
        self.configured.as_ref()?.max_num_batched_tokens
    }

    /// The most prefill, in whole tokens, at which it is not busy.
    pub(super) fn limit(&self, threshold: &BusyThreshold) -> Option<u64> {
        let batch = threshold.fraction.zip(self.batch());
        // Float to integer casts saturate.
        let batch = batch.map(|(multiple, batch)| (multiple * batch as f64) as u64);
        threshold.tokens.into_iter().chain(batch).min()
    }

    pub(super) fn exceeds(&self, threshold: &BusyThreshold) -> bool {
        let absolute = threshold
            .tokens
            .is_some_and(|limit| self.prefill > u128::from(limit));
        let batch = threshold.fraction.zip(self.batch());
        absolute
            || batch.is_some_and(|(multiple, batch)| self.prefill as f64 > multiple * batch as f64)
    }
}

/// A worker's load.
#[cfg(feature = "metrics")]
pub(in crate::pool) struct WorkerLoad<'a> {
    /// `None` for the implicit worker.
    pub(in crate::pool) id: Option<&'a Arc<str>>,
    /// In tokens.
    pub(in crate::pool) prefill: u64,
    pub(in crate::pool) in_flight: u64,
}

/// Tokens as they are reported: saturated at the largest `u64`.
pub(super) fn fits(prefill: u128) -> u64 {
    u64::try_from(prefill).unwrap_or(u64::MAX)
}
