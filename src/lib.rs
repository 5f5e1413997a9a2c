//! A Tower layer that decides who goes next in front of an expensive HTTP backend, above all an LLM
//! server.
//!
//! Requests queue in weighted *policy classes*, which share the backend by tokens (deficit round robin),
//! and run in *dominions*, pools of concurrency slots. A request holds its slot for the whole life of its
//! response body: until the body ends, fails or is dropped. One YAML policy configures all of it and is
//! validated when it is loaded.
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_policy_queue::{Admission, PolicyConfig, PolicyQueueLayer, RequestBody};
//!
//! async fn handle(request: Request<RequestBody<Full<Bytes>>>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     let admission: &Admission = request.extensions().get().unwrap();
//!     Ok(Response::new(Full::from(admission.class().to_owned())))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config: PolicyConfig = "
//! default_policy_family: regular
//! uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
//! policy_classes:
//!   - {name: premium, policy_family: premium, cache_bucket: all, quantum: 2048}
//!   - {name: regular, policy_family: regular, cache_bucket: all, quantum: 512}
//! dominions:
//!   - {id: gpu, kind: remote, max_concurrency: 1, max_queue: 1}
//! ".parse()?;
//!
//! let mut service = ServiceBuilder::new()
//!     .layer(PolicyQueueLayer::new(config))
//!     .service(service_fn(handle));
//!
//! let request = Request::builder()
//!     .header("x-dynamo-meta-policy-class", "premium")
//!     .body(Full::default())?;
//! // Holds the only slot until its response body ends or is dropped.
//! let first = service.ready().await?.call(request).await?;
//! assert_eq!(first.status(), 200);
//!
//! // Waits for the slot.
//! let second = service.ready().await?.call(Request::new(Full::default()));
//! // Only one request may wait.
//! let third = service.ready().await?.call(Request::new(Full::default())).await?;
//! assert_eq!(third.status(), 503);
//! assert_eq!(third.headers()["x-policy-queue-reason"], "queue_full");
//!
//! drop(first);
//! assert_eq!(second.await?.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go next
//!
//! - [`PolicyQueueLayer`] is the layer; it is created from a [`PolicyConfig`]. The README documents the
//!   whole YAML file and every rejection.
//! - [`PolicyChanges`] lists what differs between two policies.
//! - [`Admission`] tells a handler the class and worker of its request, and can hold the request's slot.
//! - [`QueueHints`] and [`Classify`] describe a request beyond its headers; [`CachedTokens`] says how much
//!   of a prompt each worker has cached.
//! - [`Rejection`] says why a request was turned away; [`ResponseForRejection`] customizes the response.
//! - [`ClassView`], [`DominionView`] and the other views give read access to a policy.
//! - [`PolicyQueueHandle`] inspects and changes the queues while they run, and shuts them down.
//!
//! # Features
//!
//! All are off by default.
//!
//! - `metrics`: reports what waits, runs and finishes through the crate `metrics`; the module `metrics` lists
//!   every series.
//! - `tracing`: records span fields and emits events: see [below](#tracing).
//! - `openai`: reads the model and the prompt's length from the JSON of OpenAI requests, and remembers which
//!   worker has seen which prompt: see the module `openai`.
//! - `schema`: the JSON Schema of the YAML, for editors: `PolicyConfig::json_schema`.
//! - `status`: a page that shows the layer at work, to be mounted behind authentication: see the module
//!   `status`.
//! - `internals`: for this crate's own benchmarks. It comes without any stability guarantee.
//!
//! # Tracing
//!
//! With the feature `tracing`, the layer records these fields in the current span when a request goes on to
//! the inner service, if the span declares them (`info_span!("request", policy_queue.class = Empty, ..)`):
//!
//! | field | |
//! |---|---|
//! | `policy_queue.class` | its policy class |
//! | `policy_queue.dominion` | the dominion that granted the slot, if any |
//! | `policy_queue.worker` | the worker it was dispatched to, if the policy names any |
//! | `policy_queue.waited_ms` | how long it waited, in milliseconds; 0 if it did not |
//!
//! It also emits events with the target `tower_policy_queue`:
//!
//! - at INFO for each request that is turned away, with the fields `code`, and `class` and `dominion` if
//!   they are known;
//! - at DEBUG for each request whose client goes away, with the fields `stage` (`queued`, `granted` or
//!   `running`), `class` and `dominion`.
//!
//! A cancellation event is seldom inside its request's span: a cancellation is noticed in a drop, and
//! `TraceLayer` enters its span only to poll. No field or event contains anything that a client sent, and
//! none is recorded under a lock.
//!
//! # When a request is done
//!
//! A request is done, and its slot released, when its response body ends, fails or is dropped, whichever
//! comes first; if the response head never comes, when the response future fails or is dropped. A class can
//! end the hold earlier (`hold_until`, `max_hold_ms`).
//!
//! # What it costs
//!
//! For each parked request, a layer holds a queue entry (a few hundred bytes), the request itself, and up to
//! `read_ahead_bytes` of its body. `max_queue` bounds the number of parked requests in each dominion; for
//! requests without a dominion, the limits of their class do. A dominion tells at most 32 client labels
//! apart. The layer spawns no tasks. It runs timers only for requests that have a deadline or a longest
//! hold; those need a Tokio runtime with its time driver enabled.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(missing_debug_implementations, rust_2018_idioms, unreachable_pub)]

mod config;
mod http;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "openai")]
pub mod openai;
mod pool;
mod schedule;
#[cfg(feature = "status")]
pub mod status;
mod sync;
#[cfg(feature = "tracing")]
mod trace;
#[cfg(not(feature = "tracing"))]
#[path = "trace/off.rs"]
mod trace;

pub use self::{
    config::{
        BucketView, ClassView, ConfigError, ConfigMistake, DominionView, Endpoint, PolicyChange,
        PolicyChanges, PolicyConfig, ProfileView, WorkerView,
    },
    http::{
        Admission, BoxError, CachedTokens, ChangeError, Classify, DefaultResponseForRejection,
        Hold, NoCache, NoClassifier, PolicyQueue, PolicyQueueHandle, PolicyQueueLayer, QueueHints,
        Reason, Rejection, RequestBody, ResponseBody, ResponseForRejection, ResponseFuture,
        SlotRevoked, Snapshot, UnknownDominion, Unplaced, Usage, WorkerSpec,
    },
    pool::{
        Cancelled, ClassSnapshot, ClientSnapshot, DominionSnapshot, LimitKind, Rejected, Totals,
        WaitReason, WaiterSnapshot, WorkerSnapshot,
    },
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
