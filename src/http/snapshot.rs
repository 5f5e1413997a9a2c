//! The state of a layer at one moment.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::Rejection;
#[cfg(doc)]
use crate::PolicyQueueHandle;
use crate::pool::{Code, DominionSnapshot, Rejected, UnplacedMeter};

/// The most requests that a snapshot lists for each dominion, of the dispatchable and of the blocked ones.
pub(super) const WAITERS: usize = 100;

/// The state of a layer at one moment: see [`PolicyQueueHandle::snapshot`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The dominions in the order of the policy, then an entry for requests without one.
    pub dominions: Vec<DominionSnapshot>,
    /// The resources in use, in all dominions together.
    pub usage: Usage,
    /// What became of requests that are not counted in any class.
    pub unplaced: Unplaced,
}

/// Requests that are not counted in any class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Unplaced {
    /// Requests that were turned away before their class was known: because of a header that cannot be
    /// read, a worker that does not exist, or a route bound to a dominion that was removed.
    pub rejected: Rejected,
    /// Requests that bypassed the policy: see the key `bypass`.
    pub bypassed: u64,
    /// Requests that ran on their parent's slot: see [`Admission`](crate::Admission).
    pub nested: u64,
}

/// The resources that a layer has in use: see [`PolicyQueueHandle::usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// Requests that hold a slot, including those without a dominion.
    pub slots_in_use: usize,
    /// Requests that wait in a queue.
    pub waiting: usize,
    /// Uncached tokens of the requests whose first response byte has not come.
    pub prefill_tokens: u64,
    /// Bytes of request bodies that were read ahead and not yet passed on.
    pub read_ahead_bytes: usize,
}

/// Counts the requests that are not counted in any class.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// By code.
    rejected: [AtomicU64; Code::ALL.len()],
    bypassed: AtomicU64,
    nested: AtomicU64,
    meter: UnplacedMeter,
}

impl Elsewhere {
    pub(super) fn rejected(&self, rejection: &Rejection) {
        let code = rejection.reason().to_code();
        add(&self.rejected[code as usize]);
        self.meter.rejected(code);
    }

    pub(super) fn bypassed(&self) {
        add(&self.bypassed);
        self.meter.bypassed();
    }

    pub(super) fn nested(&self) {
        add(&self.nested);
        self.meter.nested();
    }

    pub(super) fn read(&self) -> Unplaced {
        let mut rejected = Rejected::default();
        for (code, count) in Code::ALL.into_iter().zip(&self.rejected) {
            rejected.set(code, read(count));
        }
        Unplaced {
            rejected,
            bypassed: read(&self.bypassed),
            nested: read(&self.nested),
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
