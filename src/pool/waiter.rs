//! Parked requests: what they are told, and how their waiting ends.

use std::{task::Waker, time::Duration};

use tokio::time::Instant;

use super::{Arrival, Refused, state::State, tally::Code, wake::WakeList, workers::Assigned};
use crate::schedule::{Key, Snapshot};

/// A parked request whose future has not taken its answer yet.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) status: Status,
    pub(super) waker: Option<Waker>,
    pub(super) arrived: Instant,
    pub(super) asked: Asked,
}

/// What has to be known of a waiting request to place it anew when the policy or the workers change.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) priority_jump: f64,
    /// The family or class.
    pub(super) hint: Option<Box<str>>,
    pub(super) model: Option<Box<str>>,
}

/// Names longer than this many bytes are not kept: after a change, no class or worker is found by them.
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
    /// It owns a slot, and its uncached tokens are prefill of this worker.
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
    /// If it keeps the time of a hold, it is to ask again by then.
    NotYet {
        keep_time: Option<Instant>,
    },
    /// Not yet, and it has to ask again at once, with a clone of its waker.
    NeedsWaker,
    Now(Answer),
}

/// What remains of a waiter that left.
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
    /// Asks whether a waiter's turn has come; if not, `current` is woken when it has. `clone` is a clone of
    /// it if the caller expects that it is needed, as none may be made under the lock. The waker that it
    /// replaces is left in its place, to be dropped outside the lock.
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
            // The waker was taken when the waiting ended, so none is dropped here.
            _ => Turn::Now(self.take_answer(waiter)),
        }
    }

    /// A waiter's deadline has come: it has been granted by now, or it is refused.
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

    /// Removes a waiter whose future was dropped, or that is turned away for a reason of its own, with the
    /// slot that it may own by now. The result must be dropped outside the lock. `None` if the waiter was
    /// already gone.
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

    /// Refuses a request that is queued, or that was granted and has not asked since.
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

    /// Undoes what a waiter's status stands for, and returns its class unless it was already refused.
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
