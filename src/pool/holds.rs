//! The longest hold of a slot, kept without a background task.
//!
//! A response that ends its hold late need not be polled: its reader may have stopped reading.
//! Whoever waits for the slot has the interest, so one of the waiters, the *timekeeper*, sleeps until
//! the next hold is over and takes the slot back then. Where nobody waits, an arrival looks first.
//! Invariant: while some hold can expire and somebody is queued, a queued waiter is the
//! timekeeper, and it sleeps until no later than the next expiry, or was woken to ask for that, or has
//! not asked yet, and then whoever asks first is it instead. Each arbitration restores it.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Grant, revocation::Revoked, state::State, waiter::Status, wake::WakeList};

/// The waiter that sleeps until the next hold is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timekeeper {
    pub(super) waiter: usize,
    /// As long as it sleeps at most; none before it has asked.
    until: Option<Instant>,
}

impl State {
    /// Until when a queued waiter that asks is to sleep, if it keeps the time.
    pub(super) fn keep_time(&mut self, waiter: usize) -> Option<Instant> {
        let keeper = self.timekeeper?;
        // One that has not asked by now may never be polled: who does ask takes its place.
        if keeper.waiter != waiter && keeper.until.is_some() {
            return None;
        }
        let until = self.revocables.next_expiry();
        self.timekeeper = Some(Timekeeper { waiter, until });
        until
    }

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
            // Who waits for the last slot may sleep for longer.
            self.wake_idle_watch(wakes);
            match self.timekeeper {
                // It wakes in time, and sleeps on then.
                Some(Timekeeper { until, .. })
                    if until.is_some() && until <= revocation.expires => {}
                Some(Timekeeper { waiter, .. }) => self.wake_queued(waiter, wakes),
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
        if self.timekeeper.is_some_and(|it| it.waiter == waiter) {
            self.timekeeper = None;
        }
    }

    /// Has some queued waiter keep the time, if there is a time to keep and nobody does.
    pub(super) fn appoint_timekeeper(&mut self, wakes: &mut WakeList) {
        if self.timekeeper.is_some() || self.revocables.next_expiry().is_none() {
            return;
        }
        // The one that waits on for longest, so that few are woken for it; if it has been polled, since who
        // never is keeps no time.
        let is_polled = |waiter: &usize| {
            let waiter = self.waiters.get(*waiter);
            waiter.is_some_and(|waiter| waiter.waker.is_some())
        };
        let newest = self.seniority.newest().filter(is_polled);
        if let Some(waiter) = newest.or(self.seniority.oldest()) {
            self.timekeeper = Some(Timekeeper {
                waiter,
                until: None,
            });
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
