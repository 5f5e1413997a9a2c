//! The longest hold of a slot, kept without a background task.
//!
//! A response that ends its hold late need not be polled: its reader may have stopped reading.
//! Whoever waits for the slot has the interest, so one of the waiters, the *timekeeper*, sleeps until
//! the next hold is over and takes the slot back then. Where nobody waits, an arrival looks first.
//! Invariant: while some hold can expire and somebody is queued, a queued waiter is the
//! timekeeper, and it was woken since it or the next expiry changed. Each arbitration restores it.

use std::sync::Arc;

use super::{Grant, revocation::Revoked, state::State, waiter::Status, wake::WakeList};

impl State {
    /// Takes note of a grant that can be revoked.
    pub(super) fn register(&mut self, grant: &Arc<Grant>, wakes: &mut WakeList) {
        let Some(revocation) = &grant.revocation else {
            return;
        };
        let next = self.revocables.insert(grant, revocation);
        if self.workers.is_unselected(grant.assigned.index) {
            // The profile changed between the grant and now.
            self.revoke(grant, Revoked::ProfileSwitch, wakes);
            self.arbitrate(wakes);
        } else if next {
            // An earlier expiry than the timekeeper sleeps for, or who waits for the last slot.
            wakes.extend(self.idle_watch.drain(..));
            match self.timekeeper {
                Some(waiter) => self.wake_queued(waiter, wakes),
                None => self.appoint_timekeeper(wakes),
            }
        }
    }

    /// Takes back the slots whose hold is over. The answer is to be dropped outside the lock.
    #[must_use]
    pub(super) fn expire_holds(&mut self, wakes: &mut WakeList) -> Vec<Arc<Grant>> {
        let Some(next) = self.revocables.next_expiry() else {
            return Vec::new();
        };
        let now = self.now();
        if next > now {
            return Vec::new();
        }
        let expired = self.revocables.expired(now);
        for grant in &expired {
            self.revoke(grant, Revoked::HoldExpired, wakes);
        }
        self.arbitrate(wakes);
        expired
    }

    /// A waiter is queued no more: it cannot keep the time.
    pub(super) fn dismiss_timekeeper(&mut self, waiter: usize) {
        if self.timekeeper == Some(waiter) {
            self.timekeeper = None;
        }
    }

    /// Has some queued waiter keep the time, if there is a time to keep and nobody does.
    pub(super) fn appoint_timekeeper(&mut self, wakes: &mut WakeList) {
        if self.timekeeper.is_some() || self.revocables.next_expiry().is_none() {
            return;
        }
        // The one most likely to have been polled: who never is keeps no time.
        self.timekeeper = self.seniority.oldest();
        if let Some(waiter) = self.timekeeper {
            self.wake_queued(waiter, wakes);
        }
    }

    fn wake_queued(&mut self, waiter: usize, wakes: &mut WakeList) {
        let queued = self
            .waiters
            .get_mut(waiter)
            .filter(|it| matches!(it.status, Status::Queued(_)));
        wakes.extend(queued.and_then(|waiter| waiter.waker.take()));
    }
}
