//! What the lock of a dominion guards, and every decision made under it.

mod arrival;
#[cfg(test)]
mod audit;
mod estimate;

use std::{sync::Arc, task::Waker, time::Duration};

pub(super) use self::{arrival::Entered, estimate::Queues};

use slab::Slab;
use tokio::time::Instant;

use super::{
    Arrival, Counts, Grant, LimitKind, Pool, Refusal, Refused,
    drain::{Ahead, Drain},
    holds::Timekeeper,
    idling::Idling,
    meter::Meter,
    revocation::{Revocables, Revoked},
    seniority::Seniority,
    shadow::{ClaimId, Shadow},
    shares::Shares,
    tally::{Code, Stage, Totals},
    visit::Visits,
    waiter::{Asked, Status, Waiter},
    wake::WakeList,
    workers::{Assigned, Flipped, Parked, Workers},
};
use crate::{
    config::{ClassLimits, PolicyClass, PolicyConfig, QueuePolicy},
    schedule::{Backlog, ClientId, Clients, Entry, Rank, Schedule, Score, Snapshot},
};

#[derive(Debug)]
pub(super) struct State {
    pub(super) policy: Arc<PolicyConfig>,
    /// Index into the policy's dominions.
    pub(super) dominion: Option<usize>,
    /// How many policies the dominion has had before this one.
    pub(super) generation: u64,
    pub(super) schedule: Schedule<Parked>,
    pub(super) waiters: Slab<Waiter>,
    pub(super) seniority: Seniority,
    pub(super) clients: Clients,
    pub(super) workers: Workers,
    /// Slots taken: one for each permit, and for each waiter that was granted and does not
    /// know it yet.
    pub(super) in_use: usize,
    pub(super) max_concurrency: Option<usize>,
    pub(super) max_queue: Option<usize>,
    pub(super) max_queue_per_client: Option<usize>,
    /// `policy: reject`.
    pub(super) reject: bool,
    pub(super) fair: bool,
    pub(super) classes: Vec<ClassRules>,
    /// What became of the requests, by class.
    pub(super) totals: Vec<Totals>,
    /// The totals of classes that a reload has removed.
    pub(super) former: Totals,
    pub(super) shares: Shares,
    pub(super) idling: Idling,
    pub(super) meter: Meter,
    /// How many requests have been parked so far, which numbers them.
    arrivals: u64,
    pub(super) revocables: Revocables,
    pub(super) visits: Visits,
    pub(super) timekeeper: Option<Timekeeper>,
    pub(super) drain: Drain,
    /// Wakers of those who wait until no slot is in use, by id.
    pub(super) idle_watch: Vec<(u64, Waker)>,
    /// The last id given to one of them.
    pub(super) watches: u64,
    pub(super) closed: bool,
    /// What a dominion that is not enforced would do if it were.
    pub(super) shadow: Option<Box<Shadow>>,
    /// The last id given to a request that is followed in a shadow.
    claims: ClaimId,
    /// The time, where it is set, as in a shadow; elsewhere the clock is read.
    pub(super) clock: Option<Instant>,
    /// In a shadow, the waiters that were granted or refused since [`decided`](Self::decided) was last
    /// called.
    pub(super) decided: Option<Vec<usize>>,
}

/// What the decisions of the pool need to know about a class.
#[derive(Debug)]
pub(super) struct ClassRules {
    pub(super) order: QueuePolicy,
    limits: ClassLimits,
    pub(super) quantum: u64,
    max_queue_wait: Option<Duration>,
    /// Whether its slots have a longest hold.
    max_hold: bool,
}

impl ClassRules {
    pub(super) fn new(class: &PolicyClass) -> Self {
        Self {
            order: class.order,
            limits: class.limits,
            quantum: class.quantum.get(),
            max_queue_wait: class.max_queue_wait,
            max_hold: class.max_hold.is_some(),
        }
    }
}

impl State {
    pub(super) fn new(policy: &Arc<PolicyConfig>, dominion: Option<usize>) -> Self {
        let mut state = Self::enforced(policy, dominion);
        if !policy.enforces(dominion) {
            state.workers.set_enforced(false);
            state.max_concurrency = None;
            state.shadow = Some(Box::new(Shadow::new(policy, dominion)));
        }
        state
    }

    /// A dominion whose limits are enforced, whatever the policy says.
    pub(super) fn enforced(policy: &Arc<PolicyConfig>, dominion: Option<usize>) -> Self {
        let limits = dominion.map(|index| &policy.dominions[index]);
        let totals = vec![Totals::default(); policy.classes.len()];
        Self {
            policy: Arc::clone(policy),
            dominion,
            generation: 0,
            schedule: Schedule::new(
                policy.classes.iter().map(|class| class.quantum.get()),
                limits
                    .map(|dominion| dominion.fair_unit)
                    .unwrap_or_default(),
            ),
            waiters: Slab::new(),
            seniority: Seniority::default(),
            clients: Clients::default(),
            workers: Workers::new(policy, dominion),
            in_use: 0,
            max_concurrency: limits.and_then(|dominion| dominion.max_concurrency),
            max_queue: limits.map(|dominion| dominion.max_queue),
            max_queue_per_client: limits.and_then(|dominion| dominion.max_queue_per_client),
            reject: limits.is_some_and(|dominion| dominion.reject),
            fair: limits.is_some_and(|dominion| dominion.fair_scheduling),
            classes: policy.classes.iter().map(ClassRules::new).collect(),
            shares: Shares::new(Instant::now(), &totals),
            totals,
            former: Totals::default(),
            idling: Idling::default(),
            meter: Meter::new(policy, dominion),
            arrivals: 0,
            revocables: Revocables::default(),
            visits: Visits::default(),
            timekeeper: None,
            drain: Drain::default(),
            idle_watch: Vec::new(),
            watches: 0,
            closed: false,
            shadow: None,
            claims: 0,
            clock: None,
            decided: None,
        }
    }

    /// Takes the waiters that were granted or refused since the last call.
    pub(super) fn decided(&mut self) -> Vec<usize> {
        self.decided
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Notes that a waiter was granted or refused.
    pub(super) fn note_decided(&mut self, waiter: usize) {
        if let Some(decided) = &mut self.decided {
            decided.push(waiter);
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.unwrap_or_else(Instant::now)
    }

    /// Gives a class back what it paid for a request that the backend never saw.
    pub(super) fn refund(&mut self, class: usize, snapshot: Snapshot) {
        self.schedule.charge(class, -i128::from(snapshot.cost()));
    }

    /// A request gives its slot back, at this time if that matters.
    pub(super) fn release(&mut self, grant: &Grant, ended: Option<Instant>, wakes: &mut WakeList) {
        if let Some(revocation) = &grant.revocation {
            self.revocables.remove(revocation);
        }
        if let Some((ended, granted)) = ended.zip(grant.granted) {
            let held = ended.saturating_duration_since(granted);
            self.drain.finished(grant.snapshot.cost(), held);
        }
        self.totals_of(grant).end(grant.stage());
        if let Some(shadow) = self.shadow_of(grant.claim) {
            shadow.finish(Instant::now(), grant.claim, grant.stage());
        }
        self.note_hold(grant);
        self.free(grant.assigned.index, grant.prefill_at_release(), wakes);
        self.arbitrate_at(ended, wakes);
    }

    /// Takes a slot from a running request; arbitration is left to the caller.
    pub(super) fn revoke(&mut self, grant: &Grant, reason: Revoked, wakes: &mut WakeList) {
        let Some(revocation) = &grant.revocation else {
            return;
        };
        // Even if its last holder is just about to release it: the timekeeper must not find it due again in a
        // loop until then.
        self.revocables.remove(revocation);
        if grant.take_back() {
            self.count_revoked(grant, reason);
            if let Some(shadow) = self.shadow_of(grant.claim) {
                shadow.finish(Instant::now(), grant.claim, Stage::Failed);
            }
            self.note_hold(grant);
            let expires = revocation
                .expires
                .filter(|_| reason == Revoked::HoldExpired);
            if let Some((expires, granted)) = expires.zip(grant.granted) {
                let held = expires.saturating_duration_since(granted);
                self.drain.finished(grant.snapshot.cost(), held);
            }
            wakes.extend(revocation.revoke(reason));
            self.free(grant.assigned.index, grant.prefill_at_release(), wakes);
        }
    }

    /// Gives back a slot, and what is left of its request's prefill, in tokens.
    pub(super) fn free(&mut self, worker: u32, prefill: u64, wakes: &mut WakeList) {
        self.in_use = self.in_use.saturating_sub(1);
        let flipped = self.workers.finish(worker, prefill);
        self.recheck(flipped);
        if self.in_use == 0 && !self.idle_watch.is_empty() {
            self.wake_idle_watch(wakes);
        }
    }

    /// Wakes those who wait until no slot is in use, so that they look again.
    pub(super) fn wake_idle_watch(&mut self, wakes: &mut WakeList) {
        wakes.extend(self.idle_watch.drain(..).map(|(_, waker)| waker));
    }

    /// The first byte of a response has come.
    pub(super) fn end_prefill(&mut self, worker: u32, uncached: u64, wakes: &mut WakeList) {
        let flipped = self.workers.end_prefill(worker, uncached);
        self.recheck(flipped);
        self.arbitrate(wakes);
    }

    /// Refuses all requests that wait, and all that come from then on. Granted ones keep their slots.
    pub(super) fn close(&mut self, wakes: &mut WakeList) {
        self.closed = true;
        for waiter in self.queued(|_| true) {
            self.refuse(waiter, Refused::Closed, wakes);
        }
    }

    /// The queued waiters whose entries satisfy `which`.
    pub(super) fn queued(&self, which: impl Fn(&Parked) -> bool) -> Vec<usize> {
        let entries = self.schedule.entries().map(|entry| &entry.payload);
        entries
            .filter(|parked| which(parked))
            .map(|parked| parked.waiter)
            .collect()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            in_use: self.in_use,
            waiting: self.schedule.len(),
            prefill: self.workers.prefill().fold(0, u64::saturating_add),
        }
    }

    /// The index, in the policy in force, of the class with the same name as `class` in the policy of `view`.
    pub(super) fn class_now(&self, view: &Pool, class: usize) -> Option<usize> {
        if view.generation == self.generation {
            return Some(class);
        }
        let former = &view.policy.classes[class];
        self.policy
            .class_index(former.profile.as_deref(), &former.name)
    }

    pub(super) fn totals_of(&mut self, grant: &Grant) -> &mut Totals {
        match self.class_now(grant.pool(), grant.class_index()) {
            Some(class) => &mut self.totals[class],
            None => &mut self.former,
        }
    }

    fn count_revoked(&mut self, grant: &Grant, reason: Revoked) {
        let stage = grant.stage();
        let totals = self.totals_of(grant);
        match stage {
            Stage::Granted | Stage::Running => totals.rejected.add(match reason {
                Revoked::HoldExpired => Code::HoldTimeout,
                Revoked::ProfileSwitch => Code::ProfileSwitch,
            }),
            Stage::Streaming => totals.revoked += 1,
            Stage::Completed | Stage::Failed => totals.end(stage),
        }
    }

    /// Must be called before the lock is released.
    pub(super) fn before_unlock(&mut self, wakes: &mut WakeList) {
        let idles = self.has_slot() && self.schedule.is_dispatchable();
        self.idling.note(idles);
        self.report(wakes);
        #[cfg(all(test, policy_queue_loom))]
        self.assert_whole();
    }

    pub(super) fn has_slot(&self) -> bool {
        self.max_concurrency.is_none_or(|slots| self.in_use < slots)
    }

    /// Hands out slots until none is free or nobody may go. Then one of those who still wait has to keep the
    /// time: the timekeeper may be among those who were granted.
    pub(super) fn arbitrate(&mut self, wakes: &mut WakeList) {
        self.arbitrate_at(None, wakes);
    }

    /// The same for a caller that may already know the time, so that the clock is not read twice.
    fn arbitrate_at(&mut self, now: Option<Instant>, wakes: &mut WakeList) {
        self.hand_out(now, wakes);
        self.appoint_timekeeper(wakes);
    }

    fn hand_out(&mut self, mut now: Option<Instant>, wakes: &mut WakeList) {
        while self.has_slot() {
            let Some(entry) = self.schedule.serve(&self.workers) else {
                return;
            };
            let now = *now.get_or_insert_with(|| self.now());
            if self.fair {
                self.clients.serve(entry.client);
            }
            self.forget_client(&entry);
            let Parked { waiter, eligible } = &entry.payload;
            // A head that passed the gate has a worker that is not busy, except where a reload has just ended
            // the enforcement.
            let worker = self.workers.choose_regardless(entry.class, Some(eligible));
            self.start(worker, entry.snapshot.uncached());
            self.seniority.remove(*waiter);
            if let Some(granted) = self.waiters.get_mut(*waiter) {
                let waited = now.saturating_duration_since(granted.arrived);
                granted.status = Status::Granted {
                    worker,
                    class: entry.class,
                    snapshot: entry.snapshot,
                    at: now,
                    waited,
                };
                wakes.extend(granted.waker.take());
                self.totals[entry.class].admit_after(waited, entry.snapshot.cost());
                self.note_wait(entry.class, waited);
            }
            self.note_decided(*waiter);
            self.shares.mark(now, &self.totals);
            self.dismiss_timekeeper(*waiter);
        }
    }

    /// Takes a slot and loads a worker.
    pub(super) fn start(&mut self, worker: u32, uncached: u64) {
        self.in_use += 1;
        let flipped = self.workers.start(worker, uncached);
        self.recheck(flipped);
    }

    /// A worker became busy or free for some class: heads that wait for it may be dispatchable now, or
    /// blocked.
    pub(super) fn recheck(&mut self, flipped: Flipped) {
        if flipped.any {
            self.schedule.recheck_worker(flipped.worker, &self.workers);
        }
    }

    pub(super) fn forget_client(&mut self, entry: &Entry<Parked>) {
        if self.fair {
            self.clients.leave(entry.client);
        }
    }
}
