//! Dominions.

use std::fmt;

use super::WorkerView;
use crate::config::{Dominion, PolicyConfig, path::Path};

/// A pool of concurrency slots.
#[derive(Clone, Copy)]
pub struct DominionView<'a> {
    config: &'a PolicyConfig,
    index: usize,
}

impl<'a> DominionView<'a> {
    pub(super) fn new(config: &'a PolicyConfig, index: usize) -> Self {
        Self { config, index }
    }

    fn get(self) -> &'a Dominion {
        &self.config.dominions[self.index]
    }

    /// Its index among [all dominions](PolicyConfig::dominions).
    pub fn index(self) -> usize {
        self.index
    }

    /// Its path in the policy, such as `dominions[0]`.
    pub fn path(self) -> String {
        Path::Root
            .key("dominions")
            .index(self.index)
            .steps()
            .to_string()
    }

    /// Its id.
    pub fn id(self) -> &'a str {
        &self.get().id
    }

    /// The kind of its workers: `remote` for endpoints, `local` for models on this machine.
    pub fn kind(self) -> &'static str {
        if self.get().local { "local" } else { "remote" }
    }

    /// The number of its slots; `None` means unlimited.
    pub fn max_concurrency(self) -> Option<usize> {
        self.get().max_concurrency
    }

    /// How many requests may wait in it, over all classes.
    pub fn max_queue(self) -> usize {
        self.get().max_queue
    }

    /// How many of the waiting requests may belong to one client; `None` means no limit.
    pub fn max_queue_per_client(self) -> Option<usize> {
        self.get().max_queue_per_client
    }

    /// What happens to a request that cannot start at once: `queue` to wait, `reject` to be turned away.
    pub fn policy(self) -> &'static str {
        if self.get().reject { "reject" } else { "queue" }
    }

    /// Whether its limits and its queue are enforced. If not, what they would do is only counted: no request
    /// waits or is turned away.
    pub fn enforce(self) -> bool {
        self.get().enforce
    }

    /// Whether waiting clients take turns.
    pub fn fair_scheduling(self) -> bool {
        self.get().fair_scheduling
    }

    /// The unit in which clients take turns: `requests` or `tokens`.
    pub fn fair_unit(self) -> &'static str {
        self.get().fair_unit.as_str()
    }

    /// The memory budget of its local models, in gigabytes; `None` means that it is not checked.
    pub fn vram_gb(self) -> Option<f64> {
        self.get().vram_gb
    }

    /// Its workers, in the order of [all workers](PolicyConfig::workers).
    pub fn workers(self) -> impl Iterator<Item = WorkerView<'a>> {
        let all = self.config.workers();
        all.filter(move |worker| worker.get().dominion == Some(self.index))
    }
}

impl fmt::Debug for DominionView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
