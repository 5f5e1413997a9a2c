//! A lane: the requests of a class that wait for the same worker, or for any.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
};

use super::{ClientId, Key, Rank};

/// Which lane of a class: that of one exact worker, or the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneId {
    Shared,
    Worker(u32),
}

/// Waiting requests of which only the head may go: nobody overtakes it, even while it is blocked.
#[derive(Debug, Default)]
pub(super) struct Lane {
    tiers: BTreeMap<Reverse<u32>, Tier>,
    /// The head's rank if the lane stands among its class's dispatchable ones.
    pub(super) ready: Option<Rank>,
}

/// The clients that wait in one tier of a lane, in the order of their turns.
///
/// Without fair scheduling all requests belong to one client and the ring has one place. It
/// never has more than the labels a dominion tells apart, so it is searched in order.
#[derive(Debug, Default)]
struct Tier {
    turns: VecDeque<(ClientId, BTreeMap<Rank, Key>)>,
}

impl Lane {
    pub(super) fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// The request that goes next: of the highest tier, of the client whose turn it is.
    pub(super) fn head(&self) -> Option<(Rank, Key)> {
        let (_, tier) = self.tiers.first_key_value()?;
        let (_, queue) = tier.turns.front()?;
        queue.first_key_value().map(|(&rank, &key)| (rank, key))
    }

    pub(super) fn push(&mut self, client: ClientId, rank: Rank, key: Key) {
        let turns = &mut self.tiers.entry(rank.tier()).or_default().turns;
        match turns.iter_mut().find(|(waiting, _)| *waiting == client) {
            Some((_, queue)) => {
                queue.insert(rank, key);
            }
            None => turns.push_back((client, BTreeMap::from([(rank, key)]))),
        }
    }

    /// Takes a request out, wherever it stands. Its client keeps its turn.
    pub(super) fn remove(&mut self, client: ClientId, rank: Rank) {
        let Some(tier) = self.tiers.get_mut(&rank.tier()) else {
            return;
        };
        let turns = &mut tier.turns;
        if let Some(turn) = turns.iter().position(|(waiting, _)| *waiting == client) {
            turns[turn].1.remove(&rank);
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
        let turns = &mut tier.get_mut().turns;
        if let Some((client, mut queue)) = turns.pop_front() {
            queue.pop_first();
            if !queue.is_empty() {
                turns.push_back((client, queue));
            }
        }
        if turns.is_empty() {
            tier.remove();
        }
    }
}
