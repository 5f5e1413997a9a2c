//! What became of the requests of a class: each is counted once, under one outcome.
//!
//! A request counts as *arrived* once its class is known. From then on it waits, runs, or has an outcome; so
//! `arrived` is the sum of those three at any time.

use std::time::Duration;

use serde::{Serialize, Serializer, ser::SerializeMap};

pub(crate) use crate::config::Code;

/// Requests that were turned away, by the `error.code` of their responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejected([u64; Code::ALL.len()]);

impl Rejected {
    /// How many requests were answered with this code; 0 if there is no such code.
    pub fn get(&self, code: &str) -> u64 {
        self.iter()
            .find_map(|(known, count)| (known == code).then_some(count))
            .unwrap_or(0)
    }

    /// Every code, and how many requests were answered with it.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Code::ALL.iter().map(|code| code.as_str()).zip(self.0)
    }

    /// How many requests were turned away in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// By code.
    #[cfg(feature = "metrics")]
    pub(super) fn counts(&self) -> &[u64; Code::ALL.len()] {
        &self.0
    }

    pub(crate) fn add(&mut self, code: Code) {
        self.0[code as usize] += 1;
    }

    pub(crate) fn set(&mut self, code: Code, count: u64) {
        self.0[code as usize] = count;
    }
}

impl Serialize for Rejected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (code, count) in self.iter() {
            map.serialize_entry(code, &count)?;
        }
        map.end()
    }
}

/// Requests whose clients went away, by how far they had come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cancelled {
    /// They waited.
    pub queued: u64,
    /// They had a slot, but the inner service had not been called.
    pub granted: u64,
    /// The inner service was at work, or its response was under way.
    pub running: u64,
}

/// What became of the requests of a class, in one dominion, since the layer was made.
///
/// Each request has one outcome: `completed`, `failed`, `revoked`, one of `cancelled`, or one of `rejected`.
/// Requests without an outcome wait or run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were given a slot.
    pub admitted: u64,
    /// Admitted requests that had to wait for their slot.
    pub waited: u64,
    /// How long those waited in total, in milliseconds.
    pub wait_ms: u64,
    /// The longest that one of those waited, in milliseconds.
    pub longest_wait_ms: u64,
    /// Uncached input tokens of the admitted requests, each of which counts at least 1.
    pub tokens_served: u64,
    /// Requests that kept their slot for as long as their class says, usually to the end of the response
    /// body.
    pub completed: u64,
    /// Requests whose inner service or response body failed or panicked.
    pub failed: u64,
    /// Requests whose response ended with a [`SlotRevoked`](crate::SlotRevoked).
    pub revoked: u64,
    /// Requests whose clients went away.
    pub cancelled: Cancelled,
    /// Requests that were turned away.
    pub rejected: Rejected,
}

impl Totals {
    /// How many requests have an outcome.
    pub fn settled(&self) -> u64 {
        let Cancelled {
            queued,
            granted,
            running,
        } = self.cancelled;
        let cancelled = queued + granted + running;
        self.completed + self.failed + self.revoked + cancelled + self.rejected.total()
    }

    /// A request of this cost, in tokens, got a slot at once.
    pub(super) fn admit(&mut self, cost: u64) {
        self.admitted += 1;
        self.tokens_served = self.tokens_served.saturating_add(cost);
    }

    /// A request of this cost, in tokens, got a slot after waiting this long.
    pub(super) fn admit_after(&mut self, wait: Duration, cost: u64) {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.admit(cost);
        self.waited += 1;
        self.wait_ms = self.wait_ms.saturating_add(wait);
        self.longest_wait_ms = self.longest_wait_ms.max(wait);
    }

    /// A request that had a slot is over.
    pub(super) fn end(&mut self, stage: Stage) {
        *match stage {
            Stage::Granted => &mut self.cancelled.granted,
            Stage::Running | Stage::Streaming => &mut self.cancelled.running,
            Stage::Completed => &mut self.completed,
            Stage::Failed => &mut self.failed,
        } += 1;
    }

    /// Adds what another class has counted.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.admitted += other.admitted;
        self.waited += other.waited;
        self.wait_ms = self.wait_ms.saturating_add(other.wait_ms);
        self.longest_wait_ms = self.longest_wait_ms.max(other.longest_wait_ms);
        self.tokens_served = self.tokens_served.saturating_add(other.tokens_served);
        self.completed += other.completed;
        self.failed += other.failed;
        self.revoked += other.revoked;
        self.cancelled.queued += other.cancelled.queued;
        self.cancelled.granted += other.cancelled.granted;
        self.cancelled.running += other.cancelled.running;
        for (own, other) in self.rejected.0.iter_mut().zip(other.rejected.0) {
            *own += other;
        }
    }
}

/// How far a request that has a slot has come. Later stages are larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// The inner service has not been called yet.
    Granted,
    Running,
    /// The head of its response has come.
    Streaming,
    /// It kept its slot for as long as its class says.
    Completed,
    Failed,
}

impl Stage {
    /// What the cancellation is called if the request ends at this stage; `None` if it is no cancellation.
    pub(super) fn cancelled(self) -> Option<&'static str> {
        match self {
            Self::Granted => Some("granted"),
            Self::Running | Self::Streaming => Some("running"),
            Self::Completed | Self::Failed => None,
        }
    }

    pub(super) fn from_u8(stage: u8) -> Self {
        match stage {
            0 => Self::Granted,
            1 => Self::Running,
            2 => Self::Streaming,
            3 => Self::Completed,
            _ => Self::Failed,
        }
    }
}
