//! Wakers collected under the lock, to be woken after it.

use std::task::Waker;

/// Wakers to wake once the lock is released. The first one, mostly the only one, takes no
/// allocation.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct WakeList {
    first: Option<Waker>,
    rest: Vec<Waker>,
}

impl WakeList {
    pub(super) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.rest.push(waker);
        }
    }

    pub(crate) fn wake_all(self) {
        self.first
            .into_iter()
            .chain(self.rest)
            .for_each(Waker::wake);
    }
}
