//! Who has waited longest, and who has come last.

use crate::schedule::{Links, List};

/// The queued waiters, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Seniority {
    queued: List,
    links: Links,
}

impl Seniority {
    /// Adds a waiter, which must not be in the list.
    pub(super) fn push(&mut self, waiter: usize) {
        self.queued.push(waiter, &mut self.links);
    }

    /// Removes a waiter, which must be in the list.
    pub(super) fn remove(&mut self, waiter: usize) {
        self.queued.remove(waiter, &mut self.links);
    }

    pub(super) fn oldest(&self) -> Option<usize> {
        self.queued.first()
    }

    pub(super) fn newest(&self) -> Option<usize> {
        self.queued.last()
    }
}
