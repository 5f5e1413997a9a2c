//! Indices of workers and groups, which are used again once nothing refers to them.
//!
//! A worker's index is told to the requests that it has, and kept by those that wait for it, so it stays
//! its own after the worker was removed: for those requests, and for when it comes back. Of workers that
//! come under ever new names there would be ever more. So once many are gone, those indices become
//! vacant whose workers have nothing left and are named by nobody who waits.

use std::collections::HashSet;

use super::{ALL, Group, Worker, Workers};
use crate::config;

/// As many may be gone without being looked through, besides twice those that are there: where a few
/// come and go, all have their own places for ever.
const GONE: usize = 16;

impl Workers {
    /// The index of one that comes: its own, if it was there before, and of the same kind. It takes
    /// requests again.
    pub(super) fn place(&mut self, comes: Option<&config::Worker>) -> u32 {
        let known = comes.and_then(|comes| Some((comes, self.gone.remove(&comes.id)?)));
        if let Some((comes, index)) = known {
            let known = &mut self.workers[index as usize];
            // Who runs on the one can be told that it is unloaded, and who runs on the other cannot.
            let is_local = |worker: &config::Worker| worker.endpoint.is_none();
            if known.configured.as_deref().map(is_local) == Some(is_local(comes)) {
                known.condition = super::Condition::default();
                return index;
            }
        }
        let idle = Worker::idle(None, Vec::new());
        if let Some(index) = self.vacant.pop_first() {
            self.workers[index as usize] = idle;
            for bar in &mut self.bars {
                bar.busy[index as usize] = false;
            }
            self.touched.rename(index);
            return index;
        }
        self.workers.push(idle);
        for bar in &mut self.bars {
            bar.busy.push(false);
        }
        (self.workers.len() - 1) as u32
    }

    /// True once so many are gone that it is worth looking through them.
    pub(in crate::pool) fn is_crowded(&self) -> bool {
        let here = self.by_id.len();
        let gone = self.workers.len() - here - self.vacant.len();
        gone > 2 * here + GONE
    }

    /// Makes the indices vacant of those that are gone, have nothing left, and are not `named` by
    /// anybody who waits.
    pub(in crate::pool) fn vacate(&mut self, named: &HashSet<u32>) {
        for (index, worker) in (0..).zip(&self.workers) {
            // Who still has to take prefill off one has it above 0 until then.
            let idle = worker.in_flight == 0 && worker.prefill == 0;
            let gone = worker.condition.removed && worker.configured.is_some();
            if gone && idle && !named.contains(&index) {
                self.vacant.insert(index);
            }
        }
        let vacant = &self.vacant;
        self.gone.retain(|_, index| !vacant.contains(index));
    }

    /// The groups of a worker that serves these models.
    pub(super) fn groups_of(&mut self, models: &[String]) -> Vec<u32> {
        let mut groups = vec![ALL];
        for model in models {
            let known = self.group_of_model.get(model).copied();
            let group = known.unwrap_or_else(|| {
                let group = self.new_group();
                self.group_of_model.insert(model.clone(), group);
                group
            });
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    fn new_group(&mut self) -> u32 {
        let group = Group::new(self.bars.len());
        if let Some(index) = self.unserved.pop() {
            // Those that served the model before may come back, and not serve this one.
            for worker in &mut self.workers {
                worker.groups.retain(|&other| other != index);
            }
            self.groups[index as usize] = group;
            return index;
        }
        self.groups.push(group);
        (self.groups.len() - 1) as u32
    }

    /// Forgets the models that nobody serves any more. Those who wait for one are to be refused before
    /// another worker comes.
    pub(super) fn forget_unserved(&mut self) {
        let Self {
            groups,
            group_of_model,
            unserved,
            ..
        } = self;
        group_of_model.retain(|_, group| {
            let served = !groups[*group as usize].members().is_empty();
            unserved.extend((!served).then_some(*group));
            served
        });
    }

    /// How many indices there are, of workers and of groups.
    #[cfg(test)]
    pub(in crate::pool) fn indices(&self) -> (usize, usize) {
        (self.workers.len(), self.groups.len())
    }
}
