//! A policy class inside a dominion: its lanes, and which of them may go.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::FairUnit;

use super::{
    Entry, Key, LaneId, Rank, Snapshot,
    exact::ExactLanes,
    lane::{Head, Lane, Walk},
    queue::Spots,
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
    /// With whether it is the head of its lane: those first.
    pub(super) blocked: Vec<(Key, bool)>,
}

/// Takes the lane with the best head out, and tells the head.
fn first<'a>(lanes: &mut BTreeMap<Rank, Walk<'a>>) -> Option<(Key, Walk<'a>)> {
    let (_, mut lane) = lanes.pop_first()?;
    let (_, key) = lane.head()?;
    Some((key, lane))
}

/// One class's queue.
#[derive(Debug)]
pub(super) struct Class {
    unit: FairUnit,
    pub(super) backlog: Backlog,
    /// The lane that most classes have alone, and so outside of the tree of the others.
    shared: Lane,
    exact: ExactLanes,
    /// The exact lanes whose head passed the gate when it was last asked, the best head first.
    ready: BTreeSet<(Rank, u32)>,
    /// The best of all heads that passed, kept because each decision asks each class for it.
    candidate: Option<(LaneId, Head)>,
}

impl Class {
    pub(super) fn new(unit: FairUnit) -> Self {
        Self {
            unit,
            backlog: Backlog::default(),
            shared: Lane::default(),
            exact: ExactLanes::default(),
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

    /// Its next `limit` requests in the order in which it would serve them, and as many of those that
    /// are blocked, the best heads first. `cost` is what a request costs, `open` whether it may go.
    ///
    /// It steps over no more requests than it tells, however long its lanes are.
    pub(super) fn look_ahead(
        &self,
        limit: usize,
        spots: &Spots,
        cost: impl Fn(Key) -> u64,
        open: impl Fn(Key) -> bool,
    ) -> Ahead {
        let mut ahead = Ahead::default();
        // A lane comes into play only once all lanes with better heads were served, so no more of
        // them than requests are wanted.
        let ready = self.ready.iter().take(limit);
        let ready = ready.filter_map(|(rank, worker)| {
            Some((*rank, self.exact.get(*worker)?.walk(self.unit, spots)))
        });
        let mut lanes: BTreeMap<Rank, Walk<'_>> = ready.collect();
        if let Some(head) = self.shared.ready {
            lanes.insert(head.rank, self.shared.walk(self.unit, spots));
        }
        let mut blocked = BTreeMap::new();
        while ahead.next.len() < limit {
            let Some((key, mut lane)) = first(&mut lanes) else {
                break;
            };
            ahead.next.push(key);
            lane.pop(cost(key));
            if let Some((rank, key)) = lane.head() {
                let side = if open(key) { &mut lanes } else { &mut blocked };
                side.insert(rank, lane);
            }
        }

        let is_blocked = |lane: &&Lane| lane.ready.is_none();
        let exact = self.exact.iter().filter(is_blocked);
        // Counted first, so that the search ends with the last one.
        let exact = exact.take(limit.min(self.exact.len() - self.ready.len()));
        for lane in exact.chain([&self.shared].into_iter().filter(is_blocked)) {
            if let Some((rank, _)) = lane.head() {
                blocked.insert(rank, lane.walk(self.unit, spots));
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
            lane.pop(cost(key));
            if let Some((rank, _)) = lane.head() {
                behind.insert(rank, lane);
            }
        }
        ahead
    }

    /// All requests, lane by lane, each lane's by tier and then client by client in the order of
    /// their turns.
    pub(super) fn keys(&self, spots: &Spots) -> impl Iterator<Item = Key> {
        let lanes = [&self.shared].into_iter().chain(self.exact.iter());
        lanes.flat_map(|lane| lane.keys(spots))
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

    fn lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        match id {
            LaneId::Shared => Some(&mut self.shared),
            LaneId::Worker(worker) => self.exact.get_mut(worker),
        }
    }

    /// Adds a request; true if it became the head of its lane.
    pub(super) fn push<T>(&mut self, key: Key, entry: &Entry<T>, spots: &mut Spots) -> bool {
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
            LaneId::Worker(worker) => self.exact.get_or_new(worker),
        };
        lane.push(self.unit, key, entry, spots)
    }

    /// Takes a request out of the middle of its lane; true if it was the lane's head.
    pub(super) fn remove<T>(&mut self, key: Key, entry: &Entry<T>, spots: &mut Spots) -> bool {
        self.discount(entry.snapshot);
        self.lane(entry.lane)
            .is_some_and(|lane| lane.remove(key, entry, spots))
    }

    /// Takes the head of a lane, which passes the turn to the lane's next client.
    pub(super) fn pop(&mut self, id: LaneId, snapshot: Snapshot, spots: &mut Spots) {
        self.discount(snapshot);
        let unit = self.unit;
        if let Some(lane) = self.lane(id) {
            lane.pop(unit, snapshot.cost(), spots);
        }
    }

    fn discount(&mut self, snapshot: Snapshot) {
        self.backlog.requests -= 1;
        if self.backlog.requests == 0 {
            // Also what saturated while it was summed up.
            self.backlog = Backlog::default();
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
                self.exact.remove(worker);
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
            let head = self.exact.get(*worker)?.ready?;
            Some((LaneId::Worker(*worker), head))
        });
        match (shared, exact) {
            (Some(shared), Some(exact)) if exact.1.rank < shared.1.rank => Some(exact),
            _ => shared.or(exact),
        }
    }
}
