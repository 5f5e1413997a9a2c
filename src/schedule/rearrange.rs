//! Moving everything that waits into another ring of classes.

use super::{Entry, Gate, Key, Schedule};
use crate::config::FairUnit;

/// A class of the new ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor {
    /// Tokens credited in each round.
    pub(crate) quantum: u64,
    /// The index that the same class had in the old ring.
    pub(crate) former: Option<usize>,
}

impl<T> Schedule<T> {
    /// Replaces the ring. What waits keeps its place: `place` says the new class of each entry, and
    /// its rank and client if they change. Deficit, burst and cursor go with their classes; who takes
    /// turns within a lane begins level. O(n log n).
    pub(crate) fn rearrange(
        &mut self,
        ring: &[Successor],
        unit: FairUnit,
        mut place: impl FnMut(&mut Entry<T>),
        gate: &impl Gate<T>,
    ) {
        let next = Self::on(self.ring.succeeded_by(ring), unit);
        let former = std::mem::replace(self, next);
        // In the order of their turns, so that clients come in it again.
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
