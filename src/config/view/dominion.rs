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

    /// Its place among [all dominions](PolicyConfig::dominions), counted from 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// Where the policy defines it, such as `dominions[0]`.
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

    /// What its workers are: `remote` endpoints or `local` models.
    pub fn kind(self) -> &'static str {
        if self.get().local { "local" } else { "remote" }
    }

    /// Its slots; none: unlimited.
    pub fn max_concurrency(self) -> Option<usize> {
        self.get().max_concurrency
    }

    /// Requests that may wait in it, over all classes.
    pub fn max_queue(self) -> usize {
        self.get().max_queue
    }

    /// Those of them that may be of one client; none: all.
    pub fn max_queue_per_client(self) -> Option<usize> {
        self.get().max_queue_per_client
    }

    /// What becomes of a request that cannot start at once: `queue`, or `reject` where nobody waits.
    pub fn policy(self) -> &'static str {
        if self.get().reject { "reject" } else { "queue" }
    }

    /// Whether its limits hold; if not, what they would do is only counted, and nobody waits.
    pub fn enforce(self) -> bool {
        self.get().enforce
    }

    /// Whether the clients that wait take turns.
    pub fn fair_scheduling(self) -> bool {
        self.get().fair_scheduling
    }

    /// What the turns of clients are counted in: `requests` or `tokens`.
    pub fn fair_unit(self) -> &'static str {
        self.get().fair_unit.as_str()
    }

    /// What its local models take together at most, in gigabytes; none: it is not checked.
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
