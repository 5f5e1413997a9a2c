//! The requests that are parked: what they are told, and how their waiting ends.

use std::{task::Waker, time::Duration};

use tokio::time::Instant;

use super::{Arrival, Refused, state::State, tally::Code, wake::WakeList, workers::Assigned};
use crate::schedule::{Key, Snapshot};

/// A request that was parked and has not been taken away by its future yet.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) status: Status,
    pub(super) waker: Option<Waker>,
    pub(super) arrived: Instant,
    pub(super) asked: Asked,
}

/// What a change of policy has to know of a request to place it anew.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) priority_jump: f64,
    /// The family or class.
    pub(super) hint: Option<Box<str>>,
    pub(super) model: Option<Box<str>>,
}

/// Names longer than this many bytes are not kept: no class is found by them after a change.
const MAX_NAME_BYTES: usize = 256;

impl Asked {
    pub(super) fn new(arrival: &Arrival<'_>) -> Self {
        let kept = |name: Option<&str>| {
            name.filter(|name| name.len() <= MAX_NAME_BYTES)
                .map(Box::from)
        };
        Self {
            priority_jump: arrival.priority_jump,
            hint: kept(arrival.hint),
            model: kept(arrival.wanted.model),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Status {
    Queued(Key),
    /// Owns a slot, and its uncached tokens are this worker's prefill.
    Granted {
        worker: u32,
        class: usize,
        snapshot: Snapshot,
        at: Instant,
        /// From the arrival to the grant.
        waited: Duration,
    },
    Refused(Refused),
}

/// What a waiter learns when it asks.
pub(super) enum Turn {
    /// Perhaps it is asked to keep the time of a hold.
    NotYet {
        keep_time: Option<Instant>,
    },
    /// Not yet, and it is to ask again with a clone of its waker.
    NeedsWaker,
    Now(Answer),
}

/// What is left of a waiter that left.
pub(super) struct Left {
    _waker: Option<Waker>,
    /// How far it had come, if it was not turned away.
    pub(super) cancelled: Option<&'static str>,
}

/// How the waiting ended.
pub(super) enum Answer {
    Granted {
        assigned: Assigned,
        /// Index into the policy that is in force now.
        class: usize,
        at: Instant,
        /// From the arrival to the grant.
        waited: Duration,
    },
    Refused(Refused),
}

impl State {
    /// Asks whether a waiter's turn has come; if not, `current` is woken when it has. `clone` is one of
    /// it, where the caller thinks that it is needed: it cannot be made under the lock. The waker that it
    /// replaces is left in its place, to be dropped outside.
    pub(super) fn ask(
        &mut self,
        waiter: usize,
        current: &Waker,
        clone: &mut Option<Waker>,
    ) -> Turn {
        match self.waiters.get_mut(waiter) {
            Some(Waiter {
                status: Status::Queued(_),
                waker: known,
                ..
            }) => {
                if clone.is_some() {
                    std::mem::swap(known, clone);
                } else if !known.as_ref().is_some_and(|it| it.will_wake(current)) {
                    return Turn::NeedsWaker;
                }
                let keep_time = self.keep_time(waiter);
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
            Some(Status::Granted {
                worker,
                class,
                at,
                waited,
                ..
            }) => Answer::Granted {
                assigned: self.workers.assigned(worker),
                class,
                at,
                waited,
            },
            Some(Status::Refused(refused)) => Answer::Refused(refused),
            Some(Status::Queued(_)) | None => Answer::Refused(Refused::Closed),
        }
    }

    /// Takes a waiter away whose future was dropped, or that is turned away for a reason of its
    /// own, with the slot it may own by now. The answer is to be dropped outside the lock. None if it
    /// was gone already.
    pub(super) fn leave(
        &mut self,
        waiter: usize,
        reason: Option<Code>,
        wakes: &mut WakeList,
    ) -> Option<Left> {
        let Waiter { status, waker, .. } = self.waiters.try_remove(waiter)?;
        let mut cancelled = None;
        if let Some(class) = self.give_up(waiter, status, wakes) {
            let totals = &mut self.totals[class];
            match (reason, status) {
                (Some(code), _) => totals.rejected.add(code),
                (None, Status::Granted { .. }) => {
                    totals.cancelled.granted += 1;
                    cancelled = Some("granted");
                }
                (None, _) => {
                    totals.cancelled.queued += 1;
                    cancelled = Some("queued");
                }
            }
        }
        // It may have been a blocked head.
        self.arbitrate(wakes);
        Some(Left {
            _waker: waker,
            cancelled,
        })
    }

    /// Ends the waiting of a queued request without a grant.
    pub(super) fn refuse(&mut self, waiter: usize, refused: Refused, wakes: &mut WakeList) {
        let Some(refusing) = self.waiters.get_mut(waiter) else {
            return;
        };
        let status = std::mem::replace(&mut refusing.status, Status::Refused(refused));
        wakes.extend(refusing.waker.take());
        self.note_decided(waiter);
        if let Some(class) = self.give_up(waiter, status, wakes) {
            self.totals[class].rejected.add(refused.code());
        }
    }

    /// Undoes what a waiter's status stands for; the answer is its class, unless it was turned away
    /// already.
    fn give_up(&mut self, waiter: usize, status: Status, wakes: &mut WakeList) -> Option<usize> {
        match status {
            Status::Queued(key) => {
                self.dismiss_timekeeper(waiter);
                self.seniority.remove(waiter);
                self.unqueue(key)
            }
            Status::Granted {
                worker,
                class,
                snapshot,
                ..
            } => {
                self.refund(class, snapshot);
                self.free(worker, snapshot.uncached(), wakes);
                Some(class)
            }
            Status::Refused(_) => None,
        }
    }

    fn unqueue(&mut self, key: Key) -> Option<usize> {
        let entry = self.schedule.remove(key, &self.workers)?;
        self.forget_client(&entry);
        Some(entry.class)
    }
}
