//! The requests of one client in a tier of a lane.

use std::iter::Peekable;

use super::{
    Key,
    entries::Entries,
    heap::{self, Heap},
    list::{self, Link, Linked, List},
    order::Place,
};

/// A request and its place.
pub(super) type Standing = (Place, Key);

/// A line for the requests that arrive in order, and a heap for the others.
///
/// The first of the queue is the first of one of the two. So a request that is served in order of arrival
/// is queued in O(1), and any other in O(log n).
#[derive(Debug, Default)]
pub(super) struct Queue {
    line: List,
    heap: Heap,
    /// The first of both. Cached, because it is read more often than it changes.
    first: Option<Standing>,
}

impl Queue {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Standing> {
        self.first
    }

    /// Adds a request; true if it became the first.
    pub(super) fn push<T>(&mut self, place: Place, key: Key, entries: &mut Entries<T>) -> bool {
        let is_first = self.first.is_none_or(|(first, _)| place < first);
        if is_first {
            self.first = Some((place, key));
        }
        let last = self.line.last().map(Key::new);
        let in_order = last.is_none_or(|last| entries[last].rank.place() < place);
        if in_order {
            self.line.push(key.index(), entries);
        } else {
            *entries.link_mut(key.index()) = Link::APART;
            self.heap.push(place, key, &mut entries.positions);
        }
        is_first
    }

    /// Removes a request that is in this queue.
    pub(super) fn remove<T>(&mut self, key: Key, entries: &mut Entries<T>) {
        if entries.is_in_line(key) {
            self.line.remove(key.index(), entries);
        } else {
            self.heap.remove(key, &mut entries.positions);
        }
        if self.first.is_some_and(|(_, first)| first == key) {
            let in_line = self.line.first().map(|first| standing(first, entries));
            self.first = match (in_line, self.heap.first()) {
                (Some(line), Some(heap)) if heap.0 < line.0 => Some(heap),
                (line, heap) => line.or(heap),
            };
        }
    }

    pub(super) fn pop<T>(&mut self, entries: &mut Entries<T>) {
        if let Some((_, key)) = self.first {
            self.remove(key, entries);
        }
    }

    /// The requests in order, sorted lazily.
    pub(super) fn in_order<'a, T>(&'a self, entries: &'a Entries<T>) -> InOrder<'a, T> {
        InOrder {
            entries,
            line: self.line.iter(entries).peekable(),
            heap: self.heap.in_order().peekable(),
        }
    }

    /// First those of the line, in order, then the others in no order.
    pub(super) fn keys<T>(&self, entries: &Entries<T>) -> impl Iterator<Item = Key> {
        let line = self.line.iter(entries).map(Key::new);
        line.chain(self.heap.keys())
    }
}

fn standing<T>(index: usize, entries: &Entries<T>) -> Standing {
    let key = Key::new(index);
    (entries[key].rank.place(), key)
}

/// The requests of a queue, from first to last.
#[derive(Debug)]
pub(super) struct InOrder<'a, T> {
    entries: &'a Entries<T>,
    line: Peekable<list::Iter<'a, Entries<T>>>,
    heap: Peekable<heap::InOrder<'a>>,
}

impl<T> Iterator for InOrder<'_, T> {
    type Item = Standing;

    fn next(&mut self) -> Option<Standing> {
        let line = self.line.peek();
        let line = line.map(|&index| standing(index, self.entries));
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

    use super::{
        super::{ClientId, Entry, LaneId, Rank, Score, Snapshot, deterministic},
        *,
    };
    use crate::config::QueuePolicy;
    use proptest::prelude::*;

    fn entry(cost: u64, sequence: u64) -> Entry<()> {
        let score = Score::new(QueuePolicy::Wspt, Duration::ZERO, 0.0, cost);
        Entry {
            class: 0,
            lane: LaneId::Shared,
            client: ClientId::SHARED,
            rank: Rank::new(0, score, sequence),
            snapshot: Snapshot::new(cost, 0),
            payload: (),
        }
    }

    proptest! {
        #![proptest_config(deterministic(64))]

        /// Two queues share the entries, and keys are used again.
        #[test]
        fn the_first_is_the_least_whoever_left_before_from_anywhere(
            operations in prop::collection::vec((any::<bool>(), 0..8u8, 1..300u64), 0..1500),
        ) {
            let mut entries = Entries::new();
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
                    queue.remove(key, &mut entries);
                    entries.remove(key);
                } else {
                    // The requests of one queue arrive nearly in order.
                    let offset = if which { 100 * sequence } else { 0 };
                    let key = entries.insert(entry(number + offset, sequence));
                    let place = entries[key].rank.place();
                    model.insert(place, key);
                    let is_first = queue.push(place, key, &mut entries);
                    prop_assert_eq!(is_first, model.keys().next() == Some(&place));
                }
                for (queue, model) in &pairs {
                    let first = model.first_key_value().map(|(&place, &key)| (place, key));
                    prop_assert_eq!(queue.first(), first);
                }
            }
            for (queue, model) in &mut pairs {
                let all: Vec<_> = queue.in_order(&entries).collect();
                let expected: Vec<_> = model.iter().map(|(&place, &key)| (place, key)).collect();
                prop_assert_eq!(all, expected);
                while let Some(first) = queue.first() {
                    prop_assert_eq!(model.pop_first(), Some(first));
                    queue.pop(&mut entries);
                }
                prop_assert!(model.is_empty());
            }
        }
    }
}
