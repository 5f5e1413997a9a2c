//! The requests that are parked: what they are told, and how their waiting ends.

use std::task::Waker;

use tokio::time::Instant;

use super::{Refused, state::State, wake::WakeList, workers::Assigned};
use crate::schedule::{Key, Snapshot};

/// A request that was parked and has not been taken away by its future yet.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) status: Status,
    pub(super) waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Status {
    Queued(Key),
    /// Owns a slot, and its uncached tokens are this worker's prefill.
    Granted {
        worker: u32,
        class: usize,
        snapshot: Snapshot,
    },
    Refused(Refused),
}

/// What a waiter learns when it asks.
pub(super) enum Turn {
    /// Perhaps it is asked to keep the time of a hold.
    NotYet {
        keep_time: Option<Instant>,
    },
    Now(Answer),
}

/// How the waiting ended.
pub(super) enum Answer {
    Granted(Assigned),
    Refused(Refused),
}

impl State {
    /// Asks whether a waiter's turn has come; if not, `waker` is woken when it has, and the one it
    /// replaces is left in its place to be dropped outside the lock.
    pub(super) fn ask(&mut self, waiter: usize, waker: &mut Option<Waker>) -> Turn {
        let keep_time = if self.timekeeper == Some(waiter) {
            self.revocables.next_expiry()
        } else {
            None
        };
        match self.waiters.get_mut(waiter) {
            Some(Waiter {
                status: Status::Queued(_),
                waker: known,
            }) => {
                std::mem::swap(known, waker);
                Turn::NotYet { keep_time }
            }
            // The answer took the waker already, so nothing is dropped here.
            _ => Turn::Now(self.take_answer(waiter)),
        }
    }

    /// A waiter's deadline has come: it is granted now, or never.
    pub(super) fn expire(&mut self, waiter: usize, wakes: &mut WakeList) -> Answer {
        if let Some(Waiter {
            status: Status::Queued(_),
            ..
        }) = self.waiters.get(waiter)
        {
            self.refuse(waiter, Refused::TimedOut, wakes);
            self.arbitrate(wakes);
        }
        self.take_answer(waiter)
    }

    fn take_answer(&mut self, waiter: usize) -> Answer {
        match self.waiters.try_remove(waiter).map(|waiter| waiter.status) {
            Some(Status::Granted { worker, .. }) => Answer::Granted(self.workers.assigned(worker)),
            Some(Status::Refused(refused)) => Answer::Refused(refused),
            Some(Status::Queued(_)) | None => Answer::Refused(Refused::Closed),
        }
    }

    /// Takes a waiter away whose future was dropped, with the slot it may own by now. The answer is
    /// to be dropped outside the lock.
    pub(super) fn leave(&mut self, waiter: usize, wakes: &mut WakeList) -> Option<Waker> {
        let Waiter { status, waker } = self.waiters.try_remove(waiter)?;
        self.give_up(waiter, status, wakes);
        // It may have been a blocked head.
        self.arbitrate(wakes);
        waker
    }

    /// Ends the waiting of a queued request without a grant.
    pub(super) fn refuse(&mut self, waiter: usize, refused: Refused, wakes: &mut WakeList) {
        let Some(refusing) = self.waiters.get_mut(waiter) else {
            return;
        };
        let status = std::mem::replace(&mut refusing.status, Status::Refused(refused));
        wakes.extend(refusing.waker.take());
        self.give_up(waiter, status, wakes);
    }

    /// Undoes what a waiter's status stands for.
    fn give_up(&mut self, waiter: usize, status: Status, wakes: &mut WakeList) {
        match status {
            Status::Queued(key) => {
                self.unqueue(key);
                self.dismiss_timekeeper(waiter);
            }
            Status::Granted {
                worker,
                class,
                snapshot,
            } => {
                self.refund(class, snapshot);
                self.free(worker, snapshot.uncached(), wakes);
            }
            Status::Refused(_) => {}
        }
    }

    fn unqueue(&mut self, key: Key) {
        if let Some(entry) = self.schedule.remove(key, &self.workers) {
            self.forget_client(&entry);
        }
    }
}
