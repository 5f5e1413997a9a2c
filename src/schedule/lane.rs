//! A lane: the requests of a class that wait for the same worker, or for any.

use std::collections::{BTreeMap, VecDeque};

use super::{
    ClientId, Key, Rank,
    order::{Place, Tier},
};

/// Which lane of a class: that of one exact worker, or the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneId {
    Shared,
    Worker(u32),
}

/// Waiting requests of which only the head may go: nobody overtakes it, even while it is blocked.
#[derive(Debug, Default)]
pub(super) struct Lane {
    tiers: BTreeMap<Tier, Turns>,
    /// The head, if it passed the gate when it was last asked.
    pub(super) ready: Option<Head>,
}

/// A head that may go, and what it costs in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) rank: Rank,
    pub(super) key: Key,
    pub(super) cost: u64,
}

/// The clients that wait in one tier of a lane, in the order of their turns.
///
/// Without fair scheduling all requests belong to one client and the ring has one place. It
/// never has more than the labels a dominion tells apart, so it is searched in order.
type Turns = VecDeque<(ClientId, BTreeMap<Place, Key>)>;

impl Lane {
    pub(super) fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// The request that goes next: of the highest tier, of the client whose turn it is.
    pub(super) fn head(&self) -> Option<(Rank, Key)> {
        let (&tier, turns) = self.tiers.first_key_value()?;
        let (_, queue) = turns.front()?;
        let (&place, &key) = queue.first_key_value()?;
        Some((Rank::of(tier, place), key))
    }

    pub(super) fn push(&mut self, client: ClientId, rank: Rank, key: Key) {
        let turns = self.tiers.entry(rank.tier()).or_default();
        match turns.iter_mut().find(|(waiting, _)| *waiting == client) {
            Some((_, queue)) => {
                queue.insert(rank.place(), key);
            }
            None => turns.push_back((client, BTreeMap::from([(rank.place(), key)]))),
        }
    }

    /// Takes a request out, wherever it stands. Its client keeps its turn.
    pub(super) fn remove(&mut self, client: ClientId, rank: Rank) {
        let Some(turns) = self.tiers.get_mut(&rank.tier()) else {
            return;
        };
        if let Some(turn) = turns.iter().position(|(waiting, _)| *waiting == client) {
            turns[turn].1.remove(&rank.place());
            if turns[turn].1.is_empty() {
                turns.remove(turn);
            }
        }
        if turns.is_empty() {
            self.tiers.remove(&rank.tier());
        }
    }

    /// Takes the head out and passes the turn on.
    pub(super) fn pop(&mut self) {
        let Some(mut tier) = self.tiers.first_entry() else {
            return;
        };
        let turns = tier.get_mut();
        if let Some((_, queue)) = turns.front_mut() {
            queue.pop_first();
            if queue.is_empty() {
                turns.pop_front();
            } else if turns.len() > 1 {
                turns.rotate_left(1);
            }
        }
        if turns.is_empty() {
            tier.remove();
        }
    }
}
