//! Changes to a dominion while it runs.

use std::{
    collections::HashSet,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::time::Instant;

use super::{
    Grant, Pool, Refused,
    alarm::Alarm,
    revocation::Revoked,
    state::State,
    waiter::Status,
    wake::WakeList,
    workers::{Condition, Flipped, Parked},
};
use crate::config;

/// What is left to do after a switch of the profile, once the caller holds no lock.
#[derive(Debug)]
pub(crate) struct Switched {
    wakes: WakeList,
    /// Kept because they may only be dropped then.
    revoked: Vec<Arc<Grant>>,
}

impl Switched {
    pub(crate) fn settle(self) {
        let Self { wakes, revoked } = self;
        wakes.wake_all();
        drop(revoked);
    }
}

impl Pool {
    /// Turns away all requests that wait, and all that come from then on. The caller does the wakes once it
    /// holds no lock of its own.
    pub(crate) fn close(&self) -> WakeList {
        self.change(|state, wakes| state.everywhere(wakes, State::close))
            .1
    }

    /// Additional slots are handed out at once. If there are fewer, none is taken from a running request.
    pub(crate) fn set_max_concurrency(&self, slots: Option<usize>) {
        self.with_state(|state, wakes| match &mut state.shadow {
            Some(shadow) => shadow.change(Instant::now(), |state, wakes| {
                state.set_max_concurrency(slots, wakes);
            }),
            None => state.set_max_concurrency(slots, wakes),
        });
    }

    /// No request is evicted from a queue that is already longer.
    pub(crate) fn set_max_queue(&self, max_queue: usize) {
        self.with_state(|state, _| match &mut state.shadow {
            Some(shadow) => shadow.state.max_queue = Some(max_queue),
            None => state.max_queue = Some(max_queue),
        });
    }

    /// The caller does the wakes once it holds no lock of its own.
    pub(crate) fn add_worker(&self, worker: Arc<config::Worker>) -> WakeList {
        let ((), wakes) = self.change(|state, wakes| {
            state.everywhere(wakes, |state, wakes| {
                let flipped = state.workers.add(Some(Arc::clone(&worker)));
                state.welcome(flipped.worker, wakes);
                state.changed([flipped], wakes);
            });
        });
        wakes
    }

    /// Removes a worker. Requests that could go to no other worker are refused; those that it has finish.
    /// Returns the models it served, and the wakes for the caller to do once it holds no lock of its own.
    pub(crate) fn remove_worker(&self, id: &str) -> (Vec<String>, WakeList) {
        self.change(|state, wakes| {
            let index = state.workers.index(id);
            let models = index.map(|index| state.workers.models(index));
            state.everywhere(wakes, |state, wakes| {
                if let Some(flipped) = state.workers.remove(id) {
                    state.refuse_stranded(wakes);
                    state.changed([flipped], wakes);
                    state.forget_workers();
                }
            });
            models.unwrap_or_default()
        })
    }

    /// Changes which requests may go to a worker.
    pub(crate) fn set_condition(&self, id: &str, change: impl Fn(&mut Condition)) {
        self.with_state(|state, wakes| {
            state.everywhere(wakes, |state, wakes| {
                if let Some(index) = state.workers.index(id) {
                    let flipped = state.workers.set_condition(index, &change);
                    state.changed([flipped], wakes);
                }
            });
        });
    }

    /// Selects these local models and no others.
    #[must_use]
    pub(crate) fn switch_profile(&self, models: &HashSet<&str>) -> Switched {
        let (revoked, wakes) = self.change(|state, wakes| {
            let mut revoked = Vec::new();
            state.everywhere(wakes, |state, wakes| {
                revoked.extend(state.switch_profile(models, wakes));
            });
            revoked
        });
        Switched { wakes, revoked }
    }

    /// Takes a slot back from a request that runs.
    pub(super) fn revoke(&self, grant: &Grant, reason: Revoked) {
        self.with_state(|state, wakes| {
            state.revoke(grant, reason, wakes);
            state.arbitrate(wakes);
        });
    }

    /// Waits until no slot is in use, and meanwhile takes back those whose hold has expired.
    pub(crate) async fn idle(&self) {
        let mut watch = Watch {
            pool: self,
            id: None,
        };
        let mut alarm = Alarm::default();
        poll_fn(|cx| {
            loop {
                if watch.poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                let Some(next) = self.lock().revocables.next_expiry() else {
                    return Poll::Pending;
                };
                ready!(alarm.poll(next, cx));
                drop(self.with_state(State::expire_holds));
            }
        })
        .await;
    }

    /// True if no slot is in use.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().in_use == 0
    }

    /// True if no slot is in use and none will be granted.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed && state.in_use == 0
    }
}

/// Waits until no slot is in use.
struct Watch<'a> {
    pool: &'a Pool,
    /// Its id in the state's `idle_watch`, once it is there.
    id: Option<u64>,
}

impl Watch<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = cx.waker().clone();
        let mut state = self.pool.lock();
        if state.in_use == 0 {
            return Poll::Ready(());
        }
        let State {
            idle_watch,
            watches,
            ..
        } = &mut *state;
        let id = *self.id.get_or_insert_with(|| {
            *watches += 1;
            *watches
        });
        match idle_watch.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => std::mem::swap(known, &mut waker),
            None => idle_watch.push((id, waker)),
        }
        // Before `waker`: the one that was swapped out is foreign, and must not be dropped under the lock.
        drop(state);
        Poll::Pending
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id else {
            return;
        };
        let mut state = self.pool.lock();
        let watching = state.idle_watch.iter().position(|(known, _)| *known == id);
        let waker = watching.map(|index| state.idle_watch.swap_remove(index));
        drop(state);
        drop(waker);
    }
}

impl State {
    fn set_max_concurrency(&mut self, slots: Option<usize>, wakes: &mut WakeList) {
        self.max_concurrency = slots;
        self.arbitrate(wakes);
    }

    /// Makes a change here and, where the dominion is not enforced, in its shadow.
    fn everywhere(
        &mut self,
        wakes: &mut WakeList,
        mut change: impl FnMut(&mut Self, &mut WakeList),
    ) {
        change(self, wakes);
        if let Some(shadow) = &mut self.shadow {
            shadow.change(Instant::now(), change);
        }
    }

    /// Refuses the waiting requests that could go to no worker that is left.
    pub(super) fn refuse_stranded(&mut self, wakes: &mut WakeList) {
        for waiter in self.queued(|parked| !self.workers.any_left(&parked.eligible)) {
            self.refuse(waiter, Refused::NoEligibleWorker, wakes);
        }
    }

    /// Forgets removed workers that nothing refers to, once many were removed.
    pub(super) fn forget_workers(&mut self) {
        if self.workers.is_crowded() {
            let parked = self.schedule.entries().map(|entry| &entry.payload);
            let named = parked.flat_map(|parked| parked.eligible.named()).collect();
            self.workers.vacate(&named);
        }
    }

    /// To be called after a worker was added, which waiting requests may have asked for.
    fn welcome(&mut self, worker: u32, wakes: &mut WakeList) {
        let mut first = false;
        for Parked { waiter, eligible } in self.schedule.payloads_mut() {
            let waiter = self.waiters.get(*waiter);
            let model = waiter.and_then(|waiter| waiter.asked.model.as_deref());
            first |= self.workers.welcome(worker, eligible, model);
        }
        // The allow-list of a request that waits for the model may not name its first worker.
        if first {
            self.refuse_stranded(wakes);
        }
    }

    /// To be called after workers have changed: waiting requests may be able to go now.
    fn changed(&mut self, flipped: impl IntoIterator<Item = Flipped>, wakes: &mut WakeList) {
        for flipped in flipped {
            self.recheck(flipped);
        }
        self.arbitrate(wakes);
    }

    /// The result must be dropped outside the lock.
    #[must_use]
    fn switch_profile(&mut self, models: &HashSet<&str>, wakes: &mut WakeList) -> Vec<Arc<Grant>> {
        let local = self
            .workers
            .configured()
            .filter(|(_, worker)| worker.endpoint.is_none());
        let local: Vec<_> = local
            .map(|(index, worker)| (index, models.contains(&*worker.id)))
            .collect();
        let flipped: Vec<_> = local
            .into_iter()
            .map(|(index, selected)| {
                self.workers
                    .set_condition(index, |condition| condition.unselected = !selected)
            })
            .collect();

        for waiter in self.queued(|parked| self.workers.all_unselected(&parked.eligible)) {
            self.refuse(waiter, Refused::ProfileSwitch, wakes);
        }
        let unselected = |status| match status {
            Status::Granted { worker, .. } => self.workers.is_unselected(worker),
            _ => false,
        };
        let granted = self
            .waiters
            .iter()
            .filter(|(_, waiter)| unselected(waiter.status));
        for waiter in granted.map(|(key, _)| key).collect::<Vec<_>>() {
            self.refuse(waiter, Refused::ProfileSwitch, wakes);
        }
        let running = self.revocables.all();
        for grant in &running {
            if self.workers.is_unselected(grant.assigned.index) {
                self.revoke(grant, Revoked::ProfileSwitch, wakes);
            }
        }
        self.end_unselected_visits(wakes);
        self.changed(flipped, wakes);
        running
    }
}
