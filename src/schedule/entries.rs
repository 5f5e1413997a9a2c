//! The waiting requests themselves, and where each stands.

use std::ops::Index;

use slab::Slab;

use super::{
    ClientId, LaneId, Rank, Snapshot,
    heap::Positions,
    list::{Link, Linked},
};

/// Names a waiting request until it is served or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u32);

impl Key {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn new(index: usize) -> Self {
        // A queue of 2^32 requests does not fit in memory.
        Self(index as u32)
    }
}

/// A waiting request.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) class: usize,
    pub(crate) lane: LaneId,
    pub(crate) client: ClientId,
    pub(crate) rank: Rank,
    pub(crate) snapshot: Snapshot,
    pub(crate) payload: T,
}

/// All waiting requests, by key.
///
/// The links of a queue's line are stored in the entries, which are touched anyway when a request leaves.
/// Heap positions are stored apart: sifting touches requests that are otherwise left alone.
#[derive(Debug)]
pub(super) struct Entries<T> {
    slab: Slab<Waiting<T>>,
    pub(super) positions: Positions,
}

#[derive(Debug)]
struct Waiting<T> {
    entry: Entry<T>,
    /// Its neighbours in the line of its queue; `Link::APART` if it is in the heap.
    link: Link,
}

impl<T> Entries<T> {
    pub(super) fn new() -> Self {
        Self {
            slab: Slab::new(),
            positions: Positions::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Adds a request that is in no queue yet.
    pub(super) fn insert(&mut self, entry: Entry<T>) -> Key {
        Key::new(self.slab.insert(Waiting {
            entry,
            link: Link::APART,
        }))
    }

    pub(super) fn get(&self, key: Key) -> Option<&Entry<T>> {
        self.slab.get(key.index()).map(|waiting| &waiting.entry)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Entry<T>> {
        let waiting = self.slab.get_mut(key.index());
        waiting.map(|waiting| &mut waiting.entry)
    }

    /// Removes a request that is in no queue any more.
    pub(super) fn remove(&mut self, key: Key) -> Option<Entry<T>> {
        self.slab
            .try_remove(key.index())
            .map(|waiting| waiting.entry)
    }

    /// Whether a request is in the line of its queue, rather than in the heap.
    pub(super) fn is_in_line(&self, key: Key) -> bool {
        !self.slab[key.index()].link.is_apart()
    }

    /// In no order.
    pub(super) fn payloads_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slab
            .iter_mut()
            .map(|(_, waiting)| &mut waiting.entry.payload)
    }

    /// In no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.slab.iter().map(|(_, waiting)| &waiting.entry)
    }
}

impl<T> Index<Key> for Entries<T> {
    type Output = Entry<T>;

    fn index(&self, key: Key) -> &Entry<T> {
        &self.slab[key.index()].entry
    }
}

impl<T> Linked for Entries<T> {
    fn link(&self, member: usize) -> Link {
        self.slab[member].link
    }

    fn link_mut(&mut self, member: usize) -> &mut Link {
        &mut self.slab[member].link
    }
}
