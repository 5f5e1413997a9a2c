//! A lane: the requests of a class that wait for the same worker, or for any.

use std::{
    collections::{BTreeMap, VecDeque, btree_map},
    iter::Peekable,
};

use crate::config::FairUnit;

use super::{
    ClientId, Entry, Key, Rank,
    entries::Entries,
    order::{Place, Tier},
    queue::{InOrder, Queue},
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
    /// The highest tier, kept outside the tree of the others because most lanes have only one.
    top: Option<(Tier, Turns)>,
    lower: BTreeMap<Tier, Turns>,
    /// What the head costs, in tokens, if the gate let it through when last asked.
    pub(super) price: Option<u64>,
}

/// The clients that wait in one tier of a lane, in the order of their turns.
///
/// A dominion tells few labels apart, so a linear search will do.
#[derive(Debug)]
struct Turns {
    /// Whose turn it is. Without fair scheduling all requests belong to one client.
    now: Turn,
    later: VecDeque<Turn>,
}

/// A client's requests.
#[derive(Debug)]
struct Turn<Q = Queue> {
    client: ClientId,
    queue: Q,
    /// Tokens that the client was served, for turns weighed by tokens. A client that joins starts level
    /// with the one that was served least.
    served: u64,
}

impl Lane {
    pub(super) fn is_empty(&self) -> bool {
        self.top.is_none()
    }

    /// The request that goes next: of the highest tier, of the client whose turn it is.
    #[inline]
    pub(super) fn head(&self) -> Option<(Rank, Key)> {
        let (tier, turns) = self.top.as_ref()?;
        let (place, key) = turns.now.queue.first()?;
        Some((Rank::of(*tier, place), key))
    }

    /// The head and what it costs, in tokens, if it may go.
    #[inline]
    pub(super) fn ready(&self) -> Option<(Rank, Key, u64)> {
        let price = self.price?;
        let (rank, key) = self.head()?;
        Some((rank, key, price))
    }

    /// Its requests in the order in which they would leave it.
    pub(super) fn walk<'a, T>(&'a self, unit: FairUnit, entries: &'a Entries<T>) -> Walk<'a, T> {
        Walk {
            unit,
            entries,
            top: self.top.as_ref(),
            lower: self.lower.iter(),
            tier: Tier::default(),
            turns: VecDeque::new(),
        }
    }

    /// All requests, by tier, then client by client in the order of their turns.
    pub(super) fn keys<T>(&self, entries: &Entries<T>) -> impl Iterator<Item = Key> {
        let top = self.top.iter().map(|(_, turns)| turns);
        let turns = top.chain(self.lower.values()).flat_map(Turns::iter);
        turns.flat_map(|turn| turn.queue.keys(entries))
    }

    /// Adds a request; true if it became the head.
    pub(super) fn push<T>(&mut self, unit: FairUnit, key: Key, entries: &mut Entries<T>) -> bool {
        let Entry { client, rank, .. } = entries[key];
        let turns = self.turns(rank.tier(), client);
        turns.push(unit, client, rank.place(), key, entries) && self.is_head(key)
    }

    /// The turns of a tier. If nobody waits in it, `client` has the first turn.
    fn turns(&mut self, tier: Tier, client: ClientId) -> &mut Turns {
        if self.top.as_ref().is_none_or(|(top, _)| tier < *top) {
            // The previous highest tier joins the lower ones.
            let top = self.top.replace((tier, Turns::new(client)));
            self.lower.extend(top);
        }
        match &mut self.top {
            Some((top, turns)) if *top == tier => turns,
            _ => {
                let turns = self.lower.entry(tier);
                turns.or_insert_with(|| Turns::new(client))
            }
        }
    }

    fn is_head(&self, key: Key) -> bool {
        self.head().is_some_and(|(_, head)| head == key)
    }

    /// Removes a request from anywhere in the lane; true if it was the head. Its client keeps its turn.
    pub(super) fn remove<T>(&mut self, key: Key, entries: &mut Entries<T>) -> bool {
        let was_head = self.is_head(key);
        let Entry { client, rank, .. } = entries[key];
        let tier = rank.tier();
        match &mut self.top {
            Some((top, turns)) if *top == tier => {
                if turns.remove(client, key, entries) {
                    self.top = self.lower.pop_first();
                }
            }
            _ => {
                let lower = self.lower.get_mut(&tier);
                if lower.is_some_and(|turns| turns.remove(client, key, entries)) {
                    self.lower.remove(&tier);
                }
            }
        }
        was_head
    }

    /// Removes the head, which costs `cost` tokens, and passes the turn on.
    pub(super) fn pop<T>(&mut self, unit: FairUnit, cost: u64, entries: &mut Entries<T>) {
        let top = self.top.as_mut();
        if top.is_some_and(|(_, turns)| turns.pop(unit, cost, entries)) {
            self.top = self.lower.pop_first();
        }
    }
}

impl Turns {
    /// The turns of a tier whose first client is about to add its first request.
    fn new(client: ClientId) -> Self {
        Self {
            now: Turn::new(client, 0),
            later: VecDeque::new(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Turn> {
        [&self.now].into_iter().chain(&self.later)
    }

    /// Adds a request; true if it goes next.
    fn push<T>(
        &mut self,
        unit: FairUnit,
        client: ClientId,
        place: Place,
        key: Key,
        entries: &mut Entries<T>,
    ) -> bool {
        if self.now.client == client {
            return self.now.queue.push(place, key, entries);
        }
        let known = self.later.iter_mut().find(|turn| turn.client == client);
        if let Some(turn) = known {
            turn.queue.push(place, key, entries);
        } else {
            let mut turn = Turn::new(client, self.now.served);
            turn.queue.push(place, key, entries);
            pass(&mut self.later, unit, turn);
        }
        false
    }

    /// Removes a request; true if nobody waits any more. Its client keeps its turn.
    fn remove<T>(&mut self, client: ClientId, key: Key, entries: &mut Entries<T>) -> bool {
        if self.now.client == client {
            self.now.queue.remove(key, entries);
            return self.now.queue.is_empty() && !self.advance();
        }
        let index = self.later.iter().position(|turn| turn.client == client);
        if let Some(index) = index {
            self.later[index].queue.remove(key, entries);
            if self.later[index].queue.is_empty() {
                self.later.remove(index);
            }
        }
        false
    }

    /// Removes the next request, which costs `cost` tokens, and passes the turn on; true if nobody waits
    /// any more.
    fn pop<T>(&mut self, unit: FairUnit, cost: u64, entries: &mut Entries<T>) -> bool {
        self.now.queue.pop(entries);
        let is_over = self.now.queue.is_empty();
        if self.later.is_empty() {
            // There is no other client to pass the turn to.
            return is_over;
        }
        if !is_over {
            let passed = Turn {
                client: self.now.client,
                queue: std::mem::take(&mut self.now.queue),
                served: self.now.served.saturating_add(cost),
            };
            pass(&mut self.later, unit, passed);
        }
        !self.advance()
    }

    /// Moves on to the next client; false if there is none.
    fn advance(&mut self) -> bool {
        let Some(next) = self.later.pop_front() else {
            return false;
        };
        self.now = next;
        true
    }
}

impl Turn {
    fn new(client: ClientId, served: u64) -> Self {
        Self {
            client,
            queue: Queue::default(),
            served,
        }
    }
}

/// Queues a client's next turn behind those that come before it.
fn pass<Q>(turns: &mut VecDeque<Turn<Q>>, unit: FairUnit, turn: Turn<Q>) {
    match unit {
        FairUnit::Requests => turns.push_back(turn),
        FairUnit::Tokens => {
            let place = turns.partition_point(|other| other.served <= turn.served);
            turns.insert(place, turn);
        }
    }
}

/// Walks through a lane's requests in order, without changing the lane.
#[derive(Debug)]
pub(super) struct Walk<'a, T> {
    unit: FairUnit,
    entries: &'a Entries<T>,
    /// The highest tier, until the walk has reached it.
    top: Option<&'a (Tier, Turns)>,
    /// The tiers that the walk has not reached.
    lower: btree_map::Iter<'a, Tier, Turns>,
    tier: Tier,
    /// What is left of the current tier.
    turns: VecDeque<Turn<Peekable<InOrder<'a, T>>>>,
}

impl<T> Walk<'_, T> {
    /// The request that goes next.
    pub(super) fn head(&mut self) -> Option<(Rank, Key)> {
        while self.turns.is_empty() {
            let top = self.top.take().map(|(tier, turns)| (tier, turns));
            let (tier, turns) = top.or_else(|| self.lower.next())?;
            self.tier = *tier;
            let turns = turns.iter().map(|turn| Turn {
                client: turn.client,
                queue: turn.queue.in_order(self.entries).peekable(),
                served: turn.served,
            });
            self.turns.extend(turns);
        }
        let &(place, key) = self.turns.front_mut()?.queue.peek()?;
        Some((Rank::of(self.tier, place), key))
    }

    /// Steps past the head, which costs `cost` tokens.
    pub(super) fn pop(&mut self, cost: u64) {
        if let Some(mut turn) = self.turns.pop_front() {
            turn.queue.next();
            turn.served = turn.served.saturating_add(cost);
            if turn.queue.peek().is_some() {
                pass(&mut self.turns, self.unit, turn);
            }
        }
    }
}
