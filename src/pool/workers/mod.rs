//! The workers of a dominion: what each has in hand, which are busy, which is chosen next.
//!
//! Plain data under the dominion's lock. Whether a worker is busy for a class is kept up to date rather than
//! computed when asked: a change of load flips a few bits, and only the lanes that those bits concern are
//! rechecked.

mod choice;
mod demand;
mod look;
mod reload;
mod room;
mod worker;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(super) use self::look::Busy;
pub(crate) use self::worker::Condition;
#[cfg(feature = "metrics")]
pub(super) use self::worker::WorkerLoad;
use self::{
    demand::{Bar, Demand},
    worker::{Worker, fits},
};
use super::{eligible::Eligible, group::Group, meter::Touched};
use crate::{
    config::{self, PolicyConfig},
    schedule::Gate,
};

/// The workers of one dominion.
#[derive(Debug)]
pub(super) struct Workers {
    /// An index belongs to one id for as long as anything refers to it, so that a request in flight keeps
    /// naming its own worker.
    workers: Vec<Worker>,
    by_id: HashMap<Arc<str>, u32>,
    /// Workers that were removed: one that comes back still has its unfinished requests.
    gone: HashMap<Arc<str>, u32>,
    /// Indices of removed workers that are forgotten, to be reused.
    vacant: BTreeSet<u32>,
    groups: Vec<Group>,
    /// Groups of models that no worker serves any more, to be reused.
    unserved: Vec<u32>,
    group_of_model: HashMap<String, u32>,
    bars: Vec<Bar>,
    /// By class.
    demands: Vec<Demand>,
    /// If false, no request ever waits for a worker.
    enforced: bool,
    pub(super) touched: Touched,
}

const ALL: u32 = 0;

impl Workers {
    /// The workers that `policy` puts into `dominion`.
    pub(super) fn new(policy: &PolicyConfig, dominion: Option<usize>) -> Self {
        let mut this = Self {
            workers: Vec::new(),
            by_id: HashMap::new(),
            gone: HashMap::new(),
            vacant: BTreeSet::new(),
            groups: Vec::new(),
            unserved: Vec::new(),
            group_of_model: HashMap::new(),
            bars: Vec::new(),
            demands: Vec::new(),
            touched: Touched::default(),
            enforced: true,
        };
        this.set_demands(policy);
        this.groups.push(Group::new(this.bars.len()));
        for worker in policy
            .workers
            .iter()
            .filter(|worker| worker.dominion == dominion)
        {
            // No request waits yet that would have to be rechecked.
            let _ = this.add(Some(Arc::clone(worker)));
        }
        if this.workers.is_empty() {
            let _ = this.add(None);
        }
        this
    }

    /// If not enforced, a request goes to the least loaded worker even if all are busy, and to no worker at
    /// all if none may serve it.
    pub(super) fn set_enforced(&mut self, enforced: bool) {
        self.enforced = enforced;
    }

    /// Adds a worker, and takes the implicit one out of service if this is the first. The result must be
    /// passed to the schedule.
    pub(super) fn add(&mut self, configured: Option<Arc<config::Worker>>) -> Flipped {
        if configured.is_some() && self.by_id.is_empty() {
            let implicit = |worker: &Worker| worker.configured.is_none() && !worker.is_nowhere();
            if let Some(implicit) = self.workers.iter().position(implicit) {
                // Not reported: the new worker's own change has the same lanes rechecked.
                let _ = self.set_condition(implicit as u32, |condition| condition.removed = true);
            }
        }
        let id = configured.as_ref().map(|worker| Arc::clone(&worker.id));
        let models = configured.as_ref().map(|worker| &*worker.models);
        let groups = self.groups_of(models.unwrap_or_default());
        let index = self.place(configured.as_deref());
        let Self {
            workers,
            groups: all,
            bars,
            by_id,
            ..
        } = self;
        let worker = &mut workers[index as usize];
        worker.configured = configured;
        worker.groups.clone_from(&groups);
        by_id.extend(id.map(|id| (id, index)));
        let worker = &workers[index as usize];
        let busy: Vec<bool> = bars
            .iter()
            .map(|bar| worker.exceeds(&bar.threshold))
            .collect();
        for group in groups {
            let group = &mut all[group as usize];
            group.add(index, |member| {
                let worker = &workers[member as usize];
                (worker.load(member), worker.condition.open_to_all())
            });
            for (bar, _) in busy.iter().enumerate().filter(|(_, busy)| **busy) {
                group.count_busy(bar, true);
            }
        }
        for (bar, busy) in bars.iter_mut().zip(busy) {
            bar.busy[index as usize] = busy;
        }
        Flipped {
            worker: index,
            any: true,
        }
    }

    /// Takes a worker out of service. Requests that it still has finish.
    pub(super) fn remove(&mut self, id: &str) -> Option<Flipped> {
        let (id, index) = self.by_id.remove_entry(id)?;
        self.gone.insert(id, index);
        let flipped = self.set_condition(index, |condition| condition.removed = true);
        for &group in &self.workers[index as usize].groups {
            self.groups[group as usize].remove(index);
        }
        self.forget_unserved();
        Some(flipped)
    }

    /// The index of a worker that was not removed.
    pub(super) fn index(&self, id: &str) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    /// The models that a worker serves.
    pub(super) fn models(&self, index: u32) -> Vec<String> {
        let configured = &self.workers[index as usize].configured;
        configured
            .as_ref()
            .map(|worker| worker.models.clone())
            .unwrap_or_default()
    }

    /// Changes which requests may go to a worker.
    pub(super) fn set_condition(
        &mut self,
        index: u32,
        change: impl FnOnce(&mut Condition),
    ) -> Flipped {
        let Self {
            workers,
            groups,
            bars,
            ..
        } = self;
        let worker = &mut workers[index as usize];
        let before = worker.condition.clone();
        change(&mut worker.condition);
        let (was_open, is_open) = (before.open_to_all(), worker.condition.open_to_all());
        if was_open != is_open {
            for &group in &worker.groups {
                let group = &mut groups[group as usize];
                group.set_open(worker.load(index), is_open);
                for (bar, _) in bars
                    .iter()
                    .enumerate()
                    .filter(|(_, bar)| bar.busy[index as usize])
                {
                    group.count_busy(bar, is_open);
                }
            }
        }
        Flipped {
            worker: index,
            any: before != worker.condition,
        }
    }

    /// Copies the conditions of `others` to the workers with the same ids. No request may be waiting for
    /// these: the schedule is not told.
    pub(super) fn take_conditions(&mut self, others: &Self) {
        for (id, &index) in &others.by_id {
            if let Some(own) = self.index(id) {
                let condition = others.workers[index as usize].condition.clone();
                let _ = self.set_condition(own, |own| *own = condition);
            }
        }
    }

    /// The number of workers, but at least 1: the factor of a class's limits.
    pub(super) fn count(&self) -> u64 {
        self.by_id.len().max(1) as u64
    }

    /// The worker as the policy describes it, for the request that is assigned to it.
    pub(super) fn assigned(&self, index: u32) -> Assigned {
        let worker = self.workers[index as usize].configured.clone();
        Assigned { index, worker }
    }

    /// The workers that the policy describes and that were not removed.
    pub(super) fn configured(&self) -> impl Iterator<Item = (u32, &Arc<config::Worker>)> {
        let worker =
            |&index: &u32| Some((index, self.workers[index as usize].configured.as_ref()?));
        self.by_id.values().filter_map(worker)
    }

    /// Gives a worker a request; its uncached tokens are prefill until its first byte.
    pub(super) fn start(&mut self, worker: u32, uncached: u64) -> Flipped {
        self.change(worker, |worker| {
            worker.prefill += u128::from(uncached);
            worker.in_flight += 1;
        })
    }

    /// Takes the request's prefill off a worker.
    pub(super) fn end_prefill(&mut self, worker: u32, uncached: u64) -> Flipped {
        self.change(worker, |worker| {
            worker.prefill = worker.prefill.saturating_sub(uncached.into());
        })
    }

    /// Takes a request off a worker, with what is left of its prefill.
    pub(super) fn finish(&mut self, worker: u32, uncached: u64) -> Flipped {
        self.change(worker, |worker| {
            worker.in_flight = worker.in_flight.saturating_sub(1);
            worker.prefill = worker.prefill.saturating_sub(uncached.into());
        })
    }

    fn change(&mut self, index: u32, change: impl FnOnce(&mut Worker)) -> Flipped {
        self.touched.add(index);
        let Self {
            workers,
            groups,
            bars,
            ..
        } = self;
        // With a single worker and no bars there is neither an order nor a busy bit to update.
        let plain = workers.len() == 1 && bars.is_empty();
        let worker = &mut workers[index as usize];
        let old = worker.load(index);
        change(worker);
        let new = worker.load(index);
        let mut flipped = Flipped {
            worker: index,
            any: false,
        };
        if plain {
            return flipped;
        }
        let open = worker.condition.open_to_all();
        if open {
            for &group in &worker.groups {
                groups[group as usize].reorder(old, new);
            }
        }
        for (index_of_bar, bar) in bars.iter_mut().enumerate() {
            let busy = worker.exceeds(&bar.threshold);
            let before = std::mem::replace(&mut bar.busy[index as usize], busy);
            if before == busy {
                continue;
            }
            flipped.any = true;
            for &group in worker.groups.iter().filter(|_| open) {
                groups[group as usize].count_busy(index_of_bar, busy);
            }
        }
        flipped
    }

    pub(super) fn is_unselected(&self, worker: u32) -> bool {
        self.workers[worker as usize].condition.unselected
    }

    /// The prefill of each worker, in tokens.
    pub(super) fn prefill(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.iter().map(|worker| fits(worker.prefill))
    }

    /// The requests of each worker.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.iter().map(|worker| worker.in_flight)
    }

    /// The load of the worker at an index, removed or not.
    #[cfg(feature = "metrics")]
    pub(super) fn load_at(&self, index: usize) -> Option<WorkerLoad<'_>> {
        let worker = self.workers.get(index)?;
        Some(WorkerLoad {
            id: worker.configured.as_ref().map(|it| &it.id),
            prefill: fits(worker.prefill),
            in_flight: worker.in_flight,
        })
    }
}

/// Whether a change opened or closed a worker for some class.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Flipped {
    pub(super) worker: u32,
    pub(super) any: bool,
}

/// The worker that a request was assigned to.
#[derive(Clone, Debug)]
pub(crate) struct Assigned {
    pub(super) index: u32,
    pub(super) worker: Option<Arc<config::Worker>>,
}

/// A waiting request as the schedule sees it.
#[derive(Debug)]
pub(super) struct Parked {
    /// Key into the dominion's waiters.
    pub(super) waiter: usize,
    pub(super) eligible: Eligible,
}

impl Gate<Parked> for Workers {
    fn open(&self, class: usize, parked: &Parked) -> bool {
        self.dispatchable(class, &parked.eligible)
    }
}
