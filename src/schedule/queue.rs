//! The requests of one client in a tier of a lane, of which the first goes next.

use std::iter::Peekable;

use super::{
    Key,
    heap::{self, Heap, Positions},
    list::{self, Links, List},
    order::Place,
};

/// A request and its place.
pub(super) type Standing = (Place, Key);

/// A line, where those who come in their order stand, and a heap for the others.
///
/// The first of all is the first of one of them. So it takes O(1) to queue those who are served in the
/// order in which they came, and O(log n) to queue anyone else.
#[derive(Debug, Default)]
pub(super) struct Queue {
    line: List,
    heap: Heap,
    /// Of both. Kept, because it is asked for more often than it changes.
    first: Option<Standing>,
}

/// Where each request stands in its queue.
///
/// Apart from the requests, since those that move in a queue are not looked at otherwise.
#[derive(Debug, Default)]
pub(super) struct Spots {
    line: Line,
    heap: Positions,
}

/// Those who stand in a line, by key.
#[derive(Debug, Default)]
struct Line {
    links: Links,
    places: Vec<Place>,
}

impl Line {
    fn standing(&self, key: usize) -> Standing {
        (self.places[key], Key::new(key))
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn first(&self) -> Option<Standing> {
        self.first
    }

    /// Adds a request; true if it became the first.
    pub(super) fn push(&mut self, place: Place, key: Key, spots: &mut Spots) -> bool {
        let is_first = self.first.is_none_or(|(first, _)| place < first);
        if is_first {
            self.first = Some((place, key));
        }
        let Spots { line, heap } = spots;
        if self
            .line
            .last()
            .is_none_or(|last| line.places[last] < place)
        {
            heap.set_outside(key);
            self.line.push(key.index(), &mut line.links);
            if line.places.len() <= key.index() {
                line.places.resize(key.index() + 1, place);
            }
            line.places[key.index()] = place;
        } else {
            self.heap.push(place, key, heap);
        }
        is_first
    }

    /// Takes a request out that waits in this queue.
    pub(super) fn remove(&mut self, key: Key, spots: &mut Spots) {
        let Spots { line, heap } = spots;
        if heap.is_outside(key) {
            self.line.remove(key.index(), &mut line.links);
        } else {
            self.heap.remove(key, heap);
        }
        if self.first.is_some_and(|(_, first)| first == key) {
            let in_line = self.line.first().map(|first| line.standing(first));
            self.first = match (in_line, self.heap.first()) {
                (Some(line), Some(heap)) if heap.0 < line.0 => Some(heap),
                (line, heap) => line.or(heap),
            };
        }
    }

    pub(super) fn pop(&mut self, spots: &mut Spots) {
        if let Some((_, key)) = self.first {
            self.remove(key, spots);
        }
    }

    /// The requests in their order, which is worked out as they are asked for.
    pub(super) fn in_order<'a>(&'a self, spots: &'a Spots) -> InOrder<'a> {
        InOrder {
            spots,
            line: self.line.iter(&spots.line.links).peekable(),
            heap: self.heap.in_order().peekable(),
        }
    }

    /// In no order, but that of those who stand in the line.
    pub(super) fn keys(&self, spots: &Spots) -> impl Iterator<Item = Key> {
        let line = self.line.iter(&spots.line.links).map(Key::new);
        line.chain(self.heap.keys())
    }
}

/// The requests of a queue, the first ones first.
#[derive(Debug)]
pub(super) struct InOrder<'a> {
    spots: &'a Spots,
    line: Peekable<list::Iter<'a>>,
    heap: Peekable<heap::InOrder<'a>>,
}

impl Iterator for InOrder<'_> {
    type Item = Standing;

    fn next(&mut self) -> Option<Standing> {
        let line = self.line.peek().map(|&key| self.spots.line.standing(key));
        match (line, self.heap.peek()) {
            (Some(line), Some(heap)) if heap.0 < line.0 => self.heap.next(),
            (Some(line), _) => {
                self.line.next();
                Some(line)
            }
            (None, _) => self.heap.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use proptest::prelude::*;
    use slab::Slab;

    use super::{
        super::{Rank, Score, deterministic},
        *,
    };
    use crate::config::QueuePolicy;

    fn place(cost: u64, sequence: u64) -> Place {
        let score = Score::new(QueuePolicy::Wspt, Duration::ZERO, 0.0, cost);
        Rank::new(0, score, sequence).place()
    }

    proptest! {
        #![proptest_config(deterministic(64))]

        /// Two queues share the spots, and keys are used again.
        #[test]
        fn the_first_is_the_least_whoever_left_before_from_anywhere(
            operations in prop::collection::vec((any::<bool>(), 0..8u8, 1..300u64), 0..1500),
        ) {
            let mut keys = Slab::new();
            let mut spots = Spots::default();
            let mut pairs = [(); 2].map(|()| (Queue::default(), BTreeMap::new()));
            for (sequence, (which, what, number)) in (0..).zip(operations) {
                let (queue, model) = &mut pairs[usize::from(which)];
                let leaves = match what {
                    0 => model.keys().next().copied(),
                    1..3 => model.keys().nth(number as usize % model.len().max(1)).copied(),
                    _ => None,
                };
                if let Some(place) = leaves {
                    let key: Key = model.remove(&place).unwrap();
                    keys.remove(key.index());
                    queue.remove(key, &mut spots);
                } else {
                    // Those of one queue come nearly in their order.
                    let offset = if which { 100 * sequence } else { 0 };
                    let place = place(number + offset, sequence);
                    let key = Key::new(keys.insert(()));
                    model.insert(place, key);
                    let is_first = queue.push(place, key, &mut spots);
                    prop_assert_eq!(is_first, model.keys().next() == Some(&place));
                }
                for (queue, model) in &pairs {
                    let first = model.first_key_value().map(|(&place, &key)| (place, key));
                    prop_assert_eq!(queue.first(), first);
                }
            }
            for (queue, model) in &mut pairs {
                let all: Vec<_> = queue.in_order(&spots).collect();
                let expected: Vec<_> = model.iter().map(|(&place, &key)| (place, key)).collect();
                prop_assert_eq!(all, expected);
                while let Some(first) = queue.first() {
                    prop_assert_eq!(model.pop_first(), Some(first));
                    queue.pop(&mut spots);
                }
                prop_assert!(model.is_empty());
            }
        }
    }
}
