//! A place in a dominion's queue.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use tokio::time::Instant;

use super::{Permit, Pool, state::Turn};
use crate::schedule::Snapshot;

/// A request's place in the queue. Dropped, it leaves the queue; granted, it becomes a permit.
#[derive(Debug)]
pub(crate) struct Ticket {
    pool: Arc<Pool>,
    /// None once the answer was taken.
    waiter: Option<usize>,
    arrived: Instant,
    class: usize,
    snapshot: Snapshot,
}

/// The queue was torn down.
#[derive(Debug)]
pub(crate) struct Closed;

impl Ticket {
    pub(super) fn new(
        pool: Arc<Pool>,
        waiter: usize,
        arrived: Instant,
        class: usize,
        snapshot: Snapshot,
    ) -> Self {
        Self {
            pool,
            waiter: Some(waiter),
            arrived,
            class,
            snapshot,
        }
    }

    #[cfg(test)]
    pub(super) fn waiter(&self) -> usize {
        self.waiter.unwrap_or(usize::MAX)
    }

    /// Waits for the request's turn.
    pub(crate) fn poll_granted(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, Closed>> {
        let Some(waiter) = self.waiter else {
            return Poll::Ready(Err(Closed));
        };
        // Cloned before the lock and dropped, or its predecessor, after it.
        let mut waker = Some(cx.waker().clone());
        let turn = self.pool.lock().ask(waiter, &mut waker);
        drop(waker);
        let answer = match turn {
            Turn::NotYet => return Poll::Pending,
            Turn::Granted(assigned) => {
                let queued_for = self.arrived.elapsed();
                Ok(Permit::new(
                    &self.pool,
                    self.class,
                    self.snapshot,
                    assigned,
                    queued_for,
                ))
            }
            Turn::Closed => Err(Closed),
        };
        self.waiter = None;
        Poll::Ready(answer)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            let uncached = self.snapshot.uncached();
            drop(
                self.pool
                    .with_state(|state, wakes| state.leave(waiter, uncached, wakes)),
            );
        }
    }
}
