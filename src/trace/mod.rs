//! Span fields and events. Nothing here may be called under a lock, as it runs the subscriber's code.
//!
//! Without the feature `tracing`, `off.rs` takes this module's place.

use std::time::Duration;

use tracing::{Span, debug, info};

/// Fixed, as users filter by it; the default would be the module's path.
const TARGET: &str = "tower_policy_queue";

/// Records that a request goes on to the inner service.
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

/// Emits the event for a request that is turned away, with its class and dominion if they are known.
pub(crate) fn rejected(code: &str, class: Option<&str>, dominion: Option<&str>) {
    info!(target: TARGET, code, class, dominion, "request turned away");
}

/// Emits the event for a request whose client went away.
pub(crate) fn cancelled(stage: &str, class: &str, dominion: Option<&str>) {
    debug!(target: TARGET, stage, class, dominion, "request cancelled");
}
