//! Moves all waiting requests into another ring of classes.

use super::{Entry, Gate, Key, Schedule};
use crate::config::FairUnit;

/// A class of the new ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor {
    /// Tokens credited in each round.
    pub(crate) quantum: u64,
    /// The index of the same class in the old ring; `None` for a new class.
    pub(crate) former: Option<usize>,
}

impl<T> Schedule<T> {
    /// Replaces the ring. Waiting requests keep their place: `place` sets the new class of each entry, and
    /// its rank and client if they change. Deficit, burst and cursor move with their classes; the clients
    /// that take turns in a lane start level. O(n log n).
    pub(crate) fn rearrange(
        &mut self,
        ring: &[Successor],
        unit: FairUnit,
        mut place: impl FnMut(&mut Entry<T>),
        gate: &impl Gate<T>,
    ) {
        let next = Self::on(self.ring.succeeded_by(ring), unit);
        let former = std::mem::replace(self, next);
        // In the order of their turns, so that the clients keep that order.
        let keys: Vec<Key> = former
            .classes
            .iter()
            .flat_map(|class| class.keys(&former.entries))
            .collect();
        self.entries = former.entries;
        for key in keys {
            if let Some(entry) = self.entries.get_mut(key) {
                place(entry);
                self.enqueue(key, gate);
            }
        }
        (0..ring.len()).for_each(|class| self.settle(class));
    }
}
