//! A page that shows a layer at work, to be mounted wherever operators look.
//!
//! A [`StatusService`] serves a page of its own, without anything from elsewhere: slots and who
//! waits for them, why each of them waits, each class's share of the tokens beside the one that its
//! quantum promises, workers, clients, and what became of all requests. It is there only where it is
//! mounted, and changes nothing.
//!
//! | path | |
//! |---|---|
//! | `/` | the page |
//! | `/snapshot.json` | [`PolicyQueueHandle::snapshot`] as JSON |
//! | `/events` | the same once a second, as server-sent events |
//!
//! The paths are those below the place where it is mounted, which a router has to take away: axum's
//! `nest_service` does, and its `fallback_service` on a port of its own has nothing to take away. The
//! page does not need to know its place, and works with and without a slash at the end.
//!
//! # Mount it behind authentication
//!
//! It tells the names of classes, workers and clients, and how busy they are, to whoever reaches it. It
//! asks nobody for anything; what does that goes in front. A browser sends no bearer token on its own,
//! so that has to be a session's cookie, HTTP's basic authentication, or a network that only operators
//! are in.
//!
//! ```
//! use axum::{
//!     Router,
//!     body::Body,
//!     extract::Request,
//!     http::{HeaderMap, StatusCode, header},
//!     middleware::{self, Next},
//!     response::{IntoResponse, Response},
//!     routing::post,
//! };
//! use tower::ServiceExt;
//! use tower_policy_queue::{PolicyConfig, PolicyQueueLayer, status::StatusService};
//!
//! async fn operators_only(headers: HeaderMap, request: Request, next: Next) -> Response {
//!     let is_operator = headers.get(header::AUTHORIZATION).is_some_and(|value| {
//!         // What `operator` and `secret` come to. Compare in constant time, and over TLS.
//!         value == "Basic b3BlcmF0b3I6c2VjcmV0"
//!     });
//!     if is_operator {
//!         return next.run(request).await;
//!     }
//!     let challenge = [(header::WWW_AUTHENTICATE, r#"Basic realm="status""#)];
//!     (StatusCode::UNAUTHORIZED, challenge).into_response()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config: PolicyConfig = "dominions: [{id: gpu, kind: remote, max_concurrency: 4}]".parse()?;
//! let queue = PolicyQueueLayer::new(config);
//! let status = Router::new()
//!     .nest_service("/status", StatusService::new(queue.handle()))
//!     .layer(middleware::from_fn(operators_only));
//! let app = Router::new()
//!     .route("/v1/chat/completions", post(async || "hello"))
//!     .route_layer(queue)
//!     .merge(status);
//!
//! let stranger = Request::get("/status").body(Body::empty())?;
//! assert_eq!(app.clone().oneshot(stranger).await?.status(), 401);
//!
//! let operator = Request::get("/status")
//!     .header("authorization", "Basic b3BlcmF0b3I6c2VjcmV0")
//!     .body(Body::empty())?;
//! assert_eq!(app.oneshot(operator).await?.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # What it costs
//!
//! Nothing while nobody looks. A stream of events takes one [`snapshot`](PolicyQueueHandle::snapshot)
//! a second; there are at most 16 of them, and the 17th is answered with 503. A stream is polled by
//! its connection, needs a Tokio runtime with its time driver, and ends with its connection. It also
//! ends once all queues are closed and nobody has a slot, so that it does not hold up a server that
//! shuts down in order.

mod body;
mod events;
mod page;
mod service;

pub use self::{body::StatusBody, service::StatusService};

#[cfg(doc)]
use crate::PolicyQueueHandle;
