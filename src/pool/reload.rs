//! Switching to another policy while requests wait and run.
//!
//! Classes are matched by name, workers by id. A waiting request keeps its place and its time of arrival; a
//! running one keeps its slot, under the rules by which it was granted.

use std::{collections::HashSet, sync::Arc};

use tokio::time::Instant;

use super::{
    Pool,
    shadow::Shadow,
    state::{ClassRules, State},
    tally::Totals,
    waiter::{Status, Waiter},
    wake::WakeList,
};
use crate::{
    config::{self, PolicyConfig},
    schedule::{ClientId, Score, Snapshot, Successor},
};

impl Pool {
    /// Puts the dominion under another policy, with these workers. From then on, only arrivals through the
    /// new pool are let in. If `selected` is given, only the local models in it are loaded. The caller does
    /// the wakes once it holds no lock of its own.
    pub(crate) fn reload(
        &self,
        policy: &Arc<PolicyConfig>,
        dominion: Option<usize>,
        workers: &[Arc<config::Worker>],
        selected: Option<&HashSet<&str>>,
    ) -> (Arc<Self>, WakeList) {
        let next = Next {
            epoch: self.queue.epoch,
            policy,
            dominion,
            workers,
            selected,
        };
        self.change(|state, wakes| {
            state.reload(&next, wakes);
            self.under(state)
        })
    }
}

/// What a dominion switches to.
#[derive(Clone, Copy)]
struct Next<'a> {
    /// When the queue was made.
    epoch: Instant,
    policy: &'a Arc<PolicyConfig>,
    /// Index into the policy's dominions.
    dominion: Option<usize>,
    workers: &'a [Arc<config::Worker>],
    /// The local models of the profile in force; `None` if there is no profile.
    selected: Option<&'a HashSet<&'a str>>,
}

/// Where the classes of the old policy are in the new one.
struct Moves<'a> {
    policy: &'a PolicyConfig,
    /// By the old index.
    now: Vec<Option<usize>>,
    /// The old and the new class of each waiter whose class is gone.
    moved: Vec<(usize, usize)>,
}

impl Moves<'_> {
    /// The new class of a waiter: the one with the same name, or else the one that the new policy puts it
    /// into.
    fn class(&mut self, former: usize, waiter: &Waiter, snapshot: Snapshot) -> usize {
        if let Some(class) = self.now[former] {
            return class;
        }
        let asked = &waiter.asked;
        let (model, hint) = (asked.model.as_deref(), asked.hint.as_deref());
        let class = self.policy.class_of(model, hint, snapshot.uncached());
        self.moved.push((former, class));
        class
    }
}

impl State {
    fn reload(&mut self, next: &Next<'_>, wakes: &mut WakeList) {
        let Next {
            policy, dominion, ..
        } = *next;
        let enforced = policy.enforces(dominion);
        let now_at = self.policy.classes_in(policy);
        self.go_over(next, enforced, wakes);
        match &mut self.shadow {
            _ if enforced => {
                if let Some(mut shadow) = self.shadow.take() {
                    shadow.state.meter.retire(wakes);
                }
            }
            Some(shadow) => {
                let now = Instant::now();
                shadow.play(now);
                shadow.move_classes(&now_at);
                shadow.change(now, |state, wakes| state.go_over(next, true, wakes));
            }
            None => {
                let mut shadow = Shadow::new(policy, dominion);
                shadow.state.go_over(next, true, &mut WakeList::default());
                shadow.state.workers.take_conditions(&self.workers);
                shadow.state.closed = self.closed;
                self.shadow = Some(Box::new(shadow));
            }
        }
    }

    fn go_over(&mut self, next: &Next<'_>, enforced: bool, wakes: &mut WakeList) {
        let Next {
            epoch,
            policy,
            dominion,
            workers,
            selected,
        } = *next;
        let former = policy.classes_in(&self.policy);
        let mut moves = Moves {
            policy,
            now: self.policy.classes_in(policy),
            moved: Vec::new(),
        };
        let limits = dominion.map(|index| &policy.dominions[index]);
        let fair = limits.is_some_and(|dominion| dominion.fair_scheduling);

        self.workers.reload(policy, workers, selected);
        // Before the heads are rechecked.
        self.workers.set_enforced(enforced);
        self.classes = policy.classes.iter().map(ClassRules::new).collect();
        let ring: Vec<Successor> = policy
            .classes
            .iter()
            .zip(&former)
            .map(|(class, &former)| Successor {
                quantum: class.quantum.get(),
                former,
            })
            .collect();
        let Self {
            schedule,
            waiters,
            clients,
            classes,
            workers,
            ..
        } = self;
        schedule.rearrange(
            &ring,
            limits
                .map(|dominion| dominion.fair_unit)
                .unwrap_or_default(),
            |entry| {
                if let Some(waiter) = waiters.get(entry.payload.waiter) {
                    let model = waiter.asked.model.as_deref();
                    workers.reconsider(&mut entry.payload.eligible, model);
                    entry.class = moves.class(entry.class, waiter, entry.snapshot);
                    let score = Score::new(
                        classes[entry.class].order,
                        waiter.arrived.saturating_duration_since(epoch),
                        waiter.asked.priority_jump,
                        entry.snapshot.cost(),
                    );
                    entry.rank = entry.rank.rescored(score);
                }
                if self.fair && !fair {
                    clients.leave(entry.client);
                    entry.client = ClientId::SHARED;
                } else if fair && !self.fair {
                    // No label was kept for it, so it joins those without one.
                    entry.client = clients.join(None);
                }
            },
            workers,
        );
        for (_, waiter) in waiters.iter_mut() {
            if let Status::Granted {
                class, snapshot, ..
            } = waiter.status
            {
                let now = moves.class(class, waiter, snapshot);
                if let Status::Granted { class, .. } = &mut waiter.status {
                    *class = now;
                }
            }
        }
        let Moves { moved, .. } = moves;
        self.carry_totals(&former, &moved);

        self.policy = Arc::clone(policy);
        self.dominion = dominion;
        self.generation += 1;
        self.max_concurrency = limits
            .and_then(|dominion| dominion.max_concurrency)
            .filter(|_| enforced);
        self.max_queue = limits.map(|dominion| dominion.max_queue);
        self.max_queue_per_client = limits.and_then(|dominion| dominion.max_queue_per_client);
        self.reject = limits.is_some_and(|dominion| dominion.reject);
        self.fair = fair;

        if enforced {
            self.refuse_stranded(wakes);
        }
        self.arbitrate(wakes);
        self.forget_workers();
    }

    /// The counts move with their classes; those of removed classes are added up in one place.
    fn carry_totals(&mut self, former: &[Option<usize>], moved: &[(usize, usize)]) {
        self.shares.rearrange(former);
        let mut before: Vec<Option<Totals>> = self.totals.drain(..).map(Some).collect();
        self.totals = former
            .iter()
            .map(|former| former.and_then(|former| before[former].take()))
            .map(Option::unwrap_or_default)
            .collect();
        // A waiting request is counted where its outcome will be.
        for &(old, new) in moved {
            if let Some(totals) = &mut before[old] {
                totals.arrived = totals.arrived.saturating_sub(1);
            }
            self.totals[new].arrived += 1;
        }
        for gone in before.into_iter().flatten() {
            self.former.absorb(&gone);
        }
    }
}
