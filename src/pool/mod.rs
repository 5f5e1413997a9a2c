//! A dominion at run time: one lock around its waiters, its slots and its workers.
//!
//! Every change of state (an arrival, a release, a first byte, a waiter that leaves) takes the lock once,
//! changes the state, hands out free slots until no more requests may go, and releases the lock; then it
//! wakes those it granted. So a free slot and a request that could use it never coexist outside the lock, and
//! there is no task, tick or notification to lose.
//!
//! The grant *is* the slot: once a waiter is granted it owns a slot, whether or not it has been polled since,
//! and gives it back when it is dropped.

mod alarm;
mod control;
mod drain;
mod eligible;
#[cfg(test)]
mod fixtures;
mod group;
mod holds;
mod idling;
mod look;
#[cfg(test)]
#[cfg(policy_queue_loom)]
mod loom;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(not(feature = "metrics"))]
#[path = "meter/off.rs"]
mod meter;
mod output;
mod permit;
mod places;
mod reload;
mod revocation;
mod seniority;
mod shadow;
mod shares;
mod snapshot;
mod state;
mod tally;
#[cfg(test)]
mod tests;
mod ticket;
mod visit;
mod waiter;
mod wake;
mod workers;

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use self::state::{Entered, State};
pub(crate) use self::{
    control::Switched,
    eligible::Wanted,
    meter::UnplacedMeter,
    permit::{Grant, Permit, Prefill, Share},
    places::{Place, Places},
    revocation::Revoked,
    tally::{Code, Stage},
    ticket::Ticket,
    visit::Visit,
    wake::WakeList,
    workers::Condition,
};
pub use self::{
    snapshot::{
        ClassSnapshot, ClientSnapshot, DominionSnapshot, WaitReason, WaiterSnapshot, WorkerSnapshot,
    },
    tally::{Cancelled, Rejected, Totals},
};
use crate::{
    config::{self, PolicyConfig},
    schedule::Snapshot,
    sync::{Mutex, MutexGuard},
};

/// A dominion under one policy, or the place of the requests that have none.
///
/// A reload makes a new `Pool` on the same [`Queue`]. A request keeps the one that it was granted or parked
/// under: its class is an index into that policy.
pub(crate) struct Pool {
    policy: Arc<PolicyConfig>,
    /// Index into the policy's dominions.
    dominion: Option<usize>,
    /// How many policies the queue has had before this one.
    generation: u64,
    queue: Arc<Queue>,
}

/// What a dominion keeps from one policy to the next.
struct Queue {
    /// When it was made; times of arrival are measured from here.
    epoch: Instant,
    state: Mutex<State>,
}

/// A request that arrives.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) class: usize,
    pub(crate) snapshot: Snapshot,
    pub(crate) strict_priority: u32,
    /// Seconds under FCFS, a weight under WSPT.
    pub(crate) priority_jump: f64,
    pub(crate) client: Option<&'a str>,
    /// The family or class that it asks for.
    pub(crate) hint: Option<&'a str>,
    pub(crate) wanted: Wanted<'a>,
    /// The request's own limit; its class may have a shorter one.
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
    ClientLimit {
        max_queue_per_client: usize,
    },
    Closed,
    /// The policy by which the arrival was classified is no longer in force.
    Reloaded,
}

impl Refusal {
    /// What it is counted as.
    fn code(self) -> Option<Code> {
        Some(match self {
            Self::NoEligibleWorker => Code::NoEligibleWorker,
            Self::Rejected => Code::QueueRejected,
            Self::ClassLimit { .. } => Code::ClassLimit,
            Self::Full { .. } => Code::QueueFull,
            Self::ClientLimit { .. } => Code::ClientLimit,
            Self::Closed => Code::QueueUnavailable,
            Self::Reloaded => return None,
        })
    }
}

/// Why a parked request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Closed,
    TimedOut,
    NoEligibleWorker,
    ProfileSwitch,
}

impl Refused {
    /// What it is counted as.
    fn code(self) -> Code {
        match self {
            Self::Closed => Code::QueueUnavailable,
            Self::TimedOut => Code::QueueTimeout,
            Self::NoEligibleWorker => Code::NoEligibleWorker,
            Self::ProfileSwitch => Code::ProfileSwitch,
        }
    }
}

/// What a pool has in hand at one moment.
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
    /// Its name, as in the `limit_kind` of the response.
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
        let pool = Self::unpublished(policy, dominion);
        pool.with_state(|_, _| ());
        pool
    }

    /// A new dominion that no recorder has been told of.
    fn unpublished(policy: Arc<PolicyConfig>, dominion: Option<usize>) -> Arc<Self> {
        let state = State::new(&policy, dominion);
        Arc::new(Self {
            policy,
            dominion,
            generation: 0,
            queue: Arc::new(Queue {
                epoch: Instant::now(),
                state: Mutex::new(state),
            }),
        })
    }

    /// A new dominion whose workers are not just those of the policy. No request waits in it yet, but what
    /// there is to publish must be left until the caller holds no lock.
    pub(crate) fn with_workers(
        policy: &Arc<PolicyConfig>,
        dominion: Option<usize>,
        workers: &[Arc<config::Worker>],
        selected: Option<&HashSet<&str>>,
    ) -> (Arc<Self>, WakeList) {
        Self::unpublished(Arc::clone(policy), dominion).reload(policy, dominion, workers, selected)
    }

    /// The dominion under the policy in force, if that is another one by now.
    fn now(&self, state: &State) -> Option<Arc<Self>> {
        (self.generation != state.generation).then(|| self.under(state))
    }

    /// The dominion under the policy that its state is under.
    fn under(&self, state: &State) -> Arc<Self> {
        Arc::new(Self {
            policy: Arc::clone(&state.policy),
            dominion: state.dominion,
            generation: state.generation,
            queue: Arc::clone(&self.queue),
        })
    }

    /// True if both are the same dominion, perhaps under different policies.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue)
    }

    /// The dominion's id.
    pub(crate) fn id(&self) -> Option<&Arc<str>> {
        self.dominion.map(|index| &self.policy.dominions[index].id)
    }

    /// Decides about an arrival at once: it starts, is parked or is turned away.
    pub(crate) fn enter(self: &Arc<Self>, arrival: &Arrival<'_>) -> Entrance {
        let Arrival {
            class, snapshot, ..
        } = *arrival;
        // Dropped once the lock is released.
        let mut expired = Vec::new();
        let (entered, wakes) = self.change(|state, wakes| {
            expired = state.expire_holds(wakes);
            state.enter(self.queue.epoch, self.generation, arrival, wakes)
        });
        // In its owner's hands before anybody is woken: a waker that panics loses no slot.
        let entrance = match entered {
            Ok(Entered::Started {
                assigned,
                granted,
                claim,
            }) => {
                let permit = Permit::new(self, class, snapshot, assigned, granted, None, claim);
                Entrance::Admitted(permit)
            }
            Ok(Entered::Parked { waiter, deadline }) => {
                let pool = Arc::clone(self);
                Entrance::Parked(Ticket::new(pool, waiter, deadline, class, snapshot))
            }
            Err(refusal) => Entrance::TurnedAway(refusal),
        };
        wakes.wake_all();
        entrance
    }

    /// The ids of the workers that a request may go to.
    pub(crate) fn worker_ids(&self, wanted: &Wanted<'_>) -> Vec<Arc<str>> {
        self.lock().workers.ids(wanted)
    }

    /// When a newcomer of the class with this cost, in tokens, should retry.
    pub(crate) fn retry_after(&self, class: usize, cost: u64) -> Duration {
        let mut state = self.lock();
        match state.class_now(self, class) {
            Some(class) => state.retry_after(class, cost),
            None => Duration::from_secs(1),
        }
    }

    /// What the pool has in hand.
    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts()
    }

    /// Changes the state under the lock. Wakers are woken and a metrics recorder is told only once the lock
    /// is released: both run foreign code.
    fn with_state<T>(&self, change: impl FnOnce(&mut State, &mut WakeList) -> T) -> T {
        let (changed, wakes) = self.change(change);
        wakes.wake_all();
        changed
    }

    /// Changes the state under the lock. The wakes are left to the caller, which may hold a lock of its own,
    /// until it holds none.
    fn change<T>(&self, change: impl FnOnce(&mut State, &mut WakeList) -> T) -> (T, WakeList) {
        let mut wakes = WakeList::default();
        let mut state = self.lock();
        let changed = change(&mut state, &mut wakes);
        state.before_unlock(&mut wakes);
        drop(state);
        (changed, wakes)
    }

    /// Poisoning is ignored: no foreign code runs under the lock, so a panic leaves the state whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.queue
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("dominion", &self.id())
            .finish_non_exhaustive()
    }
}
