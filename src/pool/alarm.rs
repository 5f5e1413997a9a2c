//! A timer that is created when it is first needed.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::Instant;
#[cfg(not(all(test, policy_queue_loom)))]
use tokio::time::{Sleep, sleep_until};

#[cfg(all(test, policy_queue_loom))]
use super::loom::clock::{Sleep, sleep_until};

/// Waits for whatever instant it is given. It allocates nothing, and needs no runtime, before it is polled.
#[derive(Debug, Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready once `until` is reached, which may change from poll to poll.
    pub(super) fn poll(&mut self, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}
