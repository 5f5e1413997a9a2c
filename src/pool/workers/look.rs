//! What a snapshot says about the workers.

use std::sync::Arc;

use super::{Eligible, Worker, Workers, fits};
use crate::pool::{WaitReason, WorkerSnapshot};

impl Workers {
    /// Why the gate blocks a request of the class; `None` if it does not.
    pub(in crate::pool) fn blocked(&self, class: usize, eligible: &Eligible) -> Option<WaitReason> {
        if self.dispatchable(class, eligible) {
            return None;
        }
        let mut open = self.open(eligible);
        let Some(first) = open.next() else {
            return Some(WaitReason::Closed);
        };
        if open.next().is_none() {
            let worker = &self.workers[first as usize];
            let bar = self.demands[class].bar.map(|bar| self.bars[bar].threshold);
            return Some(WaitReason::Worker {
                worker: self.id(first),
                prefill: fits(worker.prefill),
                limit: bar.and_then(|bar| worker.limit(&bar)).unwrap_or(0),
            });
        }
        let busy = |&worker: &u32| self.busy(class, worker);
        Some(WaitReason::Workers {
            busy: self.open(eligible).filter(busy).count(),
            of: self.open(eligible).count(),
        })
    }

    /// The id of a worker; the implicit one has none.
    pub(in crate::pool) fn id(&self, worker: u32) -> Option<Arc<str>> {
        let worker = self.workers.get(worker as usize)?;
        worker.configured.as_ref().map(|it| Arc::clone(&it.id))
    }

    /// The workers with their indices, without removed ones that have no requests left; and which are busy,
    /// from which `busy_for` is to be filled in.
    pub(in crate::pool) fn snapshot(&self) -> (Vec<(u32, WorkerSnapshot)>, Busy) {
        let here = |worker: &Worker| {
            !worker.is_nowhere() && (!worker.condition.removed || worker.in_flight > 0)
        };
        let workers = (0..).zip(&self.workers).filter(|(_, worker)| here(worker));
        let snapshot = |(index, worker): (u32, &Worker)| {
            let snapshot = WorkerSnapshot {
                id: worker.configured.as_ref().map(|it| Arc::clone(&it.id)),
                prefill_tokens: fits(worker.prefill),
                in_flight: worker.in_flight,
                busy_for: Vec::new(),
                draining: worker.condition.draining,
                overloaded: worker.condition.overloaded,
                unselected: worker.condition.unselected,
                removed: worker.condition.removed,
                taints: worker.condition.taints.iter().cloned().collect(),
            };
            (index, snapshot)
        };
        let busy = Busy {
            bars: self.bars.iter().map(|bar| bar.busy.clone()).collect(),
            of_classes: self.demands.iter().map(|demand| demand.bar).collect(),
        };
        (workers.map(snapshot).collect(), busy)
    }
}

/// Which workers were busy when the snapshot was taken.
#[derive(Debug)]
pub(in crate::pool) struct Busy {
    /// By bar and worker.
    bars: Vec<Vec<bool>>,
    /// By class, the index of its bar.
    of_classes: Vec<Option<usize>>,
}

impl Busy {
    /// The classes for which a worker was busy.
    pub(in crate::pool) fn classes(&self, worker: u32) -> Vec<usize> {
        let busy = |bar: Option<usize>| bar.is_some_and(|bar| self.bars[bar][worker as usize]);
        let classes = self.of_classes.iter().enumerate();
        let busy = classes.filter(|&(_, &bar)| busy(bar));
        busy.map(|(class, _)| class).collect()
    }
}
