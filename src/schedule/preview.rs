//! A look ahead: who will be served in which order, if nobody comes or goes.
//!
//! In two steps, since the queues stand still only while their lock is held. [`Schedule::preview`] copies
//! the few requests of each class that may matter, in the class's own order, which depends on no other
//! class. [`Preview::into_order`] then has the ring choose among the classes, at leisure.

use std::time::Duration;

use super::{ClientId, Entry, Gate, LaneId, Rank, Schedule, Score, Snapshot, ring::Ring};
use crate::config::{FairUnit, QueuePolicy};

/// What a [`Schedule::preview`] knows of a waiting request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<P> {
    pub(crate) class: usize,
    pub(crate) lane: LaneId,
    pub(crate) client: ClientId,
    pub(crate) strict_priority: u32,
    pub(crate) snapshot: Snapshot,
    pub(crate) shown: P,
}

impl<P> Seen<P> {
    fn new<T>(entry: &Entry<T>, shown: P) -> Self {
        Self {
            class: entry.class,
            lane: entry.lane,
            client: entry.client,
            strict_priority: entry.rank.strict_priority(),
            snapshot: entry.snapshot,
            shown,
        }
    }
}

/// What was copied of a [`Schedule`].
#[derive(Debug)]
pub(crate) struct Preview<P> {
    limit: usize,
    ring: Ring,
    /// By class.
    next: Vec<Vec<Seen<P>>>,
    blocked: Vec<Seen<P>>,
}

/// Nobody is blocked among those who are next.
struct Open;

impl<T> Gate<T> for Open {
    fn open(&self, _: usize, _: &T) -> bool {
        true
    }
}

impl<T> Schedule<T> {
    /// Copies what it takes to tell the next `limit` requests and as many of the blocked ones. `show`
    /// says what is to be known of each, and is told whether it is the blocked head of a lane.
    ///
    /// Its time depends on `limit`, on the classes and a little on the lanes, and not on how many wait.
    pub(crate) fn preview<P>(
        &self,
        limit: usize,
        gate: &impl Gate<T>,
        mut show: impl FnMut(&Entry<T>, bool) -> P,
    ) -> Preview<P> {
        let mut seen = |key: super::Key, blocks| {
            let entry = &self.entries[key];
            Seen::new(entry, show(entry, blocks))
        };
        let (mut next, mut blocked) = (Vec::new(), Vec::new());
        for (index, class) in self.classes.iter().enumerate() {
            let open = |payload: &T| gate.open(index, payload);
            let ahead = class.look_ahead(limit, &self.entries, open);
            let copied = ahead.next.into_iter().map(|key| seen(key, false));
            next.push(copied.collect());
            blocked.push(ahead.blocked);
        }
        Preview {
            limit,
            ring: self.ring.idle(),
            next,
            blocked: heads_first(&blocked)
                .take(limit)
                .map(|(key, blocks)| seen(key, blocks))
                .collect(),
        }
    }
}

/// First the blocked heads, those of the classes in turns, then in turns those behind them.
fn heads_first<K: Copy>(classes: &[Vec<(K, bool)>]) -> impl Iterator<Item = (K, bool)> + '_ {
    let turns = classes.iter().map(Vec::len).max().unwrap_or(0);
    [true, false].into_iter().flat_map(move |heads| {
        let turn = move |turn: usize| classes.iter().filter_map(move |class| class.get(turn));
        let in_turns = (0..turns).flat_map(turn).copied();
        in_turns.filter(move |&(_, is_head)| is_head == heads)
    })
}

impl<P> Preview<P> {
    /// The requests that may go, in the order of service, as if each were served as soon as its turn
    /// has come; and the blocked ones, the heads of their lanes first.
    pub(crate) fn into_order(self) -> (Vec<Seen<P>>, Vec<Seen<P>>) {
        let mut schedule = Schedule::on(self.ring, FairUnit::Requests);
        // The order inside a class is known: its requests are as if they had come in it.
        let score = Score::new(QueuePolicy::Fcfs, Duration::ZERO, 0.0, 1);
        let next = self.next.into_iter().flatten();
        for (seen, number) in next.zip(0..) {
            let entry = Entry {
                class: seen.class,
                lane: LaneId::Shared,
                client: ClientId::SHARED,
                rank: Rank::new(0, score, number),
                snapshot: seen.snapshot,
                payload: seen,
            };
            schedule.push(entry, &Open);
        }
        // A class may have more than was copied, so nothing is known beyond the limit.
        let order = std::iter::from_fn(|| schedule.serve(&Open)).take(self.limit);
        (order.map(|entry| entry.payload).collect(), self.blocked)
    }
}
