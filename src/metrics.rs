//! The metrics that the layer reports through the crate `metrics`, with the feature of that name.
//!
//! There is nothing to call: a layer reports to the recorder that is installed when the layer is created,
//! so install the recorder first. Every series exists from then on, starting at 0.
//!
//! | series | kind | labels | what it is |
//! |---|---|---|---|
//! | `policy_queue_requests_total` | counter | class | requests that came |
//! | `policy_queue_admitted_total` | counter | class | requests that were given a slot |
//! | `policy_queue_served_tokens_total` | counter | class | uncached input tokens of those, at least one each |
//! | `policy_queue_completed_total` | counter | class | kept their slot for as long as their class says |
//! | `policy_queue_failed_total` | counter | class | the inner service or its response failed, or panicked |
//! | `policy_queue_revoked_total` | counter | class | their responses ended with a [`SlotRevoked`](crate::SlotRevoked) |
//! | `policy_queue_cancelled_total` | counter | class, `stage` | their clients went away: `queued`, `granted` or `running` |
//! | `policy_queue_rejected_total` | counter | class, `code` | turned away, by the answer's `error.code` |
//! | `policy_queue_bypassed_total` | counter | | the policy does not concern them: see the key `bypass` |
//! | `policy_queue_nested_total` | counter | | ran on the slot of the request that sent them |
//! | `policy_queue_waiting_requests` | gauge | class | requests that wait |
//! | `policy_queue_waiting_tokens` | gauge | class | their input tokens, cached ones included |
//! | `policy_queue_deficit_tokens` | gauge | class | credited and not spent; negative in debt |
//! | `policy_queue_quantum_tokens` | gauge | class | credited in each round: the promised share; 0: closed |
//! | `policy_queue_slots` | gauge | `dominion` | requests that may run at the same time; 0: unlimited, or closed |
//! | `policy_queue_slots_in_use` | gauge | `dominion` | requests that have a slot |
//! | `policy_queue_idle_slot_seconds` | gauge | `dominion` | how long a slot was free beside a request that could have used it; anything but 0 is a bug of this crate |
//! | `policy_queue_worker_in_flight_requests` | gauge | `dominion`, `worker` | requests that a worker has |
//! | `policy_queue_worker_prefill_tokens` | gauge | `dominion`, `worker` | uncached tokens of those whose first byte has not come |
//! | `policy_queue_wait_seconds` | histogram | class | from the arrival to the grant; 0 for who did not wait |
//! | `policy_queue_hold_seconds` | histogram | class | from when the request went on to when its slot came back |
//!
//! # Labels
//!
//! *class* stands for three labels: `dominion`, `profile` (the model whose profile the class belongs to) and
//! `class`. Label values come from the policy and from what the [handle](crate::PolicyQueueHandle) adds to
//! it, never from a request.
//!
//! A label is empty where there is nothing to name: `dominion` for requests without one, `profile` for the
//! root profile, and `worker` for the implicit worker of a dominion for which the policy names none. All
//! three labels of a class are empty for requests that are turned away before their class is known
//! (`invalid_queue_header`, `no_eligible_worker` and `queue_unavailable`).
//!
//! After a reload, `class="(removed)"` counts the remaining requests of classes that were removed.
//!
//! A dominion that is not enforced is reported twice: as it is, under its id, and as it would be, under
//! `<id> (if enforced)`. The latter is updated when a request enters or leaves the dominion.
//!
//! # Guarantees
//!
//! - Each request counted in `policy_queue_requests_total` is, in the end, counted in exactly one of the
//!   series completed, failed, revoked, cancelled and rejected. The counts are those of
//!   [`PolicyQueueHandle::snapshot`](crate::PolicyQueueHandle::snapshot).
//! - A recorder is never called under a lock of the layer. Each change is reported exactly once, by whoever
//!   made it, right after it; so the reports add up to the true values, whatever their order. Between a
//!   change and its report, a gauge may be off by that change.
//! - If a recorder panics, that report is lost. No request is.
//! - Two layers under one recorder add up where their labels are the same. A layer's gauges return to 0 when
//!   the layer and its last request are gone.
//!
//! # With Prometheus
//!
//! Unless it is given buckets, the exporter renders a histogram as quantiles, which cannot be aggregated:
//!
//! ```
//! use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
//! use tower_policy_queue::metrics;
//!
//! let seconds = [0.0, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];
//! let recorder = PrometheusBuilder::new()
//!     .set_buckets_for_metric(Matcher::Full(metrics::WAIT_SECONDS.to_owned()), &seconds)?
//!     .set_buckets_for_metric(Matcher::Full(metrics::HOLD_SECONDS.to_owned()), &seconds)?
//!     .build_recorder();
//! # Ok::<(), metrics_exporter_prometheus::BuildError>(())
//! ```
//!
//! Leave its `idle_timeout` off: it drops series that do not change, and a layer registers its series only
//! once. The example `metrics` serves these metrics to Prometheus and comes with a Grafana dashboard.

/// The name of the histogram of waits, for configuring its buckets.
pub const WAIT_SECONDS: &str = "policy_queue_wait_seconds";

/// The name of the histogram of holds, for configuring its buckets.
pub const HOLD_SECONDS: &str = "policy_queue_hold_seconds";
