//! The workers of a dominion: what each has in hand, which are busy, which is taken next.
//!
//! Plain data under the dominion's lock. Whether a worker is busy for a class is kept up to date
//! rather than computed when asked: a change of load flips a few bits, and only the lanes that
//! those bits concern are looked at again.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    config::{self, BusyThreshold, PolicyConfig},
    schedule::{Gate, LaneId},
};

/// The workers a request may go to, taken when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Eligible {
    /// This one only; its lane is its own.
    Pinned(u32),
    /// Any of a group.
    Group(u32),
    /// Any of these: a group less the workers outside the request's allow-list.
    Listed(Box<[u32]>),
}

impl Eligible {
    pub(crate) fn lane(&self) -> LaneId {
        match *self {
            Self::Pinned(worker) => LaneId::Worker(worker),
            Self::Group(_) | Self::Listed(_) => LaneId::Shared,
        }
    }
}

/// Which worker is taken first: the least prefill, then the fewest requests, then file order.
type Load = (u64, u64, u32);

#[derive(Debug)]
struct Worker {
    /// What the policy says of it; none for the implicit worker of a dominion without any.
    configured: Option<Arc<config::Worker>>,
    /// Uncached tokens of the requests whose first byte has not come.
    prefill: u64,
    in_flight: u64,
    groups: Vec<u32>,
}

impl Worker {
    fn load(&self, index: u32) -> Load {
        (self.prefill, self.in_flight, index)
    }

    fn exceeds(&self, threshold: &BusyThreshold) -> bool {
        let absolute = threshold.tokens.is_some_and(|limit| self.prefill > limit);
        let batch = self
            .configured
            .as_ref()
            .and_then(|worker| worker.max_num_batched_tokens);
        let batch = threshold.fraction.zip(batch);
        absolute
            || batch.is_some_and(|(multiple, batch)| self.prefill as f64 > multiple * batch as f64)
    }
}

/// Workers that are eligible together: all of the dominion, or those that serve a model.
#[derive(Debug, Default)]
struct Group {
    by_load: BTreeSet<Load>,
    /// How many are busy, by bar.
    busy: Vec<u32>,
}

/// A threshold that classes share, and which workers are above it.
#[derive(Debug)]
struct Bar {
    threshold: BusyThreshold,
    busy: Vec<bool>,
}

/// What a class asks of its workers.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// Index of its bar; none: no worker is ever busy for it.
    bar: Option<usize>,
    ratio: f64,
}

/// The workers of one dominion.
#[derive(Debug)]
pub(crate) struct Workers {
    workers: Vec<Worker>,
    groups: Vec<Group>,
    group_of_model: HashMap<String, u32>,
    /// From an index into the policy's workers to one into `workers`.
    local: HashMap<usize, u32>,
    bars: Vec<Bar>,
    /// By class.
    demands: Vec<Demand>,
}

const ALL: u32 = 0;

impl Workers {
    /// The workers that `policy` puts into `dominion`.
    pub(crate) fn new(policy: &PolicyConfig, dominion: Option<usize>) -> Self {
        let mut this = Self {
            workers: Vec::new(),
            groups: vec![Group::default()],
            group_of_model: HashMap::new(),
            local: HashMap::new(),
            bars: Vec::new(),
            demands: Vec::new(),
        };
        for class in &policy.classes {
            let demand = this.demand(class.busy);
            this.demands.push(demand);
        }
        let members = policy
            .workers
            .iter()
            .enumerate()
            .filter(|(_, worker)| worker.dominion == dominion);
        for (configured, worker) in members {
            let index = this.add(Some(Arc::clone(worker)));
            this.local.insert(configured, index);
        }
        if this.workers.is_empty() {
            this.add(None);
        }
        this
    }

    fn demand(&mut self, threshold: BusyThreshold) -> Demand {
        let ratio = threshold.ratio.unwrap_or(1.0);
        if threshold.tokens.is_none() && threshold.fraction.is_none() {
            return Demand { bar: None, ratio };
        }
        // Classes that differ in their ratio alone share the bar.
        let threshold = BusyThreshold {
            ratio: None,
            ..threshold
        };
        let known = self.bars.iter().position(|bar| bar.threshold == threshold);
        let bar = known.unwrap_or_else(|| {
            self.bars.push(Bar {
                threshold,
                busy: Vec::new(),
            });
            self.bars.len() - 1
        });
        Demand {
            bar: Some(bar),
            ratio,
        }
    }

    fn add(&mut self, configured: Option<Arc<config::Worker>>) -> u32 {
        let index = self.workers.len() as u32;
        let mut groups = vec![ALL];
        for model in configured.iter().flat_map(|worker| &worker.models) {
            let next = self.groups.len() as u32;
            let group = *self.group_of_model.entry(model.clone()).or_insert(next);
            if group == next {
                self.groups.push(Group::default());
            }
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let worker = Worker {
            configured,
            prefill: 0,
            in_flight: 0,
            groups,
        };
        for &group in &worker.groups {
            self.groups[group as usize]
                .by_load
                .insert(worker.load(index));
        }
        // An idle worker is never busy: busy means strictly more than the threshold.
        for bar in &mut self.bars {
            bar.busy.push(false);
        }
        for group in &mut self.groups {
            group.busy.resize(self.bars.len(), 0);
        }
        self.workers.push(worker);
        index
    }

    /// How many there are; a dominion without any has one implicit worker.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// What the policy says of a worker, to be handed to the request that it gets.
    pub(super) fn assigned(&self, index: u32) -> Assigned {
        let worker = self.workers[index as usize].configured.clone();
        Assigned { index, worker }
    }

    /// The workers a request may go to; none if there is no such worker.
    ///
    /// `pinned` and `allowed` are indexes into the policy's workers, and may name workers of
    /// other dominions.
    pub(crate) fn eligible(
        &self,
        model: Option<&str>,
        pinned: Option<usize>,
        allowed: Option<&[usize]>,
    ) -> Option<Eligible> {
        if let Some(pinned) = pinned {
            let outside = allowed.is_some_and(|allowed| !allowed.contains(&pinned));
            let local = self.local.get(&pinned).filter(|_| !outside)?;
            return Some(Eligible::Pinned(*local));
        }
        let group = model
            .and_then(|model| self.group_of_model.get(model))
            .copied()
            .unwrap_or(ALL);
        let Some(allowed) = allowed else {
            return Some(Eligible::Group(group));
        };
        let local = allowed
            .iter()
            .filter_map(|configured| self.local.get(configured))
            .copied();
        let mut listed: Vec<u32> = local.filter(|&worker| self.serves(worker, group)).collect();
        listed.sort_unstable();
        listed.dedup();
        (!listed.is_empty()).then(|| Eligible::Listed(listed.into()))
    }

    fn serves(&self, worker: u32, group: u32) -> bool {
        self.workers[worker as usize].groups.contains(&group)
    }

    fn busy(&self, class: usize, worker: u32) -> bool {
        let bar = self.demands[class].bar;
        bar.is_some_and(|bar| self.bars[bar].busy[worker as usize])
    }

    /// True unless too many of the eligible workers are busy for the class.
    pub(crate) fn dispatchable(&self, class: usize, eligible: &Eligible) -> bool {
        let Demand {
            bar: Some(bar),
            ratio,
        } = self.demands[class]
        else {
            return true;
        };
        let is_busy = |worker: &u32| self.bars[bar].busy[*worker as usize];
        let (busy, all) = match eligible {
            Eligible::Pinned(worker) => return !is_busy(worker),
            Eligible::Group(group) => {
                let group = &self.groups[*group as usize];
                (group.busy[bar] as usize, group.by_load.len())
            }
            Eligible::Listed(workers) => (
                workers.iter().filter(|worker| is_busy(worker)).count(),
                workers.len(),
            ),
        };
        // The quotient, because it rounds to the very number the policy wrote: 55 of 100 is 0.55,
        // while 0.55 * 100 is more than 55.
        busy < all && (busy as f64 / all as f64) < ratio
    }

    /// The least loaded eligible worker that is not busy for the class.
    pub(crate) fn least_loaded(&self, class: usize, eligible: &Eligible) -> Option<u32> {
        match eligible {
            Eligible::Pinned(worker) => Some(*worker),
            Eligible::Group(group) => {
                let by_load = self.groups[*group as usize].by_load.iter();
                by_load
                    .map(|&(_, _, worker)| worker)
                    .find(|&worker| !self.busy(class, worker))
            }
            Eligible::Listed(workers) => {
                let idle = workers
                    .iter()
                    .copied()
                    .filter(|&worker| !self.busy(class, worker));
                idle.min_by_key(|&worker| self.workers[worker as usize].load(worker))
            }
        }
    }

    /// Gives a worker a request; its uncached tokens are prefill until its first byte.
    pub(crate) fn start(&mut self, worker: u32, uncached: u64) -> Flipped {
        self.change(worker, |worker| {
            worker.prefill = worker.prefill.saturating_add(uncached);
            worker.in_flight += 1;
        })
    }

    /// Takes the request's prefill off a worker.
    pub(crate) fn end_prefill(&mut self, worker: u32, uncached: u64) -> Flipped {
        self.change(worker, |worker| {
            worker.prefill = worker.prefill.saturating_sub(uncached)
        })
    }

    /// Takes a request off a worker, with what is left of its prefill.
    pub(crate) fn finish(&mut self, worker: u32, uncached: u64) -> Flipped {
        self.change(worker, |worker| {
            worker.in_flight = worker.in_flight.saturating_sub(1);
            // Also what saturated while it was summed up.
            let left = worker.prefill.saturating_sub(uncached);
            worker.prefill = if worker.in_flight == 0 { 0 } else { left };
        })
    }

    fn change(&mut self, index: u32, change: impl FnOnce(&mut Worker)) -> Flipped {
        let Self {
            workers,
            groups,
            bars,
            ..
        } = self;
        let worker = &mut workers[index as usize];
        let old = worker.load(index);
        change(worker);
        let new = worker.load(index);
        let mut flipped = Flipped {
            worker: index,
            any: false,
        };
        if old == new {
            return flipped;
        }
        for &group in &worker.groups {
            let by_load = &mut groups[group as usize].by_load;
            by_load.remove(&old);
            by_load.insert(new);
        }
        for (index_of_bar, bar) in bars.iter_mut().enumerate() {
            let busy = worker.exceeds(&bar.threshold);
            let before = std::mem::replace(&mut bar.busy[index as usize], busy);
            if before == busy {
                continue;
            }
            flipped.any = true;
            for &group in &worker.groups {
                let count = &mut groups[group as usize].busy[index_of_bar];
                *count = if busy {
                    *count + 1
                } else {
                    count.saturating_sub(1)
                };
            }
        }
        flipped
    }

    #[cfg(test)]
    pub(super) fn prefill(&self, worker: u32) -> u64 {
        self.workers[worker as usize].prefill
    }
}

/// Whether a change of load made a worker busy, or not busy any more, for some class.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Flipped {
    pub(crate) worker: u32,
    pub(crate) any: bool,
}

/// The worker that a request was given to.
#[derive(Clone, Debug)]
pub(crate) struct Assigned {
    pub(super) index: u32,
    pub(super) worker: Option<Arc<config::Worker>>,
}

/// A waiting request as the schedule sees it.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Key into the dominion's waiters.
    pub(crate) waiter: usize,
    pub(crate) eligible: Eligible,
}

impl Gate<Parked> for Workers {
    fn open(&self, class: usize, parked: &Parked) -> bool {
        self.dispatchable(class, &parked.eligible)
    }
}
