//! A dominion at run time: one lock around its waiters, its slots and its workers.
//!
//! Every change of state (an arrival, a release, a first byte, a waiter that leaves) takes the
//! lock once, changes the state, hands free slots out until nothing more may go, and gives the lock
//! back; then it wakes those it granted. So a free slot and a request that could use it
//! never coexist outside the lock, and there is no task, tick or notification to lose.
//!
//! The grant *is* the slot: once a waiter is granted it owns one, whether it has been polled
//! since or not, and gives it back when it is dropped.

mod alarm;
mod control;
mod drain;
mod eligible;
mod group;
mod holds;
mod output;
mod permit;
mod places;
mod revocation;
mod state;
#[cfg(test)]
mod tests;
mod ticket;
mod waiter;
mod wake;
mod workers;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

pub(crate) use self::{
    eligible::Wanted,
    permit::{Grant, Permit, Prefill, Share},
    places::Places,
    revocation::Revoked,
    ticket::Ticket,
    workers::Condition,
};
use self::{
    state::{Entered, State},
    wake::WakeList,
};
use crate::{config::PolicyConfig, schedule::Snapshot};

/// A dominion, or the place of the requests that have none.
pub(crate) struct Pool {
    policy: Arc<PolicyConfig>,
    /// Index into the policy's dominions.
    dominion: Option<usize>,
    /// When the pool was made; arrivals are measured from here.
    epoch: Instant,
    state: Mutex<State>,
}

/// A request at the door.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) class: usize,
    pub(crate) snapshot: Snapshot,
    pub(crate) strict_priority: u32,
    /// Seconds under FCFS, a weight under WSPT.
    pub(crate) priority_jump: f64,
    pub(crate) client: Option<&'a str>,
    pub(crate) wanted: Wanted<'a>,
    /// The request's own; the class may have a shorter one.
    pub(crate) max_queue_wait: Option<Duration>,
}

/// What became of an arrival.
#[derive(Debug)]
pub(crate) enum Entrance {
    Admitted(Permit),
    Parked(Ticket),
    TurnedAway(Refusal),
}

/// Why an arrival cannot even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoEligibleWorker,
    Rejected,
    ClassLimit {
        kind: LimitKind,
        current: u64,
        limit: u64,
    },
    Full {
        max_queue: usize,
    },
    Closed,
}

/// Why a parked request waits no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Closed,
    TimedOut,
    NoEligibleWorker,
    ProfileSwitch,
}

/// What a pool has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) in_use: usize,
    pub(crate) waiting: usize,
    /// Tokens, over all workers.
    pub(crate) prefill: u64,
}

/// Which of a class's queue limits was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// Queued requests.
    Requests,
    /// Input tokens of the queued requests, cached ones included.
    RawIslTokens,
    /// Cached input tokens of the queued requests.
    CachedTokens,
}

impl LimitKind {
    /// Its name in the answer's `limit_kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::RawIslTokens => "raw_isl_tokens",
            Self::CachedTokens => "cached_tokens",
        }
    }
}

impl Pool {
    pub(crate) fn new(policy: Arc<PolicyConfig>, dominion: Option<usize>) -> Arc<Self> {
        let state = State::new(&policy, dominion);
        Arc::new(Self {
            policy,
            dominion,
            epoch: Instant::now(),
            state: Mutex::new(state),
        })
    }

    /// The dominion's id.
    pub(crate) fn id(&self) -> Option<&str> {
        self.dominion.map(|index| &*self.policy.dominions[index].id)
    }

    /// Decides about an arrival, at once: it starts, it is parked, or it is turned away.
    pub(crate) fn enter(self: &Arc<Self>, arrival: &Arrival<'_>) -> Entrance {
        let Arrival {
            class, snapshot, ..
        } = *arrival;
        let (entered, _expired) = self.with_state(|state, wakes| {
            let expired = state.expire_holds(wakes);
            (state.enter(self.epoch, arrival, wakes), expired)
        });
        match entered {
            Ok(Entered::Started { assigned, granted }) => {
                let permit = Permit::new(self, class, snapshot, assigned, granted, None);
                Entrance::Admitted(permit)
            }
            Ok(Entered::Parked {
                waiter,
                arrived,
                deadline,
            }) => {
                let pool = Arc::clone(self);
                Entrance::Parked(Ticket::new(
                    pool, waiter, arrived, deadline, class, snapshot,
                ))
            }
            Err(refusal) => Entrance::TurnedAway(refusal),
        }
    }

    /// The ids of the workers that a request may go to.
    pub(crate) fn worker_ids(&self, wanted: &Wanted<'_>) -> Vec<Arc<str>> {
        self.lock().workers.ids(wanted)
    }

    /// When a newcomer of the class, that costs this many tokens, had better come again.
    pub(crate) fn retry_after(&self, class: usize, cost: u64) -> Duration {
        self.lock().retry_after(class, cost)
    }

    /// What it has in hand right now.
    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts()
    }

    /// Changes the state under the lock. Wakers are woken, and replaced ones dropped, once the
    /// lock is released: both run code that is not ours.
    fn with_state<T>(&self, change: impl FnOnce(&mut State, &mut WakeList) -> T) -> T {
        let mut wakes = WakeList::default();
        let changed = change(&mut self.lock(), &mut wakes);
        wakes.wake_all();
        changed
    }

    /// A panic elsewhere leaves the state whole, as no foreign code runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("dominion", &self.id())
            .finish_non_exhaustive()
    }
}
