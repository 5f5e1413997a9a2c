//! The state of a dominion at one moment, as plain values to show or serialize.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::tally::Totals;

/// A dominion at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DominionSnapshot {
    /// Its id; `None` for the place of requests without a dominion.
    pub id: Option<Arc<str>>,
    /// Whether its limits are enforced. If not, it admits every request at once: see `would_be`.
    pub enforced: bool,
    /// Whether it is closed, and turns away all requests that come.
    pub closed: bool,
    /// How many requests may run at the same time; `None` if unlimited.
    pub slots: Option<usize>,
    /// Requests that have a slot.
    pub in_use: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// How many requests may wait; `None` if only the limits of their classes apply.
    pub max_queue: Option<usize>,
    /// How many of those may belong to one client; `None` if all of them may.
    pub max_queue_per_client: Option<usize>,
    /// How long the request that has waited longest has waited, in milliseconds; `None` if none waits.
    pub oldest_wait_ms: Option<u64>,
    /// Index of the class that was served last, as long as it may go on without new credit.
    pub burst: Option<usize>,
    /// Index of the class at which the next round begins.
    pub cursor: usize,
    /// For how long in total a slot was free while a request that could have used it was waiting, in
    /// milliseconds. It should be 0.
    pub idle_beside_waiter_ms: u64,
    /// The length of the window, up to now, in which shares and rates are measured, in milliseconds. It is
    /// about a minute: less in a younger layer, and more if for longer than that no request had to wait and
    /// no snapshot was taken.
    pub window_ms: u64,
    /// Uncached input tokens per second of the requests that were given a slot in that window.
    pub tokens_per_second: f64,
    /// The classes of all profiles, in the order of the ring.
    pub classes: Vec<ClassSnapshot>,
    /// What became of requests of classes that a reload has removed.
    pub former_classes: Totals,
    /// The workers. Where the policy names none, one without an id stands for them all.
    pub workers: Vec<WorkerSnapshot>,
    /// The labels under which requests wait, and `default` once a request has waited; empty without
    /// `fair_scheduling`.
    pub clients: Vec<ClientSnapshot>,
    /// Requests that wait, in the order in which they will be served if no others come or go. The blocked
    /// ones are last, and of those the heads of their lanes are first.
    pub waiters: Vec<WaiterSnapshot>,
    /// How many waiting requests are left out of `waiters`.
    pub waiters_omitted: usize,
    /// For a dominion that is not enforced: what it would look like if it were.
    pub would_be: Option<Box<DominionSnapshot>>,
}

/// A policy class of a dominion at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// The model whose profile it belongs to; `None` for the root profile.
    pub profile: Option<Arc<str>>,
    /// Uncached tokens credited in each round.
    pub quantum: u64,
    /// Tokens credited and not spent; negative while it is in debt.
    pub deficit: i64,
    /// Requests that wait.
    pub queued: u64,
    /// Their input tokens, cached ones included.
    pub queued_tokens: u64,
    /// Their cached input tokens.
    pub queued_cached_tokens: u64,
    /// Its share, from 0 to 1, of the tokens that were served in the dominion's window.
    pub share: f64,
    /// The share that its quantum promises: its part of the sum of its own quantum and those of the other
    /// classes in which requests wait now. Over all classes, these may add up to more than 1.
    pub promised_share: f64,
    /// Uncached tokens that it was served per second of the dominion's window.
    pub tokens_per_second: f64,
    /// How long a newcomer of average cost would wait, in milliseconds, judging by the recent past; `None` if
    /// nothing is known yet, or if the dominion is closed.
    pub estimated_wait_ms: Option<u64>,
    /// What became of its requests.
    pub totals: Totals,
}

/// A worker at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkerSnapshot {
    /// Its id.
    pub id: Option<Arc<str>>,
    /// Uncached tokens of its requests whose first byte has not come.
    pub prefill_tokens: u64,
    /// Requests it has.
    pub in_flight: u64,
    /// Indices of the classes for which it is busy.
    pub busy_for: Vec<usize>,
    /// Whether it is being drained: it gets no more requests.
    pub draining: bool,
    /// Whether it is overloaded: it gets no requests until that is over.
    pub overloaded: bool,
    /// Whether it is a local model that the profile in force leaves out.
    pub unselected: bool,
    /// Whether it was removed, and only finishes the requests it has.
    pub removed: bool,
    /// Its taints, which keep away requests that do not tolerate them.
    pub taints: Vec<Box<str>>,
}

/// A client's label at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClientSnapshot {
    /// The label, or `default` for requests without a label, or with one too many.
    pub label: Box<str>,
    /// Requests that wait under it.
    pub waiting: usize,
    /// Requests that waited under it and were served. A label counts from 0 again once no request waits under
    /// it, but `default` counts since the layer was made.
    pub served: u64,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaiterSnapshot {
    /// Its place in the order of service, from 1; `None` if it is blocked.
    pub position: Option<usize>,
    /// Index of its class.
    pub class: usize,
    /// Its class's name.
    pub class_name: Arc<str>,
    /// The worker that it is pinned to, whose lane it is in; `None` in the shared lane.
    pub worker: Option<Arc<str>>,
    /// Its client's label; `None` without `fair_scheduling`.
    pub client: Option<Box<str>>,
    /// Its cost in tokens.
    pub cost: u64,
    /// Its strict priority.
    pub tier: u32,
    /// How long it has waited, in milliseconds.
    pub age_ms: u64,
    /// Why it waits.
    pub why: WaitReason,
}

/// Why a request waits: in one [word](Self::word), or in a sentence ([`Display`](fmt::Display)).
///
/// It is serialized as both, `{"word": .., "sentence": ..}`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WaitReason {
    /// It is next, and no slot is free.
    #[non_exhaustive]
    Slot {
        /// Slots in use.
        in_use: usize,
        /// Slots in total; `None` if unlimited.
        slots: Option<usize>,
    },
    /// The only worker it may go to is busy for its class.
    #[non_exhaustive]
    Worker {
        /// The worker's id.
        worker: Option<Arc<str>>,
        /// Tokens of prefill that it has.
        prefill: u64,
        /// Tokens of prefill above which it is busy.
        limit: u64,
    },
    /// Too many of the workers it may go to are busy for its class.
    #[non_exhaustive]
    Workers {
        /// How many of them are busy.
        busy: usize,
        /// How many of them take requests.
        of: usize,
    },
    /// The workers it may go to take no requests: they are drained, overloaded, tainted or not
    /// loaded.
    Closed,
    /// The head of its lane is blocked.
    Blocked,
    /// It is the next of its class, but another class's turn comes first.
    #[non_exhaustive]
    Class {
        /// Tokens that its class has left.
        deficit: i64,
        /// Tokens that it costs.
        cost: u64,
    },
    /// It is the next of its client, but another client's turn comes first.
    Client,
    /// Others of its class go first.
    #[non_exhaustive]
    Order {
        /// How many.
        ahead: usize,
    },
}

impl WaitReason {
    /// The reason in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Slot { .. } => "slot",
            Self::Worker { .. } | Self::Workers { .. } => "busy",
            Self::Closed => "closed",
            Self::Blocked => "blocked",
            Self::Class { .. } => "class",
            Self::Client => "client",
            Self::Order { .. } => "order",
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot {
                in_use,
                slots: Some(slots),
            } => write!(f, "it is next; {in_use} of {slots} slots are in use"),
            Self::Slot { .. } => f.write_str("it is next"),
            Self::Worker {
                worker,
                prefill,
                limit,
            } => {
                f.write_str("its worker ")?;
                if let Some(worker) = worker {
                    write!(f, "{worker} ")?;
                }
                let (prefill, limit) = (Grouped(*prefill), Grouped(*limit));
                write!(f, "is busy for this class: {prefill} > {limit} tokens")
            }
            Self::Workers { busy, of } => {
                write!(f, "{busy} of its {of} workers are busy for this class")
            }
            Self::Closed => f.write_str("none of its workers takes requests now"),
            Self::Blocked => f.write_str("it is behind a blocked head of its lane"),
            Self::Class { deficit, cost } => {
                let (sign, deficit) = (if *deficit < 0 { "-" } else { "" }, deficit.unsigned_abs());
                write!(
                    f,
                    "it is not its class's turn: a deficit of {sign}{} tokens, of {} that it costs",
                    Grouped(deficit),
                    Grouped(*cost)
                )
            }
            Self::Client => f.write_str("it is another client's turn"),
            Self::Order { ahead: 1 } => f.write_str("another one of its class goes first"),
            Self::Order { ahead } => {
                write!(f, "{} of its class go first", Grouped(*ahead as u64))
            }
        }
    }
}

impl Serialize for WaitReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reason = serializer.serialize_struct("WaitReason", 2)?;
        reason.serialize_field("word", self.word())?;
        reason.serialize_field("sentence", &format_args!("{self}"))?;
        reason.end()
    }
}

/// A number whose thousands are separated by commas.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index) % 3 == 0 {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, written) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(Grouped(number).to_string(), written);
        }
    }
}
