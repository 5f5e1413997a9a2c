//! A policy class inside a dominion: its deficit, its lanes, and which of them may go.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::FairUnit;

use super::{
    Entry, Key, LaneId, Rank, Snapshot,
    heap::Positions,
    lane::{Head, Lane},
};

/// What is queued in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) requests: u64,
    pub(crate) raw_tokens: u64,
    pub(crate) cached_tokens: u64,
}

/// One class's queue.
#[derive(Debug)]
pub(super) struct Class {
    /// Tokens credited in each round.
    pub(super) quantum: u64,
    unit: FairUnit,
    /// Tokens credited and not yet spent; below 0 it is in debt. Without backlog never above 0.
    pub(super) deficit: i128,
    pub(super) backlog: Backlog,
    /// The lane that most classes have alone, and so outside of the tree of the others.
    shared: Lane,
    exact: BTreeMap<u32, Lane>,
    /// The exact lanes whose head passed the gate when it was last asked, the best head first.
    ready: BTreeSet<(Rank, u32)>,
    /// The best of all heads that passed, kept because each decision asks each class for it.
    candidate: Option<(LaneId, Head)>,
}

impl Class {
    pub(super) fn new(quantum: u64, unit: FairUnit) -> Self {
        Self {
            quantum,
            unit,
            deficit: 0,
            backlog: Backlog::default(),
            shared: Lane::default(),
            exact: BTreeMap::new(),
            ready: BTreeSet::new(),
            candidate: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.backlog.requests == 0
    }

    /// The best dispatchable head of all lanes.
    pub(super) fn candidate(&self) -> Option<(LaneId, Head)> {
        self.candidate
    }

    /// Credits this many quanta.
    pub(super) fn credit(&mut self, rounds: i128) {
        let credit = i128::from(self.quantum).saturating_mul(rounds);
        self.deficit = self.deficit.saturating_add(credit);
    }

    /// Takes tokens from the deficit, or gives some back.
    pub(super) fn charge(&mut self, tokens: i128) {
        self.deficit = self.deficit.saturating_sub(tokens);
        if self.is_empty() {
            self.deficit = self.deficit.min(0);
        }
    }

    /// What the candidate costs, in tokens.
    pub(super) fn price(&self) -> Option<i128> {
        self.candidate.map(|(_, head)| head.cost.into())
    }

    /// A copy of what may matter to the next `limit` services, and of as many blocked lanes.
    pub(super) fn first(&self, limit: usize, positions: &mut Positions) -> Self {
        // The next services take from that many lanes at most, the ones with the best heads: another
        // request of a lane comes into play only once the first one is gone.
        let ready: BTreeSet<_> = self.ready.iter().take(limit).copied().collect();
        let blocked = self.exact.iter().filter(|(_, lane)| lane.ready.is_none());
        let blocked = blocked.map(|(&worker, _)| worker).take(limit);
        let workers = ready.iter().map(|&(_, worker)| worker).chain(blocked);
        let exact: BTreeMap<u32, Lane> = workers
            .filter_map(|worker| Some((worker, self.exact.get(&worker)?.first(limit, positions))))
            .collect();
        let mut first = Self {
            quantum: self.quantum,
            unit: self.unit,
            deficit: self.deficit,
            backlog: Backlog::default(),
            shared: self.shared.first(limit, positions),
            exact,
            ready,
            candidate: self.candidate,
        };
        first.backlog.requests = first.keys().count() as u64;
        first
    }

    /// All requests, lane by lane, each lane's by tier and then client by client in the order of
    /// their turns.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let lanes = [&self.shared].into_iter().chain(self.exact.values());
        lanes.flat_map(Lane::keys)
    }

    #[cfg(test)]
    pub(super) fn heads(&self) -> impl Iterator<Item = Key> + '_ {
        let lanes = self.exact.values().chain([&self.shared]);
        lanes.filter_map(|lane| lane.head().map(|(_, key)| key))
    }

    fn lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        match id {
            LaneId::Shared => Some(&mut self.shared),
            LaneId::Worker(worker) => self.exact.get_mut(&worker),
        }
    }

    /// Adds a request; true if it became the head of its lane.
    pub(super) fn push<T>(
        &mut self,
        key: Key,
        entry: &Entry<T>,
        positions: &mut Positions,
    ) -> bool {
        let Backlog {
            requests,
            raw_tokens,
            cached_tokens,
        } = &mut self.backlog;
        *requests += 1;
        *raw_tokens = raw_tokens.saturating_add(entry.snapshot.raw());
        *cached_tokens = cached_tokens.saturating_add(entry.snapshot.cached());
        let lane = match entry.lane {
            LaneId::Shared => &mut self.shared,
            LaneId::Worker(worker) => self.exact.entry(worker).or_default(),
        };
        lane.push(self.unit, key, entry, positions)
    }

    /// Takes a request out of the middle of its lane; true if it was the lane's head.
    pub(super) fn remove<T>(
        &mut self,
        key: Key,
        entry: &Entry<T>,
        positions: &mut Positions,
    ) -> bool {
        self.discount(entry.snapshot);
        self.lane(entry.lane)
            .is_some_and(|lane| lane.remove(key, entry, positions))
    }

    /// Takes the head of a lane, which passes the turn to the lane's next client.
    pub(super) fn pop(&mut self, id: LaneId, snapshot: Snapshot, positions: &mut Positions) {
        self.discount(snapshot);
        let unit = self.unit;
        if let Some(lane) = self.lane(id) {
            lane.pop(unit, snapshot.cost(), positions);
        }
    }

    fn discount(&mut self, snapshot: Snapshot) {
        self.backlog.requests -= 1;
        if self.backlog.requests == 0 {
            // Also what saturated while it was summed up.
            self.backlog = Backlog::default();
            self.deficit = self.deficit.min(0);
        } else {
            self.backlog.raw_tokens = self.backlog.raw_tokens.saturating_sub(snapshot.raw());
            self.backlog.cached_tokens =
                self.backlog.cached_tokens.saturating_sub(snapshot.cached());
        }
    }

    /// Asks anew whether the head of a lane may go: `price` is what it costs, if it may.
    pub(super) fn recheck(&mut self, id: LaneId, price: impl FnOnce(Key) -> Option<u64>) {
        let Some(lane) = self.lane(id) else {
            return;
        };
        let head = lane.head().and_then(|(rank, key)| {
            let cost = price(key)?;
            Some(Head { rank, key, cost })
        });
        let before = std::mem::replace(&mut lane.ready, head);
        let emptied = lane.is_empty();
        let (old, new) = (before.map(|head| head.rank), head.map(|head| head.rank));
        if let LaneId::Worker(worker) = id {
            if emptied {
                self.exact.remove(&worker);
            }
            if old != new {
                if let Some(old) = old {
                    self.ready.remove(&(old, worker));
                }
                if let Some(new) = new {
                    self.ready.insert((new, worker));
                }
            }
        }
        // What a request costs does not change.
        if old != new {
            self.candidate = self.best();
        }
    }

    fn best(&self) -> Option<(LaneId, Head)> {
        let shared = self.shared.ready.map(|head| (LaneId::Shared, head));
        let exact = self.ready.first().and_then(|(_, worker)| {
            let head = self.exact.get(worker)?.ready?;
            Some((LaneId::Worker(*worker), head))
        });
        match (shared, exact) {
            (Some(shared), Some(exact)) if exact.1.rank < shared.1.rank => Some(exact),
            _ => shared.or(exact),
        }
    }
}
