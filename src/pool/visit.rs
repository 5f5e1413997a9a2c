//! Requests at other workers than those of the slots they run on.
//!
//! A request that a handler sends runs on the handler's slot, and may have to go to another worker than the
//! slot's. It takes no slot of its own; but for as long as it runs, it counts at that worker like any other
//! request, so that the worker's load is known, and it ends when the worker's model is unloaded.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use slab::Slab;

use super::{
    Pool, Share, Wanted,
    revocation::{Revocation, Revoked},
    state::State,
    wake::WakeList,
};
use crate::{config::Worker, schedule::Snapshot};

/// The visits of a dominion.
#[derive(Debug, Default)]
pub(super) struct Visits(Slab<Visiting>);

#[derive(Debug)]
struct Visiting {
    /// `None` once it was told to leave: from then on it counts nowhere.
    worker: Option<u32>,
    /// Uncached tokens that still load the worker.
    prefill: u64,
    /// Shared with the [`Visit`].
    revocation: Option<Arc<Revocation>>,
}

impl Visiting {
    /// Takes it off its worker: returns the worker, and the prefill that is to be taken off it, in tokens.
    fn leave(&mut self) -> Option<(u32, u64)> {
        let worker = self.worker.take()?;
        Some((worker, std::mem::take(&mut self.prefill)))
    }
}

#[cfg(test)]
impl Visits {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The worker at which a visit counts; `None` once it was told to leave.
    pub(super) fn worker_of(&self, visit: &Visit) -> Option<u32> {
        self.0[visit.key].worker
    }
}

/// A request's place at another worker than that of its slot, until it is dropped.
#[derive(Debug)]
pub(crate) struct Visit {
    pool: Arc<Pool>,
    /// Its key among the pool's visits.
    key: usize,
    worker: Option<Arc<Worker>>,
    /// Whether its first byte is still to come.
    prefill: bool,
    /// For a local model, which a change of profile may unload.
    revocation: Option<Arc<Revocation>>,
}

impl Share {
    /// Places a request that runs on the slot: `Some(None)` if it may go to the slot's own worker; otherwise
    /// a visit to the worker that it prefers, or to the least loaded. `None` if it may go to no worker.
    pub(crate) fn visit(
        &self,
        wanted: &Wanted<'_>,
        snapshot: Snapshot,
    ) -> Option<Option<Box<Visit>>> {
        let pool = self.grant().pool();
        // Chosen and counted under one lock, so that no two are sent to a worker that has room for one.
        pool.with_state(|state, _| {
            let grant = self.grant();
            // Without the slot it has no worker either: the index may be another worker's by now.
            let own = (!grant.is_taken_back()).then_some(grant.assigned.index);
            let worker = state.workers.beside(own, wanted)?;
            let elsewhere = own != Some(worker);
            Some(elsewhere.then(|| Box::new(state.visit(pool, worker, snapshot.uncached()))))
        })
    }
}

impl Visit {
    /// The worker as the policy describes it.
    pub(crate) fn worker(&self) -> Option<&Arc<Worker>> {
        self.worker.as_ref()
    }

    /// The first data frame has come.
    pub(crate) fn end_prefill(&mut self) {
        if std::mem::replace(&mut self.prefill, false) {
            let key = self.key;
            self.pool
                .with_state(|state, wakes| state.end_visit_prefill(key, wakes));
        }
    }

    /// Ready once its model was unloaded: whatever runs there must stop then.
    pub(crate) fn poll_revoked(&self, cx: &mut Context<'_>) -> Poll<Revoked> {
        match &self.revocation {
            Some(revocation) => revocation.poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let key = self.key;
        // The pool does not drop the last reference to its revocation under the lock: that may hold a waker.
        self.pool
            .with_state(|state, wakes| state.end_visit(key, wakes));
    }
}

impl State {
    fn visit(&mut self, pool: &Arc<Pool>, worker: u32, uncached: u64) -> Visit {
        let flipped = self.workers.start(worker, uncached);
        // This may make the worker busy, never less busy: it makes nobody dispatchable.
        self.recheck(flipped);
        let assigned = self.workers.assigned(worker).worker;
        let local = assigned.as_ref().is_some_and(|it| it.endpoint.is_none());
        let revocation = local.then(|| Arc::new(Revocation::new(None)));
        let key = self.visits.0.insert(Visiting {
            worker: Some(worker),
            prefill: uncached,
            revocation: revocation.clone(),
        });
        Visit {
            pool: Arc::clone(pool),
            key,
            worker: assigned,
            prefill: true,
            revocation,
        }
    }

    fn end_visit_prefill(&mut self, key: usize, wakes: &mut WakeList) {
        let visiting = self.visits.0.get_mut(key);
        let left = visiting.and_then(|it| Some((it.worker?, std::mem::take(&mut it.prefill))));
        if let Some((worker, prefill)) = left {
            self.end_prefill(worker, prefill, wakes);
        }
    }

    fn end_visit(&mut self, key: usize, wakes: &mut WakeList) {
        let visiting = self.visits.0.try_remove(key);
        if let Some((worker, prefill)) = visiting.and_then(|mut it| it.leave()) {
            let flipped = self.workers.finish(worker, prefill);
            self.recheck(flipped);
            self.arbitrate(wakes);
        }
    }

    /// Ends the visits to models that are no longer loaded; arbitration is left to the caller.
    pub(super) fn end_unselected_visits(&mut self, wakes: &mut WakeList) {
        let Self {
            visits, workers, ..
        } = self;
        let mut left = Vec::new();
        for (_, visiting) in &mut visits.0 {
            let unselected = |worker| workers.is_unselected(worker);
            if !visiting.worker.is_some_and(unselected) {
                continue;
            }
            left.extend(visiting.leave());
            let revocation = visiting.revocation.as_ref();
            wakes.extend(revocation.and_then(|it| it.revoke(Revoked::ProfileSwitch)));
        }
        for (worker, prefill) in left {
            let flipped = self.workers.finish(worker, prefill);
            self.recheck(flipped);
        }
    }
}
