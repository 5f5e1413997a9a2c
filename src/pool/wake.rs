//! What is collected under the lock to be done after it: wakers to wake, and metrics to publish.

use std::task::Waker;

use super::meter::Bulletin;

/// Wakers to wake, and changes to publish, once the lock is released. The first waker, mostly the only one,
/// takes no allocation.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct WakeList {
    first: Option<Waker>,
    rest: Vec<Waker>,
    /// What has changed. Published last, as nobody waits for it.
    pub(super) bulletin: Bulletin,
}

impl WakeList {
    pub(crate) fn wake_all(mut self) {
        self.wake_each();
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    #[inline]
    fn wake_each(&mut self) {
        if self.is_empty() {
            return;
        }
        if let Some(waker) = self.first.take() {
            waker.wake();
        }
        // Reversed and popped one by one, so that after a panic the rest are still in the list.
        self.rest.reverse();
        while let Some(waker) = self.rest.pop() {
            waker.wake();
        }
    }
}

impl Extend<Waker> for WakeList {
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        for waker in wakers {
            if self.is_empty() {
                self.first = Some(waker);
            } else {
                self.rest.push(waker);
            }
        }
    }
}

impl Drop for WakeList {
    /// If a waker panics, the others are woken nevertheless.
    fn drop(&mut self) {
        self.wake_each();
        self.bulletin.publish();
    }
}
