//! Which workers a request may go to, whether it may go now, and to which of them.

use std::sync::Arc;

use super::{ALL, Demand, Worker, Workers};
use crate::pool::eligible::{Among, Eligible, Wanted};

impl Workers {
    /// The ids of the workers that a request may go to; the implicit worker has none.
    pub(in crate::pool) fn ids(&self, wanted: &Wanted<'_>) -> Vec<Arc<str>> {
        let eligible = self.eligible(wanted);
        let open = eligible.iter().flat_map(|eligible| self.open(eligible));
        let id = |worker: u32| Some(&self.workers[worker as usize].configured.as_ref()?.id);
        open.filter_map(id).cloned().collect()
    }

    /// The workers that a request may go to; `None` if none of them would take it now even if idle.
    pub(in crate::pool) fn eligible(&self, wanted: &Wanted<'_>) -> Option<Eligible> {
        self.resolve(wanted)
            .filter(|eligible| self.any_open(eligible))
    }

    /// The worker for a request that runs on the slot of another one. That is `other`, the slot's own worker,
    /// if it is among those that the request asks for; otherwise, of those that take requests, the one it
    /// prefers, or the least loaded. `None` if there is none.
    pub(in crate::pool) fn beside(&self, other: Option<u32>, wanted: &Wanted<'_>) -> Option<u32> {
        let eligible = self.resolve(wanted)?;
        if let Some(other) = other.filter(|other| self.members(&eligible).contains(other)) {
            return Some(other);
        }
        let preferred = self
            .open(&eligible)
            .find(|&worker| eligible.preferred() == Some(worker));
        preferred.or_else(|| self.least_of(self.open(&eligible)))
    }

    /// The workers that a request asks for, whether or not they take requests.
    fn resolve(&self, wanted: &Wanted<'_>) -> Option<Eligible> {
        let (among, listed) = if let Some(id) = wanted.worker {
            let allowed = wanted.allowed_workers;
            let listed = allowed.is_none_or(|allowed| allowed.contains(&id));
            (Among::Pinned(self.index(id).filter(|_| listed)?), None)
        } else {
            let model = wanted.model;
            let group = model.and_then(|model| self.group_of_model.get(model));
            let group = group.copied().unwrap_or(ALL);
            let allowed = wanted.allowed_workers;
            let listed = allowed.map(|allowed| self.listed(allowed.iter().copied(), group));
            (Among::Group(group), listed)
        };
        let preferred = wanted.preferred.and_then(|id| self.index(id));
        let preferred = preferred.filter(|worker| match (among, &listed) {
            (Among::Pinned(only), _) => only == *worker,
            (Among::Group(_), Some(listed)) => listed.contains(worker),
            (Among::Group(group), None) => self.serves(*worker, group),
        });
        Some(Eligible::new(among, listed, wanted.tolerations, preferred))
    }

    /// Has a request that waits for this model go where a new one would go: to the workers that serve the
    /// model by now, and are on its allow-list if it has one.
    pub(in crate::pool) fn reconsider(&self, eligible: &mut Eligible, model: Option<&str>) {
        self.regroup(eligible, model);
        let Among::Group(group) = eligible.among else {
            return;
        };
        if let Some(listed) = eligible.list_mut() {
            // Of the names beyond what is kept of the list, the workers already found stay on it.
            let known = listed.now.iter().copied();
            let known = known.filter(|&worker| self.serves(worker, group));
            let mut now: Vec<u32> = known.collect();
            now.extend(self.listed(listed.names(), group));
            now.sort_unstable();
            now.dedup();
            listed.now = now;
        }
        eligible.retain_preferred(|worker| self.serves(worker, group));
    }

    /// The same, where this worker is all that is new. True if it is the first to serve the model, which
    /// rules out all others.
    pub(in crate::pool) fn welcome(
        &self,
        worker: u32,
        eligible: &mut Eligible,
        model: Option<&str>,
    ) -> bool {
        if self.regroup(eligible, model) {
            self.reconsider(eligible, model);
            return true;
        }
        let configured = &self.workers[worker as usize].configured;
        if let (Among::Group(group), Some(configured)) = (eligible.among, configured) {
            let serves = self.serves(worker, group);
            if let Some(listed) = eligible.list_mut() {
                let is_named = listed.names().any(|name| *name == *configured.id);
                let is_new = !listed.now.contains(&worker);
                if is_new && is_named && serves {
                    listed.now.push(worker);
                } else if !serves {
                    // It was there before, and comes back with other models.
                    listed.now.retain(|&other| other != worker);
                }
            }
            if !serves && eligible.preferred() == Some(worker) {
                eligible.retain_preferred(|_| false);
            }
        }
        false
    }

    /// Moves a request for a model that no worker served to the group of that model; true if it has one by
    /// now.
    fn regroup(&self, eligible: &mut Eligible, model: Option<&str>) -> bool {
        if eligible.among != Among::Group(ALL) {
            return false;
        }
        let served = model.and_then(|model| self.group_of_model.get(model));
        if let Some(&group) = served {
            eligible.among = Among::Group(group);
        }
        served.is_some()
    }

    /// The workers on an allow-list that are in a group.
    fn listed<'a>(&self, allowed: impl Iterator<Item = &'a str>, group: u32) -> Vec<u32> {
        let known = allowed.filter_map(|id| self.index(id));
        let mut listed: Vec<u32> = known.filter(|&worker| self.serves(worker, group)).collect();
        listed.sort_unstable();
        listed.dedup();
        listed
    }

    pub(in crate::pool) fn serves(&self, worker: u32, group: u32) -> bool {
        self.workers[worker as usize].groups.contains(&group)
    }

    /// True if some eligible worker takes requests, busy or not.
    fn any_open(&self, eligible: &Eligible) -> bool {
        match eligible.plain_group() {
            Some(group) => self.groups[group as usize].open() > 0,
            None => self.open(eligible).next().is_some(),
        }
    }

    /// False if all the workers that a request could ever go to were removed.
    pub(in crate::pool) fn any_left(&self, eligible: &Eligible) -> bool {
        let left = |&worker: &u32| !self.workers[worker as usize].condition.removed;
        self.members(eligible).iter().any(left)
    }

    fn members<'a>(&'a self, eligible: &'a Eligible) -> &'a [u32] {
        match (&eligible.among, eligible.listed()) {
            (Among::Pinned(worker), _) => std::slice::from_ref(worker),
            (Among::Group(_), Some(listed)) => listed,
            (Among::Group(group), None) => self.groups[*group as usize].members(),
        }
    }

    /// The eligible workers that take requests, one by one: for what a group keeps no count of.
    pub(super) fn open<'a>(&'a self, eligible: &'a Eligible) -> impl Iterator<Item = u32> + 'a {
        let open = |worker: u32| {
            self.workers[worker as usize]
                .condition
                .open_to(eligible.tolerations())
        };
        self.members(eligible)
            .iter()
            .copied()
            .filter(move |&worker| open(worker))
    }

    pub(super) fn busy(&self, class: usize, worker: u32) -> bool {
        let bar = self.demands[class].bar;
        bar.is_some_and(|bar| self.bars[bar].busy[worker as usize])
    }

    /// True if some eligible worker takes requests, and not too many of those that do are busy for the class.
    /// Always true if not enforced.
    pub(in crate::pool) fn dispatchable(&self, class: usize, eligible: &Eligible) -> bool {
        if !self.enforced {
            return true;
        }
        let Demand { bar, ratio } = self.demands[class];
        let Some(bar) = bar else {
            return self.any_open(eligible);
        };
        let (busy, all) = match eligible.plain_group() {
            Some(group) => {
                let group = &self.groups[group as usize];
                (group.busy(bar), group.open())
            }
            None => self.open(eligible).fold((0, 0), |(busy, all), worker| {
                (
                    busy + usize::from(self.bars[bar].busy[worker as usize]),
                    all + 1,
                )
            }),
        };
        // Compares the quotient, as it rounds to exactly the number that the policy says: 55 / 100 is 0.55,
        // while 0.55 * 100 is more than 55.
        busy < all && (busy as f64 / all as f64) < ratio
    }

    /// The worker for a request of the class, if it is dispatchable.
    pub(in crate::pool) fn choose_dispatchable(
        &self,
        class: usize,
        eligible: &Eligible,
    ) -> Option<u32> {
        // Without a bar no worker is busy: the request is dispatchable if there is a worker to choose.
        let counted = self.demands[class].bar.is_some();
        let dispatchable = !counted || self.dispatchable(class, eligible);
        dispatchable.then(|| self.choose(class, eligible)).flatten()
    }

    /// The worker for a request that does not wait for one: if all are busy, the least loaded.
    pub(in crate::pool) fn choose_regardless(
        &mut self,
        class: usize,
        eligible: Option<&Eligible>,
    ) -> u32 {
        let idle = eligible.and_then(|eligible| self.choose(class, eligible));
        let chosen = idle.or_else(|| self.least_of(self.open(eligible?)));
        chosen.unwrap_or_else(|| self.nowhere())
    }

    /// The placeholder for the worker of requests that no worker may serve.
    fn nowhere(&mut self) -> u32 {
        let known = self.workers.iter().position(Worker::is_nowhere);
        known.map_or_else(|| self.place(None), |index| index as u32)
    }

    /// True if a request of the class that may go to any worker is dispatchable.
    pub(in crate::pool) fn open_to(&self, class: usize) -> bool {
        let any = Eligible::new(Among::Group(ALL), None, &[], None);
        self.dispatchable(class, &any)
    }

    /// The worker for a request, of those that are eligible, take requests and are not busy for the class:
    /// the one it prefers, or the least loaded.
    pub(in crate::pool) fn choose(&self, class: usize, eligible: &Eligible) -> Option<u32> {
        let preferred = eligible.preferred().filter(|&worker| {
            let condition = &self.workers[worker as usize].condition;
            condition.open_to(eligible.tolerations()) && !self.busy(class, worker)
        });
        preferred.or_else(|| self.least_loaded(class, eligible))
    }

    fn least_loaded(&self, class: usize, eligible: &Eligible) -> Option<u32> {
        match eligible.plain_group() {
            Some(group) => {
                let group = &self.groups[group as usize];
                group.least_loaded(|worker| !self.busy(class, worker))
            }
            None => {
                let idle = self
                    .open(eligible)
                    .filter(|&worker| !self.busy(class, worker));
                self.least_of(idle)
            }
        }
    }

    fn least_of(&self, workers: impl Iterator<Item = u32>) -> Option<u32> {
        workers.min_by_key(|&worker| self.workers[worker as usize].load(worker))
    }

    /// True if the profile in force leaves out all the workers that a request could go to.
    pub(in crate::pool) fn all_unselected(&self, eligible: &Eligible) -> bool {
        self.members(eligible).iter().all(|&worker| {
            let condition = &self.workers[worker as usize].condition;
            condition.unselected || condition.removed
        })
    }

    /// Whether what is kept up to date gives the same answers for a class as asking each worker anew.
    #[cfg(test)]
    pub(in crate::pool) fn agree(&self, class: usize, eligible: &Eligible) -> bool {
        let Demand { bar, ratio } = self.demands[class];
        let open: Vec<u32> = self.open(eligible).collect();
        let busy = |&worker: &u32| {
            bar.is_some_and(|bar| self.workers[worker as usize].exceeds(&self.bars[bar].threshold))
        };
        let all = open.len();
        let (busy, idle): (Vec<u32>, Vec<u32>) = open.into_iter().partition(busy);
        let dispatchable =
            !idle.is_empty() && (bar.is_none() || (busy.len() as f64 / all as f64) < ratio);
        let least = idle
            .into_iter()
            .min_by_key(|&worker| self.workers[worker as usize].load(worker));
        self.dispatchable(class, eligible) == dispatchable
            && self.least_loaded(class, eligible) == least
    }
}
