//! The lanes of exact workers in a class.

use super::lane::Lane;

/// By worker, so that one is found at once among any number of them. A worker to which nobody was pinned
/// takes up a pointer at most, in each class.
#[derive(Debug, Default)]
pub(super) struct ExactLanes {
    by_worker: Vec<Option<Box<Lane>>>,
    len: usize,
}

impl ExactLanes {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, worker: u32) -> Option<&Lane> {
        self.by_worker.get(worker as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, worker: u32) -> Option<&mut Lane> {
        self.by_worker.get_mut(worker as usize)?.as_deref_mut()
    }

    /// The lane of a worker, which is there from now on.
    pub(super) fn get_or_new(&mut self, worker: u32) -> &mut Lane {
        let index = worker as usize;
        if self.by_worker.len() <= index {
            self.by_worker.resize_with(index + 1, || None);
        }
        let Self { by_worker, len } = self;
        by_worker[index].get_or_insert_with(|| {
            *len += 1;
            Box::default()
        })
    }

    pub(super) fn remove(&mut self, worker: u32) {
        let lane = self.by_worker.get_mut(worker as usize);
        if lane.and_then(Option::take).is_some() {
            self.len -= 1;
        }
    }

    /// In the order of the workers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.by_worker.iter().flatten().map(|lane| &**lane)
    }
}
