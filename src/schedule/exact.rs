//! The lanes of exact workers in a class.

use std::collections::BTreeSet;

use super::{Rank, lane::Lane};

/// Indexed by worker, so that a lane is found in O(1) however many there are. A worker to which nobody is
/// pinned takes up at most a pointer in each class.
#[derive(Debug, Default)]
pub(super) struct ExactLanes {
    by_worker: Vec<Option<Box<Exact>>>,
    len: usize,
    /// The lanes whose head the gate let through when last asked, the best head first.
    ready: BTreeSet<(Rank, u32)>,
}

#[derive(Debug, Default)]
struct Exact {
    lane: Lane,
    /// The rank under which it is among the ready ones.
    ready: Option<Rank>,
}

impl ExactLanes {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, worker: u32) -> Option<&Lane> {
        let exact = self.by_worker.get(worker as usize)?;
        exact.as_deref().map(|exact| &exact.lane)
    }

    pub(super) fn get_mut(&mut self, worker: u32) -> Option<&mut Lane> {
        let exact = self.by_worker.get_mut(worker as usize)?;
        exact.as_deref_mut().map(|exact| &mut exact.lane)
    }

    /// The lane of a worker, created if it does not exist.
    pub(super) fn get_or_new(&mut self, worker: u32) -> &mut Lane {
        let index = worker as usize;
        if self.by_worker.len() <= index {
            self.by_worker.resize_with(index + 1, || None);
        }
        let Self { by_worker, len, .. } = self;
        let exact = by_worker[index].get_or_insert_with(|| {
            *len += 1;
            Box::default()
        });
        &mut exact.lane
    }

    /// How many lanes have a head that may go.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The workers whose lane has a head that may go, the best head first.
    pub(super) fn best(&self) -> impl Iterator<Item = (Rank, u32)> + '_ {
        self.ready.iter().copied()
    }

    /// Takes note of a change of a lane's head, or of whether it may go. An empty lane is dropped.
    pub(super) fn update(&mut self, worker: u32) {
        let Some(place) = self.by_worker.get_mut(worker as usize) else {
            return;
        };
        let Some(Exact { lane, ready }) = place.as_deref_mut() else {
            return;
        };
        let rank = lane.ready().map(|(rank, ..)| rank);
        let before = std::mem::replace(ready, rank);
        if lane.is_empty() {
            *place = None;
            self.len -= 1;
        }
        if before != rank {
            if let Some(before) = before {
                self.ready.remove(&(before, worker));
            }
            self.ready.extend(rank.map(|rank| (rank, worker)));
        }
    }

    /// In the order of the workers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.by_worker.iter().flatten().map(|exact| &exact.lane)
    }
}
