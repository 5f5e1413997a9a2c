//! The permit: a slot, from the grant to the end of the response body.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{Pool, workers::Assigned};
use crate::{
    config::{PolicyClass, Worker},
    schedule::Snapshot,
};

/// What was granted to a request, shared by its permit, its holds and its admission.
///
/// The slot is counted apart from the value: an admission that is kept around keeps no slot.
pub(crate) struct Grant {
    pool: Arc<Pool>,
    class: usize,
    assigned: Assigned,
    queued_for: Duration,
    /// Tokens that load the worker until the first byte.
    uncached: u64,
    /// Whether they still do.
    prefill: AtomicBool,
    /// The permit and the holds that keep the slot; the last one to go gives it back.
    holders: AtomicUsize,
}

impl Grant {
    pub(crate) fn class(&self) -> &PolicyClass {
        &self.pool.policy.classes[self.class]
    }

    pub(crate) fn dominion(&self) -> Option<&str> {
        self.pool.id()
    }

    pub(crate) fn worker(&self) -> Option<&Worker> {
        self.assigned.worker.as_deref()
    }

    /// From the arrival to the grant being taken up.
    pub(crate) fn queued_for(&self) -> Duration {
        self.queued_for
    }

    /// Keeps the slot past the request's own permit; none if it was given back already.
    pub(crate) fn share(self: &Arc<Self>) -> Option<Share> {
        let one_more = |holders: usize| (holders > 0).then_some(holders + 1);
        // Only the count is shared this way; what the slot stands for is under the pool's lock.
        let counted = self
            .holders
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        counted.is_ok().then(|| Share {
            grant: Arc::clone(self),
        })
    }

    #[cfg(test)]
    pub(super) fn prefill_for_test(&self) -> (u32, u64) {
        (self.assigned.index, self.uncached)
    }

    /// The prefill that is left, in tokens; the answer is 0 from then on.
    fn take_prefill(&self) -> u64 {
        // A load first: most calls come after the first byte.
        let pending =
            self.prefill.load(Ordering::Acquire) && self.prefill.swap(false, Ordering::AcqRel);
        if pending { self.uncached } else { 0 }
    }

    fn end_prefill(&self) {
        let uncached = self.take_prefill();
        if uncached > 0 {
            let worker = self.assigned.index;
            self.pool
                .with_state(|state, wakes| state.end_prefill(worker, uncached, wakes));
        }
    }

    /// Takes one holder away; true if the slot went back with it.
    fn release_one(&self) -> bool {
        let last = self.holders.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            let prefill = self.take_prefill();
            let worker = self.assigned.index;
            self.pool
                .with_state(|state, wakes| state.release(worker, prefill, wakes));
        }
        last
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("class", &self.class().name)
            .field("dominion", &self.dominion())
            .field("worker", &self.worker().map(|worker| &worker.id))
            .field("queued_for", &self.queued_for)
            .finish_non_exhaustive()
    }
}

/// A request's slot, from its grant to the end of its response.
#[derive(Debug)]
pub(crate) struct Permit {
    grant: Arc<Grant>,
}

/// A further claim on a request's slot, which may outlive the request.
#[derive(Debug)]
pub(crate) struct Share {
    grant: Arc<Grant>,
}

impl Permit {
    /// The permit of a slot that the pool has just counted as taken.
    pub(super) fn new(
        pool: &Arc<Pool>,
        class: usize,
        snapshot: Snapshot,
        assigned: Assigned,
        queued_for: Duration,
    ) -> Self {
        let grant = Grant {
            pool: Arc::clone(pool),
            class,
            assigned,
            queued_for,
            uncached: snapshot.uncached(),
            prefill: AtomicBool::new(true),
            holders: AtomicUsize::new(1),
        };
        Self {
            grant: Arc::new(grant),
        }
    }

    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// The first data frame came: the worker's prefill of this request is over.
    pub(crate) fn end_prefill(&self) {
        self.grant.end_prefill();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.grant.release_one() {
            // A share keeps the slot, but the request is over.
            self.grant.end_prefill();
        }
    }
}

#[cfg(test)]
impl Share {
    pub(super) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }
}

impl Clone for Share {
    fn clone(&self) -> Self {
        // `self` is a holder, so the count is not zero and stays so meanwhile.
        self.grant.holders.fetch_add(1, Ordering::AcqRel);
        Self {
            grant: Arc::clone(&self.grant),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.grant.release_one();
    }
}
