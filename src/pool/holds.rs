//! Limits how long a slot is held, without a background task.
//!
//! A response that outlasts its hold need not be polled: its reader may have stopped reading. Those who wait
//! have an interest in its slot, so one of them, the *timekeeper*, sleeps until the next hold expires, and
//! then takes the slot back. Where nobody waits, each arrival first looks for expired holds.
//!
//! Invariant: while some hold can expire and somebody is queued, a queued waiter is the timekeeper. It sleeps
//! until the next expiry at the latest, or was woken to ask for it, or has not asked yet; in the last case,
//! the first waiter that asks takes its place. Each arbitration restores this.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Grant, revocation::Revoked, state::State, waiter::Status, wake::WakeList};

/// The waiter that sleeps until the next hold expires.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timekeeper {
    pub(super) waiter: usize,
    /// When it wakes at the latest; `None` before it has asked.
    until: Option<Instant>,
}

impl State {
    /// Until when a queued waiter that asks is to sleep; `None` if it does not keep the time.
    pub(super) fn keep_time(&mut self, waiter: usize) -> Option<Instant> {
        let keeper = self.timekeeper?;
        // A timekeeper that has not asked by now may never be polled: the waiter that does ask takes its
        // place.
        if keeper.waiter != waiter && keeper.until.is_some() {
            return None;
        }
        let until = self.revocables.next_expiry();
        self.timekeeper = Some(Timekeeper { waiter, until });
        until
    }

    /// Registers a grant that can be revoked.
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
            // Those who wait until no slot is in use may be sleeping for longer.
            self.wake_idle_watch(wakes);
            match self.timekeeper {
                // It wakes in time, and then sleeps on.
                Some(Timekeeper { until, .. })
                    if until.is_some() && until <= revocation.expires => {}
                Some(Timekeeper { waiter, .. }) => self.wake_queued(waiter, wakes),
                None => self.appoint_timekeeper(wakes),
            }
        }
    }

    /// Takes back the slots whose hold has expired. The result must be dropped outside the lock.
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

    /// A waiter leaves the queue: it can keep the time no longer.
    pub(super) fn dismiss_timekeeper(&mut self, waiter: usize) {
        if self.timekeeper.is_some_and(|it| it.waiter == waiter) {
            self.timekeeper = None;
        }
    }

    /// Has some queued waiter keep the time, if some hold can expire and nobody does.
    pub(super) fn appoint_timekeeper(&mut self, wakes: &mut WakeList) {
        if self.timekeeper.is_some() || self.revocables.next_expiry().is_none() {
            return;
        }
        // The newest will wait for longest, so that few are woken for this. But one that has not been polled
        // may never be, and then keeps no time.
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
