//! Indices of workers and groups, which are reused once nothing refers to them.
//!
//! Running requests know their worker by its index, and waiting ones may name it, so the index stays the
//! worker's own after the worker is removed: for those requests, and in case it comes back. With workers
//! under ever new names there would be ever more indices. So once many workers are gone, the indices of those
//! that have nothing left and that no waiting request names become vacant.

use std::collections::HashSet;

use super::{ALL, Group, Worker, Workers};
use crate::config;

/// How many workers may be gone, besides twice as many as there are, before any is forgotten: where a few
/// come and go, each keeps its index for good.
const GONE: usize = 16;

impl Workers {
    /// The index for a worker that is added: its former one, if it was there before and was of the same kind
    /// (local or remote). It takes requests again.
    pub(super) fn place(&mut self, comes: Option<&config::Worker>) -> u32 {
        let known = comes.and_then(|comes| Some((comes, self.gone.remove(&comes.id)?)));
        if let Some((comes, index)) = known {
            let known = &mut self.workers[index as usize];
            // A request on a local model can be told that the model is unloaded; one on an endpoint cannot.
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

    /// True once so many workers are gone that it is worth looking for vacant indices.
    pub(in crate::pool) fn is_crowded(&self) -> bool {
        let here = self.by_id.len();
        let gone = self.workers.len() - here - self.vacant.len();
        gone > 2 * here + GONE
    }

    /// Vacates the indices of workers that are gone, have nothing left, and are not `named` by a waiting
    /// request.
    pub(in crate::pool) fn vacate(&mut self, named: &HashSet<u32>) {
        for (index, worker) in (0..).zip(&self.workers) {
            // As long as a request has prefill to take off the worker, this is above 0.
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
            // Workers that are gone may still be in it, and need not serve the new model if they come back.
            for worker in &mut self.workers {
                worker.groups.retain(|&other| other != index);
            }
            self.groups[index as usize] = group;
            return index;
        }
        self.groups.push(group);
        (self.groups.len() - 1) as u32
    }

    /// Forgets the models that no worker serves any more. Requests that wait for one must be refused before
    /// another worker is added, which may reuse the group.
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

    /// The number of indices of workers and of groups.
    #[cfg(test)]
    pub(in crate::pool) fn indices(&self) -> (usize, usize) {
        (self.workers.len(), self.groups.len())
    }
}
