//! The requests of one client in a tier of a lane, of which the first goes next.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Key, order::Place};

/// A heap with eight children to a node: a third of the levels of one with two, and the children side
/// by side in memory. It notes where its requests stand, so that each leaves from anywhere in O(log n).
#[derive(Debug, Default)]
pub(super) struct Heap {
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    place: Place,
    key: Key,
}

/// More compare more, fewer miss the cache more often.
const CHILDREN: usize = 8;

/// Where each request stands in the heap it waits in.
///
/// Apart from the requests, since those that move in a heap are not looked at otherwise.
#[derive(Debug, Default)]
pub(super) struct Positions {
    by_key: Vec<u32>,
}

impl Positions {
    fn reserve(&mut self, key: Key) {
        let needed = key.index() + 1;
        if self.by_key.len() < needed {
            self.by_key.resize(needed, 0);
        }
    }

    fn set(&mut self, key: Key, position: usize) {
        self.by_key[key.index()] = position as u32;
    }
}

/// The requests of a heap, the first ones first.
#[derive(Debug)]
pub(super) struct InOrder<'a> {
    heap: &'a Heap,
    /// Nodes whose parent was given already, the next one on top.
    next: BinaryHeap<(Reverse<Place>, usize)>,
}

impl Iterator for InOrder<'_> {
    type Item = (Place, Key);

    fn next(&mut self) -> Option<Self::Item> {
        let (_, position) = self.next.pop()?;
        let start = CHILDREN * position + 1;
        let children = (start..start + CHILDREN).filter_map(|child| self.heap.offered(child));
        self.next.extend(children);
        let Node { place, key } = self.heap.nodes[position];
        Some((place, key))
    }
}

impl Heap {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// In no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.nodes.iter().map(|node| node.key)
    }

    /// The requests in their order, which is worked out as they are asked for.
    pub(super) fn in_order(&self) -> InOrder<'_> {
        let mut next = BinaryHeap::new();
        next.extend(self.offered(0));
        InOrder { heap: self, next }
    }

    fn offered(&self, position: usize) -> Option<(Reverse<Place>, usize)> {
        let node = self.nodes.get(position)?;
        Some((Reverse(node.place), position))
    }

    pub(super) fn first(&self) -> Option<(Place, Key)> {
        self.nodes.first().map(|node| (node.place, node.key))
    }

    /// Adds a request; true if it became the first.
    pub(super) fn push(&mut self, place: Place, key: Key, positions: &mut Positions) -> bool {
        positions.reserve(key);
        let node = Node { place, key };
        self.nodes.push(node);
        self.rise(self.nodes.len() - 1, node, positions) == 0
    }

    /// Takes a request out that waits in this heap.
    pub(super) fn remove(&mut self, key: Key, positions: &mut Positions) {
        let mut hole = positions.by_key[key.index()] as usize;
        let Some(last) = self.nodes.pop() else {
            return;
        };
        if last.key == key {
            return;
        }
        // All the way down, and up again from there: the last node belongs near the bottom.
        while let Some(child) = self.first_child(hole) {
            self.put(hole, self.nodes[child], positions);
            hole = child;
        }
        self.rise(hole, last, positions);
    }

    pub(super) fn pop(&mut self, positions: &mut Positions) {
        if let Some((_, key)) = self.first() {
            self.remove(key, positions);
        }
    }

    /// The child of a position that goes before the others.
    fn first_child(&self, position: usize) -> Option<usize> {
        let start = CHILDREN * position + 1;
        let rest = self.nodes.get(start..)?;
        let index = match rest.first_chunk::<CHILDREN>() {
            // Their number is known when this is compiled.
            Some(children) => least(children),
            None => least(rest),
        };
        Some(start + index?)
    }

    /// Puts a node at a position that is free, or before those above it that go after it: at the
    /// position it returns.
    fn rise(&mut self, mut hole: usize, node: Node, positions: &mut Positions) -> usize {
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.nodes[parent].place < node.place {
                break;
            }
            self.put(hole, self.nodes[parent], positions);
            hole = parent;
        }
        self.put(hole, node, positions);
        hole
    }

    fn put(&mut self, position: usize, node: Node, positions: &mut Positions) {
        self.nodes[position] = node;
        positions.set(node.key, position);
    }
}

/// The index of the node that goes first.
fn least(nodes: &[Node]) -> Option<usize> {
    let (first, rest) = nodes.split_first()?;
    let (mut least, mut place) = (0, first.place);
    for (index, node) in (1..).zip(rest) {
        if node.place < place {
            (least, place) = (index, node.place);
        }
    }
    Some(least)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use proptest::{prelude::*, test_runner::RngSeed};
    use slab::Slab;

    use super::{
        super::{Rank, Score},
        *,
    };
    use crate::config::QueuePolicy;

    fn place(cost: u64, sequence: u64) -> Place {
        let score = Score::new(QueuePolicy::Wspt, Duration::ZERO, 0.0, cost);
        Rank::new(0, score, sequence).place()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        /// Two heaps of several levels share the positions, and keys are used again.
        #[test]
        fn the_first_is_the_least_whoever_left_before_from_anywhere(
            operations in prop::collection::vec((any::<bool>(), 0..8u8, 1..300u64), 0..1500),
        ) {
            let mut keys = Slab::new();
            let mut positions = Positions::default();
            let mut pairs = [(); 2].map(|()| (Heap::default(), BTreeMap::new()));
            for (sequence, (which, what, number)) in (0..).zip(operations) {
                let (heap, model) = &mut pairs[usize::from(which)];
                let leaves = match what {
                    0 => model.keys().next().copied(),
                    1..3 => model.keys().nth(number as usize % model.len().max(1)).copied(),
                    _ => None,
                };
                if let Some(place) = leaves {
                    let key: Key = model.remove(&place).unwrap();
                    keys.remove(key.index());
                    heap.remove(key, &mut positions);
                } else {
                    let place = place(number, sequence);
                    let key = Key::for_test(keys.insert(()));
                    model.insert(place, key);
                    let is_first = heap.push(place, key, &mut positions);
                    prop_assert_eq!(is_first, model.keys().next() == Some(&place));
                }
                for (heap, model) in &pairs {
                    let first = model.first_key_value().map(|(&place, &key)| (place, key));
                    prop_assert_eq!(heap.first(), first);
                }
            }
            for (heap, model) in &mut pairs {
                let all: Vec<_> = heap.in_order().collect();
                let expected: Vec<_> = model.iter().map(|(&place, &key)| (place, key)).collect();
                prop_assert_eq!(all, expected);
                while let Some(first) = heap.first() {
                    prop_assert_eq!(model.pop_first(), Some(first));
                    heap.pop(&mut positions);
                }
                prop_assert!(model.is_empty());
            }
        }
    }
}
