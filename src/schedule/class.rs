//! A policy class inside a dominion: its lanes, and which of them may go.

use std::collections::BTreeMap;

use crate::config::FairUnit;

use super::{
    Entry, Key, LaneId, Rank, Snapshot,
    entries::Entries,
    exact::ExactLanes,
    lane::{Lane, Walk},
};

/// What is queued in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) requests: u64,
    pub(crate) raw_tokens: u64,
    pub(crate) cached_tokens: u64,
}

/// Who comes next in a class.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// In the order of service.
    pub(super) next: Vec<Key>,
    /// Each with whether it is the head of its lane; the heads come first.
    pub(super) blocked: Vec<(Key, bool)>,
}

/// Removes the lane with the best head, and returns both.
fn first<'a, T>(lanes: &mut BTreeMap<Rank, Walk<'a, T>>) -> Option<(Key, Walk<'a, T>)> {
    let (_, mut lane) = lanes.pop_first()?;
    let (_, key) = lane.head()?;
    Some((key, lane))
}

/// One class's queue.
#[derive(Debug)]
pub(super) struct Class {
    unit: FairUnit,
    requests: u64,
    /// Tokens. Wider than those of a request, so that sums do not saturate and can be undone exactly.
    raw: u128,
    cached: u128,
    /// Kept outside the exact lanes because most classes have no others.
    shared: Lane,
    exact: ExactLanes,
}

impl Class {
    pub(super) fn new(unit: FairUnit) -> Self {
        Self {
            unit,
            requests: 0,
            raw: 0,
            cached: 0,
            shared: Lane::default(),
            exact: ExactLanes::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// What is queued; token counts saturate.
    pub(super) fn backlog(&self) -> Backlog {
        let fits = |tokens| u64::try_from(tokens).unwrap_or(u64::MAX);
        Backlog {
            requests: self.requests,
            raw_tokens: fits(self.raw),
            cached_tokens: fits(self.cached),
        }
    }

    /// The best of all heads that may go, its lane and what it costs in tokens.
    #[inline]
    pub(super) fn candidate(&self) -> Option<(LaneId, Key, u64)> {
        let of = |id, lane: &Lane| {
            let (rank, key, price) = lane.ready()?;
            Some((rank, (id, key, price)))
        };
        let shared = of(LaneId::Shared, &self.shared);
        let exact = self.exact.best().next();
        let exact =
            exact.and_then(|(_, worker)| of(LaneId::Worker(worker), self.exact.get(worker)?));
        let best = match (shared, exact) {
            (Some(shared), Some(exact)) if exact.0 < shared.0 => exact,
            (shared, exact) => shared.or(exact)?,
        };
        Some(best.1)
    }

    /// The next `limit` requests in the order in which the class would serve them, and as many of the
    /// blocked ones, the best heads first. `open` says whether a request may go.
    ///
    /// It visits no more requests than it returns, however long the lanes are.
    pub(super) fn look_ahead<T>(
        &self,
        limit: usize,
        entries: &Entries<T>,
        open: impl Fn(&T) -> bool,
    ) -> Ahead {
        let mut ahead = Ahead::default();
        // A lane comes into play only after all lanes with better heads, so `limit` lanes are enough.
        let ready = self.exact.best().take(limit);
        let ready = ready.filter_map(|(rank, worker)| {
            Some((rank, self.exact.get(worker)?.walk(self.unit, entries)))
        });
        let mut lanes: BTreeMap<Rank, Walk<'_, T>> = ready.collect();
        if let Some((rank, ..)) = self.shared.ready() {
            lanes.insert(rank, self.shared.walk(self.unit, entries));
        }
        let mut blocked = BTreeMap::new();
        while ahead.next.len() < limit {
            let Some((key, mut lane)) = first(&mut lanes) else {
                break;
            };
            ahead.next.push(key);
            lane.pop(entries[key].snapshot.cost());
            if let Some((rank, key)) = lane.head() {
                let open = open(&entries[key].payload);
                let side = if open { &mut lanes } else { &mut blocked };
                side.insert(rank, lane);
            }
        }

        let is_blocked = |lane: &&Lane| lane.price.is_none();
        let exact = self.exact.iter().filter(is_blocked);
        // Their number is known, so the search can stop at the last one.
        let exact = exact.take(limit.min(self.exact.len() - self.exact.ready()));
        for lane in exact.chain([&self.shared].into_iter().filter(is_blocked)) {
            if let Some((rank, _)) = lane.head() {
                blocked.insert(rank, lane.walk(self.unit, entries));
            }
        }
        let mut behind = BTreeMap::new();
        while ahead.blocked.len() < limit {
            let heads = !blocked.is_empty();
            let lanes = if heads { &mut blocked } else { &mut behind };
            let Some((key, mut lane)) = first(lanes) else {
                break;
            };
            ahead.blocked.push((key, heads));
            lane.pop(entries[key].snapshot.cost());
            if let Some((rank, _)) = lane.head() {
                behind.insert(rank, lane);
            }
        }
        ahead
    }

    /// All requests, lane by lane, each lane's by tier and then client by client in the order of
    /// their turns.
    pub(super) fn keys<T>(&self, entries: &Entries<T>) -> impl Iterator<Item = Key> {
        let lanes = [&self.shared].into_iter().chain(self.exact.iter());
        lanes.flat_map(|lane| lane.keys(entries))
    }

    #[cfg(test)]
    pub(super) fn exact_lanes(&self) -> usize {
        self.exact.len()
    }

    #[cfg(test)]
    pub(super) fn heads(&self) -> impl Iterator<Item = Key> + '_ {
        let lanes = self.exact.iter().chain([&self.shared]);
        lanes.filter_map(|lane| lane.head().map(|(_, key)| key))
    }

    fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        match id {
            LaneId::Shared => Some(&mut self.shared),
            LaneId::Worker(worker) => self.exact.get_mut(worker),
        }
    }

    /// Adds a request; true if it became the head of its lane.
    pub(super) fn push<T>(&mut self, key: Key, entries: &mut Entries<T>) -> bool {
        let Entry { lane, snapshot, .. } = entries[key];
        self.requests += 1;
        self.raw += u128::from(snapshot.raw());
        self.cached += u128::from(snapshot.cached());
        let lane = match lane {
            LaneId::Shared => &mut self.shared,
            LaneId::Worker(worker) => self.exact.get_or_new(worker),
        };
        lane.push(self.unit, key, entries)
    }

    /// Removes a request from anywhere in its lane; true if it was the lane's head.
    pub(super) fn remove<T>(&mut self, key: Key, entries: &mut Entries<T>) -> bool {
        let Entry { lane, snapshot, .. } = entries[key];
        self.discount(snapshot);
        self.lane_mut(lane)
            .is_some_and(|lane| lane.remove(key, entries))
    }

    /// Removes the head of a lane, and passes the turn to the lane's next client.
    pub(super) fn pop<T>(&mut self, id: LaneId, head: Key, entries: &mut Entries<T>) {
        let snapshot = entries[head].snapshot;
        self.discount(snapshot);
        let unit = self.unit;
        if let Some(lane) = self.lane_mut(id) {
            lane.pop(unit, snapshot.cost(), entries);
        }
    }

    fn discount(&mut self, snapshot: Snapshot) {
        self.requests -= 1;
        self.raw -= u128::from(snapshot.raw());
        self.cached -= u128::from(snapshot.cached());
    }

    /// Checks again whether the head of a lane may go; `price` returns its cost, in tokens, if it may.
    pub(super) fn recheck(&mut self, id: LaneId, price: impl FnOnce(Key) -> Option<u64>) {
        let Some(lane) = self.lane_mut(id) else {
            return;
        };
        lane.price = lane.head().and_then(|(_, key)| price(key));
        if let LaneId::Worker(worker) = id {
            self.exact.update(worker);
        }
    }
}
