//! The levels below the layer, for this crate's own benchmarks and fuzzing. Not part of the API: it may
//! change or disappear in any release.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    PolicyConfig,
    config::{FairUnit, QueuePolicy},
    pool::{self, Entrance},
    schedule::{self, ClientId, Clients, Entry, Key, LaneId, Rank, Score, Snapshot},
};

/// A queue of deficit round robin classes, without slots or workers.
#[derive(Debug)]
pub struct Queue<T> {
    schedule: schedule::Schedule<T>,
    orders: Vec<QueuePolicy>,
    clients: Clients,
    arrivals: u64,
}

/// A class of a [`Queue`].
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Tokens per round.
    pub quantum: u64,
    /// Smallest first instead of first come, first served.
    pub wspt: bool,
}

/// An arrival at a [`Queue`].
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Index of the class.
    pub class: usize,
    /// In tokens.
    pub cost: u64,
    /// Time since the queue was created.
    pub after: Duration,
    /// The worker it is pinned to.
    pub worker: Option<u32>,
}

/// Where an arrival stands among the others of its class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing<'a> {
    /// Its strict priority.
    pub tier: u32,
    /// Its priority jump: seconds, or a weight under WSPT.
    pub jump: f64,
    /// The label under which it takes turns.
    pub client: Option<&'a str>,
}

/// Identifies a request that waits in a [`Queue`].
#[derive(Clone, Copy, Debug)]
pub struct Place(Key);

struct Gate<F>(F);

impl<T, F: Fn(usize, &T) -> bool> schedule::Gate<T> for Gate<F> {
    fn open(&self, class: usize, payload: &T) -> bool {
        self.0(class, payload)
    }
}

impl<T> Queue<T> {
    /// Creates an empty queue whose clients take turns by requests.
    pub fn new(classes: &[Class]) -> Self {
        Self::with_unit(classes, FairUnit::Requests)
    }

    /// Creates an empty queue whose clients take turns by tokens.
    pub fn fair_by_tokens(classes: &[Class]) -> Self {
        Self::with_unit(classes, FairUnit::Tokens)
    }

    fn with_unit(classes: &[Class], unit: FairUnit) -> Self {
        let order = |class: &Class| match class.wspt {
            true => QueuePolicy::Wspt,
            false => QueuePolicy::Fcfs,
        };
        Self {
            schedule: schedule::Schedule::new(classes.iter().map(|class| class.quantum), unit),
            orders: classes.iter().map(order).collect(),
            clients: Clients::default(),
            arrivals: 0,
        }
    }

    /// Adds a request. `open` says whether a request of that class, with that payload, is dispatchable.
    pub fn push(
        &mut self,
        arrival: Arrival,
        payload: T,
        open: impl Fn(usize, &T) -> bool,
    ) -> Place {
        self.push_as(arrival, Standing::default(), payload, open)
    }

    /// Adds a request with a standing of its own.
    pub fn push_as(
        &mut self,
        arrival: Arrival,
        standing: Standing<'_>,
        payload: T,
        open: impl Fn(usize, &T) -> bool,
    ) -> Place {
        let Arrival {
            class, cost, after, ..
        } = arrival;
        let Standing { tier, jump, client } = standing;
        self.arrivals += 1;
        let snapshot = Snapshot::new(cost, 0);
        let score = Score::new(self.orders[class], after, jump, snapshot.cost());
        let entry = Entry {
            class,
            lane: lane(arrival.worker),
            client: client.map_or(ClientId::SHARED, |label| self.clients.join(Some(label))),
            rank: Rank::new(tier, score, self.arrivals),
            snapshot,
            payload,
        };
        Place(self.schedule.push(entry, &Gate(open)))
    }

    /// Removes and returns the request whose turn it is, with its class.
    pub fn serve(&mut self, open: impl Fn(usize, &T) -> bool) -> Option<(usize, T)> {
        let entry = self.schedule.serve(&Gate(open))?;
        self.forget(entry.client);
        Some((entry.class, entry.payload))
    }

    /// Removes a request, wherever it waits.
    pub fn remove(&mut self, place: Place, open: impl Fn(usize, &T) -> bool) -> Option<T> {
        let entry = self.schedule.remove(place.0, &Gate(open))?;
        self.forget(entry.client);
        Some(entry.payload)
    }

    fn forget(&mut self, client: ClientId) {
        if client != ClientId::SHARED {
            self.clients.leave(client);
        }
    }

    /// Rechecks whether the head of a class's shared lane is dispatchable.
    pub fn recheck(&mut self, class: usize, open: impl Fn(usize, &T) -> bool) {
        self.recheck_lane(class, None, open);
    }

    /// Rechecks the head of a worker's lane, or of the shared one.
    pub fn recheck_lane(
        &mut self,
        class: usize,
        worker: Option<u32>,
        open: impl Fn(usize, &T) -> bool,
    ) {
        self.schedule.recheck(class, lane(worker), &Gate(open));
    }

    /// Rechecks the heads that depend on a worker, in all classes.
    pub fn recheck_worker(&mut self, worker: u32, open: impl Fn(usize, &T) -> bool) {
        self.schedule.recheck_worker(worker, &Gate(open));
    }

    /// Subtracts tokens from a class's deficit; a negative number gives some back.
    pub fn charge(&mut self, class: usize, tokens: i128) {
        self.schedule.charge(class, tokens);
    }

    /// How many requests wait, in all classes.
    pub fn waiting(&self) -> usize {
        self.schedule.len()
    }

    /// Tokens that a class was credited and has not spent; negative in debt.
    pub fn deficit(&self, class: usize) -> i128 {
        self.schedule.deficit(class)
    }

    /// How many requests wait in a class, and their tokens.
    pub fn backlog(&self, class: usize) -> (u64, u64) {
        let backlog = self.schedule.backlog(class);
        (backlog.requests, backlog.raw_tokens)
    }
}

fn lane(worker: Option<u32>) -> LaneId {
    worker.map_or(LaneId::Shared, LaneId::Worker)
}

/// A policy's first dominion.
#[derive(Debug)]
pub struct Pool(Arc<pool::Pool>);

/// What became of an arrival.
#[derive(Debug)]
pub enum Entered {
    /// It runs.
    Started(Permit),
    /// It waits.
    Parked(Ticket),
    /// It was turned away.
    Refused,
}

/// A slot.
#[derive(Debug)]
pub struct Permit(pool::Permit);

/// A place in the dominion's queue.
#[derive(Debug)]
pub struct Ticket(pool::Ticket);

impl Pool {
    /// Creates the pool of the policy's first dominion.
    pub fn new(policy: PolicyConfig) -> Self {
        Self(pool::Pool::new(Arc::new(policy), Some(0)))
    }

    /// Enters a request of a class, for one worker or for any.
    pub fn enter(&self, class: usize, tokens: u64, worker: Option<&str>) -> Entered {
        self.enter_as(class, tokens, worker, None)
    }

    /// Enters a request of a client.
    pub fn enter_as(
        &self,
        class: usize,
        tokens: u64,
        worker: Option<&str>,
        client: Option<&str>,
    ) -> Entered {
        let entrance = self.0.enter(&pool::Arrival {
            class,
            snapshot: Snapshot::new(tokens, 0),
            strict_priority: 0,
            priority_jump: 0.0,
            client,
            hint: None,
            wanted: pool::Wanted {
                worker,
                ..pool::Wanted::default()
            },
            max_queue_wait: None,
        });
        match entrance {
            Entrance::Admitted(permit) => Entered::Started(Permit(permit)),
            Entrance::Parked(ticket) => Entered::Parked(Ticket(ticket)),
            Entrance::TurnedAway(_) => Entered::Refused,
        }
    }

    /// Takes a snapshot that lists up to `waiters` waiting requests. Returns how long it held the lock,
    /// and how long it took in all.
    pub fn time_snapshot(&self, waiters: usize) -> [Duration; 2] {
        self.0.time_snapshot(waiters)
    }
}

impl Permit {
    /// Reports that the first byte came.
    pub fn end_prefill(&self) {
        self.0.end_prefill();
    }
}

impl Ticket {
    /// Waits for a slot; `None` if it was refused.
    pub fn poll_granted(&mut self, cx: &mut Context<'_>) -> Poll<Option<Permit>> {
        self.0
            .poll_granted(cx)
            .map(|granted| granted.ok().map(Permit))
    }
}
