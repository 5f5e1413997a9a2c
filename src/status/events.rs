//! Streams of snapshots as server-sent events, and the limit on their number.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::{PolicyQueueHandle, Snapshot};

/// The time between events. They are also the heartbeat: clients take a stream that is silent for much
/// longer for dead.
const PERIOD: Duration = Duration::from_secs(1);

/// Sent first: how long a client that lost the stream should wait before it reconnects.
const RETRY: &str = "retry: 2000\n\n";

/// The most streams that may be open at the same time.
const STREAMS: usize = 16;

/// Counts the open streams. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    open: Arc<AtomicUsize>,
}

impl Streams {
    /// Takes a place for one more stream, if one is free.
    pub(super) fn join(&self) -> Option<Place> {
        let more = |open| (open < STREAMS).then_some(open + 1);
        self.open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Place {
            open: Arc::clone(&self.open),
        })
    }
}

/// A stream's place, which is freed on drop.
#[derive(Debug)]
pub(super) struct Place {
    open: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream of events. It does nothing unless polled.
#[derive(Debug)]
pub(super) struct Events {
    handle: PolicyQueueHandle,
    /// `None` before the first poll: it needs a runtime, and a service may be called outside of one.
    ticks: Option<Interval>,
    /// Sent before the next event.
    preamble: &'static str,
    /// `None` once the stream has ended.
    place: Option<Place>,
}

impl Events {
    pub(super) fn new(handle: PolicyQueueHandle, place: Place) -> Self {
        Self {
            handle,
            ticks: None,
            preamble: RETRY,
            place: Some(place),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.place.is_none()
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.has_ended() {
            return Poll::Ready(None);
        }
        ready!(self.ticks.get_or_insert_with(ticks).poll_tick(cx));
        let snapshot = self.handle.snapshot();
        if is_over(&snapshot) {
            // A server that shuts down gracefully waits for its connections, including this one.
            self.place = None;
        }
        let preamble = std::mem::take(&mut self.preamble);
        let event = format!("{preamble}data: {}\n\n", to_json(&snapshot));
        Poll::Ready(Some(event.into()))
    }
}

/// The first tick is immediate. After a slow reader's delay, the period starts anew.
fn ticks() -> Interval {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// True if nothing more will happen: all queues are closed, and no request has a slot.
fn is_over(snapshot: &Snapshot) -> bool {
    let mut dominions = snapshot.dominions.iter();
    dominions.all(|dominion| dominion.closed && dominion.in_use == 0)
}

/// Serializes to a single line, as an event requires.
pub(super) fn to_json(snapshot: &Snapshot) -> String {
    // Cannot fail: all keys in a snapshot are strings, and it is written to memory.
    serde_json::to_string(snapshot).unwrap_or_default()
}
