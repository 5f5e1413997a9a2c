//! Moving everything that waits into another ring of classes.

use super::{Entry, Gate, Key, Schedule, class::Class, indices::Indices};
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
        let former = std::mem::take(&mut self.classes);
        self.classes = ring.iter().map(|_| Class::new(unit)).collect();
        self.backlogged = Indices::new(ring.len());
        self.ring = self.ring.succeeded_by(ring);
        // In the order of their turns, so that clients come in it again.
        let keys: Vec<Key> = former
            .iter()
            .flat_map(|class| class.keys(&self.entries))
            .collect();
        for key in keys {
            if let Some(entry) = self.entries.get_mut(key) {
                place(entry);
                self.enqueue(key, gate);
            }
        }
        (0..ring.len()).for_each(|class| self.settle(class));
    }
}
