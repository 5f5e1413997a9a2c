//! What the lock of a dominion guards, and every decision made under it.

use std::task::Waker;

use slab::Slab;
use tokio::time::Instant;

use super::{
    Arrival, LimitKind, Pool, Refusal,
    wake::WakeList,
    workers::{Assigned, Flipped, Parked, Workers},
};
use crate::{
    config::{ClassLimits, PolicyConfig, QueuePolicy},
    schedule::{Backlog, ClientId, Clients, Entry, Key, Rank, Schedule, Score},
};

#[derive(Debug)]
pub(super) struct State {
    schedule: Schedule<Parked>,
    waiters: Slab<Waiter>,
    clients: Clients,
    workers: Workers,
    /// Slots taken: one for each permit, and for each waiter that was granted and does not
    /// know it yet.
    in_use: usize,
    max_concurrency: Option<usize>,
    max_queue: Option<usize>,
    /// `policy: reject`.
    reject: bool,
    fair: bool,
    classes: Vec<ClassRules>,
    /// Arrivals so far; numbers them.
    arrivals: u64,
    closed: bool,
}

/// What the decisions of this floor need to know of a class.
#[derive(Debug)]
struct ClassRules {
    order: QueuePolicy,
    limits: ClassLimits,
}

/// A request that was parked and has not been taken away by its future yet.
#[derive(Debug)]
struct Waiter {
    status: Status,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
enum Status {
    Queued(Key),
    /// Owns a slot, and its uncached tokens are this worker's prefill.
    Granted {
        worker: u32,
    },
    Closed,
}

/// An arrival that was let in.
pub(super) enum Entered {
    Started(Assigned),
    Parked(usize, Instant),
}

/// What a waiter learns when it asks.
pub(super) enum Turn {
    NotYet,
    Granted(Assigned),
    Closed,
}

impl State {
    pub(super) fn new(policy: &PolicyConfig, dominion: Option<usize>) -> Self {
        let limits = dominion.map(|index| &policy.dominions[index]);
        let rules = |class: &crate::config::PolicyClass| ClassRules {
            order: class.order,
            limits: class.limits,
        };
        Self {
            schedule: Schedule::new(policy.classes.iter().map(|class| class.quantum.get())),
            waiters: Slab::new(),
            clients: Clients::default(),
            workers: Workers::new(policy, dominion),
            in_use: 0,
            max_concurrency: limits.and_then(|dominion| dominion.max_concurrency),
            max_queue: limits.map(|dominion| dominion.max_queue),
            reject: limits.is_some_and(|dominion| dominion.reject),
            fair: limits.is_some_and(|dominion| dominion.fair_scheduling),
            classes: policy.classes.iter().map(rules).collect(),
            arrivals: 0,
            closed: false,
        }
    }

    /// The one decision about an arrival.
    pub(super) fn enter(
        &mut self,
        pool: &Pool,
        arrival: &Arrival<'_>,
        wakes: &mut WakeList,
    ) -> Result<Entered, Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        let Arrival {
            class, snapshot, ..
        } = *arrival;
        let eligible = self
            .workers
            .eligible(arrival.model, arrival.worker, arrival.allowed_workers)
            .ok_or(Refusal::NoEligibleWorker)?;

        let backlog = self.schedule.backlog(class);
        if backlog.requests == 0 && self.has_slot() && self.workers.dispatchable(class, &eligible) {
            if let Some(worker) = self.workers.least_loaded(class, &eligible) {
                self.start(worker, snapshot.uncached());
                // It may have made a worker busy, never one less busy: nobody else can go now.
                return Ok(Entered::Started(self.workers.assigned(worker)));
            }
        }
        if self.reject {
            return Err(Refusal::Rejected);
        }
        self.check_limits(class, backlog)?;
        if let Some(max_queue) = self.max_queue.filter(|&max| self.schedule.len() >= max) {
            return Err(Refusal::Full { max_queue });
        }

        let arrived = Instant::now();
        let lane = eligible.lane();
        let client = if self.fair {
            self.clients.join(arrival.client)
        } else {
            ClientId::SHARED
        };
        let since_epoch = arrived.saturating_duration_since(pool.epoch);
        let score = Score::new(
            self.classes[class].order,
            since_epoch,
            arrival.priority_jump,
            snapshot.cost(),
        );
        self.arrivals += 1;
        let rank = Rank::new(arrival.strict_priority, score, self.arrivals);
        let waiter = self.waiters.vacant_key();
        let payload = Parked { waiter, eligible };
        let entry = Entry {
            class,
            lane,
            client,
            rank,
            snapshot,
            payload,
        };
        let key = self.schedule.push(entry, &self.workers);
        self.waiters.insert(Waiter {
            status: Status::Queued(key),
            waker: None,
        });
        self.arbitrate(wakes);
        Ok(Entered::Parked(waiter, arrived))
    }

    /// Compares a class's limits with what is queued already: the request that crosses one is
    /// still let in.
    fn check_limits(&self, class: usize, queued: Backlog) -> Result<(), Refusal> {
        let limits = self.classes[class].limits;
        let workers = self.workers.len() as u64;
        for (kind, current, per_worker) in [
            (LimitKind::Requests, queued.requests, limits.requests),
            (
                LimitKind::RawIslTokens,
                queued.raw_tokens,
                limits.raw_isl_tokens,
            ),
            (
                LimitKind::CachedTokens,
                queued.cached_tokens,
                limits.cached_tokens,
            ),
        ] {
            if let Some(limit) = per_worker.map(|limit| limit.saturating_mul(workers)) {
                if current >= limit {
                    return Err(Refusal::ClassLimit {
                        kind,
                        current,
                        limit,
                    });
                }
            }
        }
        Ok(())
    }

    /// Asks whether a waiter was granted its slot; if not, `waker` is woken when it is, and the
    /// one it replaces is left in its place to be dropped outside the lock.
    pub(super) fn ask(&mut self, waiter: usize, waker: &mut Option<Waker>) -> Turn {
        let Some(asking) = self.waiters.get_mut(waiter) else {
            return Turn::Closed;
        };
        let turn = match asking.status {
            Status::Queued(_) => {
                std::mem::swap(&mut asking.waker, waker);
                return Turn::NotYet;
            }
            Status::Granted { worker } => Turn::Granted(self.workers.assigned(worker)),
            Status::Closed => Turn::Closed,
        };
        // A grant took the waker already, so nothing is dropped here.
        self.waiters.remove(waiter);
        turn
    }

    /// Takes a waiter away whose future was dropped, with the slot it may own by now.
    pub(super) fn leave(
        &mut self,
        waiter: usize,
        uncached: u64,
        wakes: &mut WakeList,
    ) -> Option<Waker> {
        let Waiter { status, waker } = self.waiters.try_remove(waiter)?;
        match status {
            Status::Queued(key) => {
                if let Some(entry) = self.schedule.remove(key, &self.workers) {
                    self.forget_client(&entry);
                }
                // It may have been a blocked head.
                self.arbitrate(wakes);
            }
            Status::Granted { worker } => self.release(worker, uncached, wakes),
            Status::Closed => {}
        }
        waker
    }

    /// Gives back a slot, and what is left of its request's prefill, in tokens.
    pub(super) fn release(&mut self, worker: u32, prefill: u64, wakes: &mut WakeList) {
        self.in_use = self.in_use.saturating_sub(1);
        let flipped = self.workers.finish(worker, prefill);
        self.recheck(flipped);
        self.arbitrate(wakes);
    }

    /// The first byte of a response came.
    pub(super) fn end_prefill(&mut self, worker: u32, uncached: u64, wakes: &mut WakeList) {
        let flipped = self.workers.end_prefill(worker, uncached);
        self.recheck(flipped);
        self.arbitrate(wakes);
    }

    pub(super) fn close(&mut self, wakes: &mut WakeList) {
        self.closed = true;
        for (_, waiter) in &mut self.waiters {
            if let Status::Queued(key) = waiter.status {
                if let Some(entry) = self.schedule.remove(key, &self.workers) {
                    self.clients.leave(entry.client);
                }
                waiter.status = Status::Closed;
                waiter
                    .waker
                    .take()
                    .into_iter()
                    .for_each(|waker| wakes.push(waker));
            }
        }
    }

    fn has_slot(&self) -> bool {
        self.max_concurrency.is_none_or(|slots| self.in_use < slots)
    }

    /// Hands out slots until none is free or nobody may go.
    fn arbitrate(&mut self, wakes: &mut WakeList) {
        while self.has_slot() {
            let Some(entry) = self.schedule.serve(&self.workers) else {
                return;
            };
            self.forget_client(&entry);
            let Parked { waiter, eligible } = &entry.payload;
            // A head that passed the gate has a worker that is not busy.
            let Some(worker) = self.workers.least_loaded(entry.class, eligible) else {
                debug_assert!(false, "a dispatchable request without a worker");
                return;
            };
            self.start(worker, entry.snapshot.uncached());
            if let Some(granted) = self.waiters.get_mut(*waiter) {
                granted.status = Status::Granted { worker };
                granted
                    .waker
                    .take()
                    .into_iter()
                    .for_each(|waker| wakes.push(waker));
            }
        }
    }

    /// Takes a slot and loads a worker.
    fn start(&mut self, worker: u32, uncached: u64) {
        self.in_use += 1;
        let flipped = self.workers.start(worker, uncached);
        self.recheck(flipped);
    }

    /// A worker became busy or free for some class: heads that wait for it may have opened or
    /// closed.
    fn recheck(&mut self, flipped: Flipped) {
        if flipped.any {
            self.schedule.recheck_worker(flipped.worker, &self.workers);
        }
    }

    fn forget_client(&mut self, entry: &Entry<Parked>) {
        if self.fair {
            self.clients.leave(entry.client);
        }
    }
}

/// Everything a test recounts.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) in_use: usize,
    pub(super) queued: usize,
    /// The workers of those who were granted and have not asked since, by waiter.
    pub(super) granted: std::collections::BTreeMap<usize, u32>,
    pub(super) labels: usize,
    pub(super) prefill: Vec<u64>,
    /// Requests, raw tokens and cached tokens, by class.
    pub(super) backlog: Vec<(u64, u64, u64)>,
    /// Heads that the gate lets through, each asked anew.
    pub(super) dispatchable: usize,
}

#[cfg(test)]
impl State {
    pub(super) fn audit(&self) -> Audit {
        let granted = |(waiter, it): (usize, &Waiter)| match it.status {
            Status::Granted { worker } => Some((waiter, worker)),
            _ => None,
        };
        let backlog = |class| {
            let backlog = self.schedule.backlog(class);
            (backlog.requests, backlog.raw_tokens, backlog.cached_tokens)
        };
        Audit {
            in_use: self.in_use,
            queued: self.schedule.len(),
            granted: self.waiters.iter().filter_map(granted).collect(),
            labels: self.clients.labels(),
            prefill: (0..self.workers.len() as u32)
                .map(|worker| self.workers.prefill(worker))
                .collect(),
            backlog: (0..self.classes.len()).map(backlog).collect(),
            dispatchable: self.schedule.open_heads(&self.workers),
        }
    }
}
