//! A page that shows a layer at work, to be mounted wherever operators look.
//!
//! A [`StatusService`] serves a self-contained page: slots and the requests that wait for them, why each
//! of these waits, each class's share of the tokens beside the share that its quantum promises, workers,
//! clients, and what became of all requests. It is read-only, and reachable only where it is mounted.
//!
//! | path | |
//! |---|---|
//! | `/` | the page |
//! | `/snapshot.json` | [`PolicyQueueHandle::snapshot`] as JSON |
//! | `/events` | the same once a second, as server-sent events |
//!
//! The paths are relative to where the service is mounted, so the router must strip the prefix. axum's
//! `nest_service` does; with `fallback_service` on a port of its own there is none to strip. The page does
//! not need to know where it is mounted, and works with and without a trailing slash.
//!
//! # Mount it behind authentication
//!
//! The page shows the names of classes, workers and clients, and how busy they are, to whoever reaches it.
//! It does no authentication of its own, so put some in front. A browser sends no bearer token on its own;
//! use a session cookie, HTTP basic authentication, or a network that only operators can reach.
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
//!         // `operator:secret` in base64. Compare in constant time, and use TLS.
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
//! Nothing while nobody looks. An event stream takes one [`snapshot`](PolicyQueueHandle::snapshot) a
//! second. At most 16 streams are open at a time; a further one is answered with 503. A stream is polled
//! by its connection, and needs a Tokio runtime with its time driver enabled. It ends with its connection,
//! or once all queues are closed and no request has a slot, so that it does not hold up a graceful
//! shutdown of the server.

mod body;
mod events;
mod page;
mod service;

pub use self::{body::StatusBody, service::StatusService};

#[cfg(doc)]
use crate::PolicyQueueHandle;
