//! A place in a dominion's queue.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Permit, Pool, Refused,
    alarm::Alarm,
    state::State,
    tally::Code,
    waiter::{Answer, Turn},
};
use crate::{config::PolicyConfig, schedule::Snapshot, trace};

/// A request's place in the queue. It becomes a permit once granted; dropped, it leaves the queue.
#[derive(Debug)]
pub(crate) struct Ticket {
    pool: Arc<Pool>,
    /// `None` once the answer was taken.
    waiter: Option<usize>,
    /// Whether it has been asked for its turn before.
    asked: bool,
    deadline: Option<Instant>,
    class: usize,
    snapshot: Snapshot,
    alarm: Alarm,
}

impl Ticket {
    pub(super) fn new(
        pool: Arc<Pool>,
        waiter: usize,
        deadline: Option<Instant>,
        class: usize,
        snapshot: Snapshot,
    ) -> Self {
        Self {
            pool,
            waiter: Some(waiter),
            asked: false,
            deadline,
            class,
            snapshot,
            alarm: Alarm::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn waiter(&self) -> usize {
        self.waiter.unwrap_or(usize::MAX)
    }

    /// The name of the class that the request came under.
    pub(crate) fn class(&self) -> &Arc<str> {
        &self.pool.policy.classes[self.class].name
    }

    pub(crate) fn policy(&self) -> &PolicyConfig {
        &self.pool.policy
    }

    pub(crate) fn dominion(&self) -> Option<&Arc<str>> {
        self.pool.id()
    }

    /// When the request should be retried.
    pub(crate) fn retry_after(&self) -> Duration {
        self.pool.retry_after(self.class, self.snapshot.cost())
    }

    /// Waits for the request's turn, and no longer than its deadline.
    pub(crate) fn poll_granted(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, Refused>> {
        let Some(waiter) = self.waiter else {
            return Poll::Pending;
        };
        // A request that asks again has mostly been granted, and needs no waker.
        let mut waker = (!self.asked).then(|| cx.waker().clone());
        self.asked = true;
        loop {
            let mut state = self.pool.lock();
            let turn = state.ask(waiter, cx.waker(), &mut waker);
            let now = self.pool.now(&state);
            drop(state);
            drop(waker.take());
            let until = match turn {
                Turn::NeedsWaker => {
                    waker = Some(cx.waker().clone());
                    continue;
                }
                Turn::NotYet { keep_time } => self.deadline.into_iter().chain(keep_time).min(),
                Turn::Now(answer) => return Poll::Ready(self.take(answer, now)),
            };
            let Some(until) = until else {
                return Poll::Pending;
            };
            ready!(self.alarm.poll(until, cx));
            if self.deadline.is_some_and(|deadline| deadline <= until) {
                let ((answer, now), wakes) = self
                    .pool
                    .change(|state, wakes| (state.expire(waiter, wakes), self.pool.now(state)));
                // Before the wakes, of which one may panic: the waiter is gone, and its key may be another
                // one's by now.
                let taken = self.take(answer, now);
                wakes.wake_all();
                return Poll::Ready(taken);
            }
            // It kept the time of a hold that is over now.
            drop(self.pool.with_state(State::expire_holds));
        }
    }

    /// Leaves the queue, because the request is turned away with this code.
    pub(crate) fn abandon(&mut self, code: Code) {
        self.leave(Some(code));
    }

    /// `now` is the dominion under the policy in force, if that is not the ticket's.
    fn take(&mut self, answer: Answer, now: Option<Arc<Pool>>) -> Result<Permit, Refused> {
        self.waiter = None;
        match answer {
            Answer::Granted {
                assigned,
                class,
                at,
                waited,
            } => {
                let pool = now.as_ref().unwrap_or(&self.pool);
                // The request could not run before now, so its hold begins now.
                let timed = pool.policy.classes[class].max_hold.is_some();
                let granted = if timed { Instant::now() } else { at };
                Ok(Permit::new(
                    pool,
                    class,
                    self.snapshot,
                    assigned,
                    Some(granted),
                    Some(waited),
                    0,
                ))
            }
            Answer::Refused(refused) => Err(refused),
        }
    }

    fn leave(&mut self, reason: Option<Code>) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        let left = self
            .pool
            .with_state(|state, wakes| state.leave(waiter, reason, wakes));
        if let Some(stage) = left.and_then(|left| left.cancelled) {
            trace::cancelled(stage, self.class(), self.dominion().map(|id| &**id));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave(None);
    }
}
