//! What spans and subscribers are told. Nothing here may be called under a lock: it runs a subscriber.
//!
//! Without the feature `tracing`, `off.rs` is in this module's place.

use std::time::Duration;

use tracing::{Span, debug, info};

/// Not the module's path: it is what users filter by.
const TARGET: &str = "tower_policy_queue";

/// A request goes on to the inner service.
pub(crate) fn admitted(
    class: &str,
    dominion: Option<&str>,
    worker: Option<&str>,
    waited: Duration,
) {
    let span = Span::current();
    span.record("policy_queue.class", class);
    span.record("policy_queue.dominion", dominion);
    span.record("policy_queue.worker", worker);
    span.record("policy_queue.waited_ms", waited.as_secs_f64() * 1e3);
}

/// A request is turned away; its class and dominion as far as they are known.
pub(crate) fn rejected(code: &str, class: Option<&str>, dominion: Option<&str>) {
    info!(target: TARGET, code, class, dominion, "request turned away");
}

/// A request's client went away.
pub(crate) fn cancelled(stage: &str, class: &str, dominion: Option<&str>) {
    debug!(target: TARGET, stage, class, dominion, "request cancelled");
}
