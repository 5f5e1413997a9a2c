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

impl Heap {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// In no order.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.nodes.iter().map(|node| node.key)
    }

    /// A copy of the first `limit` requests.
    pub(super) fn copy(&self, limit: usize, positions: &mut Positions) -> Self {
        // Nodes whose parent is copied already, the next one on top.
        let mut next = BinaryHeap::new();
        let offer = |next: &mut BinaryHeap<_>, position: usize| {
            let node = self.nodes.get(position);
            next.extend(node.map(|node| (Reverse(node.place), position)));
        };
        offer(&mut next, 0);
        let mut copy = Self::default();
        while copy.len() < limit {
            let Some((_, position)) = next.pop() else {
                break;
            };
            let Node { place, key } = self.nodes[position];
            copy.push(place, key, positions);
            let start = CHILDREN * position + 1;
            (start..start + CHILDREN).for_each(|child| offer(&mut next, child));
        }
        copy
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
