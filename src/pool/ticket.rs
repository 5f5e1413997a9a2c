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
    waiter::{Answer, Turn},
};
use crate::schedule::Snapshot;

/// A request's place in the queue. Dropped, it leaves the queue; granted, it becomes a permit.
#[derive(Debug)]
pub(crate) struct Ticket {
    pool: Arc<Pool>,
    /// None once the answer was taken.
    waiter: Option<usize>,
    arrived: Instant,
    deadline: Option<Instant>,
    class: usize,
    snapshot: Snapshot,
    alarm: Alarm,
}

impl Ticket {
    pub(super) fn new(
        pool: Arc<Pool>,
        waiter: usize,
        arrived: Instant,
        deadline: Option<Instant>,
        class: usize,
        snapshot: Snapshot,
    ) -> Self {
        Self {
            pool,
            waiter: Some(waiter),
            arrived,
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

    /// When the request had better come again.
    pub(crate) fn retry_after(&self) -> Duration {
        self.pool.retry_after(self.class, self.snapshot.cost())
    }

    /// Waits for the request's turn, and no longer than its deadline.
    pub(crate) fn poll_granted(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, Refused>> {
        let Some(waiter) = self.waiter else {
            return Poll::Pending;
        };
        loop {
            // Cloned before the lock and dropped, or its predecessor, after it.
            let mut waker = Some(cx.waker().clone());
            let turn = self.pool.lock().ask(waiter, &mut waker);
            drop(waker);
            let until = match turn {
                Turn::NotYet { keep_time } => self.deadline.into_iter().chain(keep_time).min(),
                Turn::Now(answer) => return Poll::Ready(self.take(answer)),
            };
            let Some(until) = until else {
                return Poll::Pending;
            };
            ready!(self.alarm.poll(until, cx));
            if self.deadline.is_some_and(|deadline| deadline <= until) {
                let answer = self
                    .pool
                    .with_state(|state, wakes| state.expire(waiter, wakes));
                return Poll::Ready(self.take(answer));
            }
            // It kept the time for a hold that is over now.
            drop(self.pool.with_state(State::expire_holds));
        }
    }

    fn take(&mut self, answer: Answer) -> Result<Permit, Refused> {
        self.waiter = None;
        match answer {
            Answer::Granted(assigned) => {
                let now = Instant::now();
                let queued_for = now.saturating_duration_since(self.arrived);
                Ok(Permit::new(
                    &self.pool,
                    self.class,
                    self.snapshot,
                    assigned,
                    Some(now),
                    Some(queued_for),
                ))
            }
            Answer::Refused(refused) => Err(refused),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            drop(
                self.pool
                    .with_state(|state, wakes| state.leave(waiter, wakes)),
            );
        }
    }
}
