//! A policy class inside a dominion: its deficit, its lanes, and which of them may go.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClientId, Key, LaneId, Rank, Snapshot, lane::Lane};

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
    /// Tokens credited and not yet spent; 0 without backlog.
    pub(super) deficit: u64,
    pub(super) backlog: Backlog,
    lanes: BTreeMap<LaneId, Lane>,
    /// The heads of the lanes that may go, the best first. A lane is in here exactly if its
    /// head passed the gate when it was last asked.
    ready: BTreeSet<(Rank, LaneId)>,
}

impl Class {
    pub(super) fn new(quantum: u64) -> Self {
        Self {
            quantum,
            deficit: 0,
            backlog: Backlog::default(),
            lanes: BTreeMap::new(),
            ready: BTreeSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.backlog.requests == 0
    }

    /// The best dispatchable head of all lanes.
    pub(super) fn candidate(&self) -> Option<(LaneId, Key)> {
        let &(_, id) = self.ready.first()?;
        let (_, key) = self.lanes.get(&id)?.head()?;
        Some((id, key))
    }

    #[cfg(test)]
    pub(super) fn heads(&self) -> impl Iterator<Item = Key> + '_ {
        self.lanes
            .values()
            .filter_map(|lane| lane.head().map(|(_, key)| key))
    }

    /// Adds a request; true if it became the head of its lane.
    pub(super) fn push(
        &mut self,
        id: LaneId,
        client: ClientId,
        rank: Rank,
        key: Key,
        snapshot: Snapshot,
    ) -> bool {
        self.backlog.requests += 1;
        self.backlog.raw_tokens = self.backlog.raw_tokens.saturating_add(snapshot.raw());
        self.backlog.cached_tokens = self.backlog.cached_tokens.saturating_add(snapshot.cached());
        let lane = self.lanes.entry(id).or_default();
        lane.push(client, rank, key);
        lane.head() == Some((rank, key))
    }

    /// Takes a request out of the middle of its lane; true if it was the lane's head.
    pub(super) fn remove(
        &mut self,
        id: LaneId,
        client: ClientId,
        rank: Rank,
        snapshot: Snapshot,
    ) -> bool {
        self.discount(snapshot);
        let Some(lane) = self.lanes.get_mut(&id) else {
            return false;
        };
        let was_head = lane.head().is_some_and(|(head, _)| head == rank);
        lane.remove(client, rank);
        was_head
    }

    /// Takes the head of a lane, which passes the turn to the lane's next client.
    pub(super) fn pop(&mut self, id: LaneId, snapshot: Snapshot) {
        self.discount(snapshot);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.pop();
        }
    }

    fn discount(&mut self, snapshot: Snapshot) {
        self.backlog.requests -= 1;
        if self.backlog.requests == 0 {
            // Also what saturated while it was summed up.
            self.backlog = Backlog::default();
            self.deficit = 0;
        } else {
            self.backlog.raw_tokens = self.backlog.raw_tokens.saturating_sub(snapshot.raw());
            self.backlog.cached_tokens =
                self.backlog.cached_tokens.saturating_sub(snapshot.cached());
        }
    }

    /// Asks anew whether the head of a lane may go; true if the class has any that may.
    pub(super) fn recheck(&mut self, id: LaneId, open: impl FnOnce(Key) -> bool) -> bool {
        if let Some(lane) = self.lanes.get_mut(&id) {
            let head = lane.head().filter(|&(_, key)| open(key));
            let head = head.map(|(rank, _)| rank);
            if head != lane.ready {
                if let Some(old) = lane.ready {
                    self.ready.remove(&(old, id));
                }
                if let Some(new) = head {
                    self.ready.insert((new, id));
                }
                lane.ready = head;
            }
            if lane.is_empty() {
                self.lanes.remove(&id);
            }
        }
        !self.ready.is_empty()
    }
}
