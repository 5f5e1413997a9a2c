//! Who has waited longest.

use crate::schedule::{Links, List};

/// The waiters that are queued, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Seniority {
    queued: List,
    links: Links,
}

impl Seniority {
    /// A waiter came that is not in the list.
    pub(super) fn push(&mut self, waiter: usize) {
        self.queued.push(waiter, &mut self.links);
    }

    /// A waiter that is in the list is queued no more.
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
