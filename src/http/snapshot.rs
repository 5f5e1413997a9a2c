//! What a layer looks like at one moment.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::Rejection;
#[cfg(doc)]
use crate::PolicyQueueHandle;
use crate::pool::{Code, DominionSnapshot, Rejected, UnplacedMeter};

/// Requests of each kind that a snapshot lists for each dominion.
pub(super) const WAITERS: usize = 100;

/// A layer at one moment: see [`PolicyQueueHandle::snapshot`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The dominions in the order of the policy, and last the place of requests without one.
    pub dominions: Vec<DominionSnapshot>,
    /// What the layer has in hand, all dominions together.
    pub usage: Usage,
    /// What became of requests that are not counted in a class.
    pub unplaced: Unplaced,
}

/// Requests that came to no class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Unplaced {
    /// They were turned away before their class was known: a header that cannot be read, a worker
    /// that there is not, a route to a dominion that is gone.
    pub rejected: Rejected,
    /// The policy does not concern them: see the key `bypass`.
    pub bypassed: u64,
    /// They ran on the slot of the request that sent them: see [`Admission`](crate::Admission).
    pub nested: u64,
}

/// What a layer has in hand: see [`PolicyQueueHandle::usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// Requests that have a slot, those without a dominion included.
    pub slots_in_use: usize,
    /// Requests that are parked.
    pub waiting: usize,
    /// Uncached tokens of the requests whose first byte has not come.
    pub prefill_tokens: u64,
    /// Bytes of request bodies that were read ahead and not yet handed on.
    pub read_ahead_bytes: usize,
}

/// Counts the requests that come to no class.
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
