//! Switching to the workers of another policy.

use std::{collections::HashSet, sync::Arc};

use super::{ALL, Group, Worker, Workers};
use crate::config::{self, PolicyConfig};

impl Workers {
    /// Switches to another policy, under which the dominion has the `wanted` workers. A worker whose id is
    /// already known keeps what it has in hand, and its conditions; those that are not wanted are removed, as
    /// by [`remove`](Self::remove). A model that is still served keeps its group, so that waiting requests
    /// stay eligible. If `selected` is given, local models that are not in it take no requests.
    pub(in crate::pool) fn reload(
        &mut self,
        policy: &PolicyConfig,
        wanted: &[Arc<config::Worker>],
        selected: Option<&HashSet<&str>>,
    ) {
        let known: HashSet<&str> = wanted.iter().map(|worker| &*worker.id).collect();
        let gone = |id: &&Arc<str>| !known.contains(&***id);
        let gone: Vec<Arc<str>> = self.by_id.keys().filter(gone).cloned().collect();
        for id in gone {
            if let Some(index) = self.by_id.remove(&id) {
                self.workers[index as usize].condition.removed = true;
                self.gone.insert(id, index);
            }
        }
        for worker in wanted {
            let groups = self.groups_of(&worker.models);
            let index = self.index(&worker.id).unwrap_or_else(|| {
                let index = self.place(Some(worker));
                self.by_id.insert(Arc::clone(&worker.id), index);
                index
            });
            let known = &mut self.workers[index as usize];
            known.configured = Some(Arc::clone(worker));
            known.groups = groups;
            // Before a request is assigned to it: the profile in force applies to this policy, too.
            known.condition.unselected = worker.endpoint.is_none()
                && selected.is_some_and(|models| !models.contains(&*worker.id));
        }
        let implicit = |worker: &&mut Worker| worker.configured.is_none() && !worker.is_nowhere();
        match self.workers.iter_mut().find(implicit) {
            Some(implicit) => implicit.condition.removed = !wanted.is_empty(),
            None if wanted.is_empty() => self.workers.push(Worker::idle(None, vec![ALL])),
            None => {}
        }
        self.set_demands(policy);
        self.recount();
    }

    /// Recomputes which workers are busy, and all groups with their counts.
    fn recount(&mut self) {
        for bar in &mut self.bars {
            let busy = |worker: &Worker| worker.exceeds(&bar.threshold);
            bar.busy = self.workers.iter().map(busy).collect();
        }
        let Self {
            workers,
            groups,
            bars,
            ..
        } = self;
        for group in groups.iter_mut() {
            *group = Group::new(bars.len());
        }
        for (index, worker) in (0..).zip(workers.iter()) {
            if worker.condition.removed {
                continue;
            }
            let open = worker.condition.open_to_all();
            for &group in &worker.groups {
                let group = &mut groups[group as usize];
                group.add(index, |member| {
                    let worker = &workers[member as usize];
                    (worker.load(member), worker.condition.open_to_all())
                });
                if !open {
                    group.set_open(worker.load(index), false);
                    continue;
                }
                for (bar, _) in (0..)
                    .zip(bars.iter())
                    .filter(|(_, bar)| bar.busy[index as usize])
                {
                    group.count_busy(bar, true);
                }
            }
        }
        self.forget_unserved();
    }
}
