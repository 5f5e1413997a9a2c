//! A look ahead: the order in which requests will be served if none arrives or leaves.
//!
//! It takes two steps, to hold the lock briefly. [`Schedule::preview`] copies the few requests of each class
//! that may matter, in the class's own order, which does not depend on other classes.
//! [`Preview::into_order`] then lets the ring choose among the classes, without the lock.

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

/// No request that is next is blocked.
struct Open;

impl<T> Gate<T> for Open {
    fn open(&self, _: usize, _: &T) -> bool {
        true
    }
}

impl<T> Schedule<T> {
    /// Copies what is needed to determine the next `limit` requests and as many of the blocked ones. `show`
    /// returns what to keep of each, and is told whether it is the blocked head of a lane.
    ///
    /// The time it takes depends on `limit`, on the classes and a little on the lanes, but not on how many
    /// requests wait.
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

/// The blocked heads first, alternating between the classes; then those behind them, in the same way.
fn heads_first<K: Copy>(classes: &[Vec<(K, bool)>]) -> impl Iterator<Item = (K, bool)> + '_ {
    let turns = classes.iter().map(Vec::len).max().unwrap_or(0);
    [true, false].into_iter().flat_map(move |heads| {
        let turn = move |turn: usize| classes.iter().filter_map(move |class| class.get(turn));
        let in_turns = (0..turns).flat_map(turn).copied();
        in_turns.filter(move |&(_, is_head)| is_head == heads)
    })
}

impl<P> Preview<P> {
    /// The requests that may go, in the order of service, as if each were served as soon as its turn came;
    /// and the blocked ones, heads of lanes first.
    pub(crate) fn into_order(self) -> (Vec<Seen<P>>, Vec<Seen<P>>) {
        let mut schedule = Schedule::on(self.ring, FairUnit::Requests);
        // The order inside a class is known: it is as if its requests had arrived in that order.
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
        // A class may have more requests than were copied, so nothing is known beyond the limit.
        let order = std::iter::from_fn(|| schedule.serve(&Open)).take(self.limit);
        (order.map(|entry| entry.payload).collect(), self.blocked)
    }
}
