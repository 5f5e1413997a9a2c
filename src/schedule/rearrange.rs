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
        let class = |successor: &Successor| {
            let mut class = Class::new(successor.quantum, unit);
            class.deficit = successor
                .former
                .map_or(0, |former| self.classes[former].deficit);
            class
        };
        let new: Vec<Class> = ring.iter().map(class).collect();
        let successor = |former: usize| ring.iter().position(|it| it.former == Some(former));
        let length = self.classes.len();
        let from_cursor = (0..length).map(|offset| (self.cursor + offset) % length);
        // A class that is no more gives its turn to the next one that is.
        self.cursor = from_cursor.filter_map(successor).next().unwrap_or(0);
        self.burst = self.burst.and_then(successor);

        let old = std::mem::replace(&mut self.classes, new);
        self.ready = Indices::new(ring.len());
        self.backlogged = Indices::new(ring.len());
        // In the order of their turns, so that clients come in it again.
        let keys: Vec<Key> = old
            .iter()
            .flat_map(|class| class.keys(&self.spots))
            .collect();
        for key in keys {
            if let Some(entry) = self.entries.get_mut(key.index()) {
                place(entry);
                self.enqueue(key, gate);
            }
        }
        for (index, class) in self.classes.iter_mut().enumerate() {
            if class.is_empty() {
                class.deficit = class.deficit.min(0);
                if self.burst == Some(index) {
                    self.burst = None;
                }
            }
        }
    }
}
