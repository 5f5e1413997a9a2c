//! A timer that a model fires by hand: the runtime's own would fire where `loom` does not see it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::time::Instant;

use super::super::Pool;
use crate::sync::Mutex;

loom::lazy_static! {
    static ref SLEEPERS: Mutex<Sleepers> = Mutex::new(Sleepers::default());
}

#[derive(Default)]
struct Sleepers {
    named: u64,
    asleep: Vec<(u64, Instant, Waker)>,
}

/// What the pool uses of Tokio's timer.
#[derive(Debug)]
pub(in super::super) struct Sleep {
    deadline: Instant,
    name: Option<u64>,
}

pub(in super::super) fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        name: None,
    }
}

impl Sleep {
    pub(in super::super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(in super::super) fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.deadline = deadline;
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut sleepers = SLEEPERS.lock().unwrap();
        let before = sleepers.take(self.name.take());
        let over = Instant::now() >= self.deadline;
        if !over {
            sleepers.named += 1;
            let name = sleepers.named;
            sleepers.asleep.push((name, self.deadline, waker));
            self.name = Some(name);
        }
        drop(sleepers);
        drop(before);
        if over { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.name.is_some() {
            let waker = SLEEPERS.lock().unwrap().take(self.name);
            drop(waker);
        }
    }
}

impl Sleepers {
    fn take(&mut self, name: Option<u64>) -> Option<Waker> {
        let found = self.asleep.iter().position(|it| Some(it.0) == name)?;
        Some(self.asleep.swap_remove(found).2)
    }
}

/// Lets time pass. The pool reads the clock under its lock, so the clock is moved under it: then `loom` tries
/// this before and after each of the pool's decisions.
pub(super) fn pass(pool: &Pool, time: Duration) {
    let state = pool.lock();
    let mut cx = Context::from_waker(Waker::noop());
    // The first poll moves the clock; the rest of it only yields.
    let _ = std::pin::pin!(tokio::time::advance(time)).poll(&mut cx);
    drop(state);

    let now = Instant::now();
    let mut sleepers = SLEEPERS.lock().unwrap();
    let asleep = std::mem::take(&mut sleepers.asleep);
    let (due, later) = asleep.into_iter().partition(|it| it.1 <= now);
    sleepers.asleep = later;
    drop(sleepers);
    let due: Vec<(u64, Instant, Waker)> = due;
    due.into_iter().for_each(|(_, _, waker)| waker.wake());
}

/// How many timers are running.
pub(super) fn asleep() -> usize {
    SLEEPERS.lock().unwrap().asleep.len()
}
