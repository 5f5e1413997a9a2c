//! What a dominion looks like at one moment: plain values, to be shown or serialized.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::tally::Totals;

/// A dominion at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DominionSnapshot {
    /// Its id; none for the place of requests without a dominion.
    pub id: Option<Arc<str>>,
    /// Its limits hold. Otherwise it admits everybody at once: see `would_be`.
    pub enforced: bool,
    /// It was closed: whoever comes is turned away.
    pub closed: bool,
    /// Requests that may run at the same time; none: unlimited.
    pub slots: Option<usize>,
    /// Requests that have a slot.
    pub in_use: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that may wait; none: as many as their classes let.
    pub max_queue: Option<usize>,
    /// Those of them that may be of one client; none: all.
    pub max_queue_per_client: Option<usize>,
    /// How long the one waits that has waited longest, in milliseconds.
    pub oldest_wait_ms: Option<u64>,
    /// Index of the class that was served last, while it may go on without new credit.
    pub burst: Option<usize>,
    /// Index of the class at which the next round begins.
    pub cursor: usize,
    /// For how long a slot was free beside a request that could have used it, in milliseconds. It
    /// should be 0.
    pub idle_beside_waiter_ms: u64,
    /// What the classes' `share` is of, in milliseconds up to now: about a minute; less in a layer
    /// that is younger, more if for longer than that nobody had to wait and nobody looked.
    pub window_ms: u64,
    /// Uncached input tokens of the requests that were given a slot in that window, for each second
    /// of it.
    pub tokens_per_second: f64,
    /// The classes of all profiles, in the order of the ring.
    pub classes: Vec<ClassSnapshot>,
    /// What became of requests of classes that a reload has removed.
    pub former_classes: Totals,
    /// The workers; the one without an id stands for all where the policy names none.
    pub workers: Vec<WorkerSnapshot>,
    /// The labels under which somebody waits, and `default`; none without `fair_scheduling`.
    pub clients: Vec<ClientSnapshot>,
    /// Requests that wait, in the order in which they will be served if nobody comes or goes; the
    /// blocked ones last, the heads of their lanes first.
    pub waiters: Vec<WaiterSnapshot>,
    /// Requests that wait and are not among `waiters`.
    pub waiters_omitted: usize,
    /// Of a dominion that is not enforced: what it would be if it were.
    pub would_be: Option<Box<DominionSnapshot>>,
}

/// A policy class of a dominion at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// The model whose profile it belongs to; none for the root profile.
    pub profile: Option<Arc<str>>,
    /// Uncached tokens credited in each round.
    pub quantum: u64,
    /// Tokens credited and not spent; negative in debt.
    pub deficit: i64,
    /// Requests that wait.
    pub queued: u64,
    /// Their input tokens, cached ones included.
    pub queued_tokens: u64,
    /// Their cached input tokens.
    pub queued_cached_tokens: u64,
    /// Its part, from 0 to 1, of the tokens that were served in the dominion's window.
    pub share: f64,
    /// The part that its quantum promises: of the sum of its own and those of the other classes that
    /// have somebody waiting now. Over all classes these may come to more than 1.
    pub promised_share: f64,
    /// Uncached tokens that it was served for each second of the dominion's window.
    pub tokens_per_second: f64,
    /// How long a newcomer of average cost would wait, in milliseconds, as far as the recent past
    /// tells; none if nothing is known yet, or if the dominion is closed.
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
    /// Indexes of the classes for which it is busy.
    pub busy_for: Vec<usize>,
    /// It is drained: it gets no more requests.
    pub draining: bool,
    /// It is overloaded: it gets no more requests until that is over.
    pub overloaded: bool,
    /// It is a local model that the profile in force leaves out.
    pub unselected: bool,
    /// It was removed, and finishes what it has.
    pub removed: bool,
    /// Taints that keep requests away which do not tolerate them.
    pub taints: Vec<Box<str>>,
}

/// A client's label at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClientSnapshot {
    /// The label, or `default` for those without one, or one too many.
    pub label: Box<str>,
    /// Requests that wait under it.
    pub waiting: usize,
    /// Requests that had to wait and were served, since somebody waits under it; under `default`,
    /// since the layer was made.
    pub served: u64,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WaiterSnapshot {
    /// Its place in the order of service, from 1; none if it is blocked.
    pub position: Option<usize>,
    /// Index of its class.
    pub class: usize,
    /// Its class's name.
    pub class_name: Arc<str>,
    /// The worker it is pinned to; its lane.
    pub worker: Option<Arc<str>>,
    /// Its client's label, under `fair_scheduling`.
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

/// Why a request waits: in one [word](Self::word), and in one sentence ([`Display`](fmt::Display)).
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
        /// Slots there are.
        slots: Option<usize>,
    },
    /// The only worker it may go to is busy for its class.
    #[non_exhaustive]
    Worker {
        /// The worker's id.
        worker: Option<Arc<str>>,
        /// Tokens of prefill it has.
        prefill: u64,
        /// Tokens of prefill above which it is busy.
        limit: u64,
    },
    /// Too many of the workers it may go to are busy for its class.
    #[non_exhaustive]
    Workers {
        /// Those that are busy.
        busy: usize,
        /// Those that take requests.
        of: usize,
    },
    /// The workers it may go to take no requests: they are drained, overloaded, tainted or not
    /// loaded.
    Closed,
    /// The head of its lane is blocked.
    Blocked,
    /// It is its class's next, and another class's turn comes first.
    #[non_exhaustive]
    Class {
        /// Tokens its class has left.
        deficit: i64,
        /// Tokens it costs.
        cost: u64,
    },
    /// It is its client's next, and another client's turn comes first.
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

/// A number with its thousands set apart.
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
