//! A heap of requests that arrived in any order, of which the least goes next.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Key, order::Place, queue::Standing};

/// A heap with eight children per node: a third of the levels of a binary one, with the children side by
/// side in memory. It tracks the position of each request, so that any of them can leave in O(log n).
#[derive(Debug, Default)]
pub(super) struct Heap {
    nodes: Vec<Standing>,
}

/// More children mean more comparisons, fewer mean more cache misses.
const CHILDREN: usize = 8;

/// The position of each request in its heap, if it is in one.
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
        // No heap of 2^32 nodes fits in memory.
        self.by_key[key.index()] = position as u32;
    }
}

/// The requests of a heap, the first ones first.
#[derive(Debug)]
pub(super) struct InOrder<'a> {
    heap: &'a Heap,
    /// Nodes whose parents were returned already, the next one on top.
    next: BinaryHeap<(Reverse<Place>, usize)>,
}

impl Iterator for InOrder<'_> {
    type Item = Standing;

    fn next(&mut self) -> Option<Self::Item> {
        let (_, position) = self.next.pop()?;
        let start = CHILDREN * position + 1;
        let children = (start..start + CHILDREN).filter_map(|child| self.heap.offered(child));
        self.next.extend(children);
        Some(self.heap.nodes[position])
    }
}

impl Heap {
    /// In no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.nodes.iter().map(|&(_, key)| key)
    }

    /// The requests in order, sorted lazily.
    pub(super) fn in_order(&self) -> InOrder<'_> {
        let mut next = BinaryHeap::new();
        next.extend(self.offered(0));
        InOrder { heap: self, next }
    }

    fn offered(&self, position: usize) -> Option<(Reverse<Place>, usize)> {
        let &(place, _) = self.nodes.get(position)?;
        Some((Reverse(place), position))
    }

    pub(super) fn first(&self) -> Option<Standing> {
        self.nodes.first().copied()
    }

    pub(super) fn push(&mut self, place: Place, key: Key, positions: &mut Positions) {
        positions.reserve(key);
        self.nodes.push((place, key));
        self.rise(self.nodes.len() - 1, (place, key), positions);
    }

    /// Removes a request that is in this heap.
    pub(super) fn remove(&mut self, key: Key, positions: &mut Positions) {
        let mut hole = positions.by_key[key.index()] as usize;
        let Some(last) = self.nodes.pop() else {
            return;
        };
        if last.1 == key {
            return;
        }
        // Sift all the way down, then up from there: the last node belongs near the bottom.
        while let Some(child) = self.first_child(hole) {
            self.put(hole, self.nodes[child], positions);
            hole = child;
        }
        self.rise(hole, last, positions);
    }

    /// The least child of a position.
    fn first_child(&self, position: usize) -> Option<usize> {
        let start = CHILDREN * position + 1;
        let rest = self.nodes.get(start..)?;
        let index = match rest.first_chunk::<CHILDREN>() {
            // The full number of children is a constant, so the compiler can unroll this.
            Some(children) => least(children),
            None => least(rest),
        };
        Some(start + index?)
    }

    /// Puts a node at a free position, and sifts it up.
    fn rise(&mut self, mut hole: usize, node: Standing, positions: &mut Positions) {
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.nodes[parent].0 < node.0 {
                break;
            }
            self.put(hole, self.nodes[parent], positions);
            hole = parent;
        }
        self.put(hole, node, positions);
    }

    fn put(&mut self, position: usize, node: Standing, positions: &mut Positions) {
        self.nodes[position] = node;
        positions.set(node.1, position);
    }
}

/// The index of the node that goes first.
fn least(nodes: &[Standing]) -> Option<usize> {
    let (&(first, _), rest) = nodes.split_first()?;
    let (mut least, mut best) = (0, first);
    for (index, &(place, _)) in (1..).zip(rest) {
        if place < best {
            (least, best) = (index, place);
        }
    }
    Some(least)
}
