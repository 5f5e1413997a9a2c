//! A Tower layer that decides who goes next in front of an expensive HTTP backend, above all an LLM
//! server.
//!
//! Requests wait in weighted policy classes that share the backend by tokens (deficit round robin), and
//! behind dominions, pools of slots. A slot is held for the whole life of the response body and given
//! back when it ends, fails or is dropped. All of it is configured by one YAML policy, which is
//! checked when it is loaded.
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
//! // Takes the one slot, until its response's body has ended or is dropped.
//! let first = service.ready().await?.call(request).await?;
//! assert_eq!(first.status(), 200);
//!
//! // Waits for it.
//! let second = service.ready().await?.call(Request::new(Full::default()));
//! // There is room for one to wait.
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
//! # Where to read on
//!
//! - [`PolicyQueueLayer`] is what is added to a stack, [`PolicyConfig`] what it is made from. The
//!   README has the whole YAML and all answers.
//! - [`PolicyChanges`] is what changes from one policy to the next.
//! - [`Admission`] tells an admitted request its class and worker, and keeps its slot on demand.
//! - [`QueueHints`] and [`Classify`] say what no header does; [`CachedTokens`] says what workers have
//!   of a prompt already.
//! - [`Rejection`] is how a request is turned away; [`ResponseForRejection`] replaces the response.
//! - [`ClassView`], [`DominionView`] and their like are a policy for reading.
//! - [`PolicyQueueHandle`] changes the queues while they run, and ends them.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `metrics`: tells the recorder of the crate `metrics` what waits, runs and is over: the module `metrics`
//!   has a table of it.
//! - `tracing`: tells spans and subscribers: see [below](#tracing).
//! - `openai`: reads the model and the prompt's length out of the JSON of OpenAI requests, and remembers
//!   which worker has seen which prompt: the module `openai`.
//! - `schema`: the JSON Schema of the YAML, for editors: `PolicyConfig::json_schema`.
//! - `status`: a page that shows the layer at work, to be mounted behind authentication: the module
//!   `status`.
//! - `internals`: what this crate's own benchmarks look at. No promise holds for it.
//!
//! # Tracing
//!
//! With the feature `tracing`, when a request goes on to the inner service, these fields of the current span
//! are recorded, if the span declares them (`info_span!("request", policy_queue.class = Empty, ..)`):
//!
//! | field | |
//! |---|---|
//! | `policy_queue.class` | its policy class |
//! | `policy_queue.dominion` | the dominion that gave the slot, if any did |
//! | `policy_queue.worker` | the worker it was given to, if the policy names any |
//! | `policy_queue.waited_ms` | how long it waited, in milliseconds; 0 if it did not |
//!
//! There is one event, of the target `tower_policy_queue`, for each request that is turned away (INFO, with
//! the fields `code`, `class` and `dominion`, as far as they are known) and for each whose client goes away
//! (DEBUG, with `stage`: `queued`, `granted` or `running`, `class` and `dominion`). A cancellation is seldom
//! in its request's span: it is noticed when something is dropped, and `TraceLayer` enters its span to poll.
//! Nothing that a client sent is in any of them, and none is made under a lock.
//!
//! # What counts as done
//!
//! A request is over, and its slot with it, when its response body has ended: with its last frame,
//! with an error, or with its drop, whichever comes first; if the head never comes, when the response
//! future is dropped. A class may say otherwise (`hold_until`, `max_hold_ms`).
//!
//! # What it costs
//!
//! A layer holds, for each parked request, its queue entry (a few hundred bytes), the request itself,
//! and up to `read_ahead_bytes` of its body. `max_queue` bounds the number of them for each dominion;
//! for requests without a dominion, the limits of their class do. Client labels are told apart up to 32 in a
//! dominion. No task is spawned and no timer runs, but for requests that have a deadline or a
//! longest hold; those need a Tokio runtime with its time driver.

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
