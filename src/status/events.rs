//! Streams of snapshots, as server-sent events, and how many of them there may be.

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

/// From one event to the next. Clients take a stream for dead that is silent for much longer, so
/// that the events are its heartbeat too.
const PERIOD: Duration = Duration::from_secs(1);

/// When a client that lost the stream is to ask for it again, as the first thing that it is told.
const RETRY: &str = "retry: 2000\n\n";

/// Streams that may be open at the same time.
const STREAMS: usize = 16;

/// Counts the open streams. Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    open: Arc<AtomicUsize>,
}

impl Streams {
    /// A place for one more, if there is one.
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

/// One of the places for streams, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    open: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream of events. Nothing happens in it while it is not polled.
#[derive(Debug)]
pub(super) struct Events {
    handle: PolicyQueueHandle,
    /// None before the first poll: it needs the runtime, which a service may be called without.
    ticks: Option<Interval>,
    /// What goes before the next event.
    preamble: &'static str,
    /// None once the stream has ended.
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
            // Servers that shut down in order wait for their connections, this one too.
            self.place = None;
        }
        let preamble = std::mem::take(&mut self.preamble);
        let event = format!("{preamble}data: {}\n\n", to_json(&snapshot));
        Poll::Ready(Some(event.into()))
    }
}

/// The first tick is now. After a reader that was slow, they go on from then.
fn ticks() -> Interval {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Whether nothing will happen any more: all queues are closed, and nobody has a slot.
fn is_over(snapshot: &Snapshot) -> bool {
    let mut dominions = snapshot.dominions.iter();
    dominions.all(|dominion| dominion.closed && dominion.in_use == 0)
}

/// On one line, as an event has to be.
pub(super) fn to_json(snapshot: &Snapshot) -> String {
    // Nothing in a snapshot can fail: all keys are texts, and it is written to memory.
    serde_json::to_string(snapshot).unwrap_or_default()
}
