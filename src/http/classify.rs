//! What is known about a request beyond its headers.

use http::Request;

/// What is known about a request.
///
/// It comes from three sources, listed here in order of precedence. They are merged field by field: a
/// field that one source leaves `None` is taken from the next.
///
/// 1. The layer's [classifier](crate::PolicyQueueLayer::classifier).
/// 2. A `QueueHints` in the request's extensions, put there by an authenticating or tokenizing layer
///    outside.
/// 3. The headers that the policy names under `headers`.
///
/// ```
/// use tower_policy_queue::QueueHints;
///
/// let hints = QueueHints {
///     policy: Some("premium".to_owned()),
///     raw_isl_tokens: Some(4096),
///     ..QueueHints::default()
/// };
/// # assert_eq!(hints.cached_tokens, None);
/// ```
///
/// Fields may be added in minor releases: end a literal with `..QueueHints::default()`, as above.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueHints {
    /// The policy family, or the name of an explicit class.
    pub policy: Option<String>,
    /// The client's label. Clients take turns by it.
    pub client: Option<String>,
    /// The requested model.
    pub model: Option<String>,
    /// The input length in tokens, including cached ones.
    pub raw_isl_tokens: Option<u64>,
    /// The input tokens that are cached. A value above the input length counts as the whole input.
    pub cached_tokens: Option<u64>,
    /// The priority tier inside the class. Higher tiers go first.
    pub strict_priority: Option<u32>,
    /// In an FCFS class, a head start in seconds; in a WSPT class, additional weight. Negative values and
    /// NaN count as 0.
    pub priority_jump: Option<f64>,
    /// The id of the worker that the request is pinned to.
    pub worker: Option<String>,
    /// The ids of the workers that the request may go to.
    pub allowed_workers: Option<Vec<String>>,
    /// The taints of workers that the request tolerates. No header can set this.
    pub tolerations: Option<Vec<String>>,
    /// The longest the request may wait, in milliseconds. A class may allow less.
    pub max_queue_wait_ms: Option<u64>,
}

/// Classifies requests. Implemented for closures from `&Request<B>` to [`QueueHints`].
///
/// It runs once for each request when the request arrives, outside any lock. Requests that bypass the
/// policy (`bypass`) are not classified. What it returns overrides headers and extensions, so it is the
/// place to cap what a caller may ask for.
///
/// `B` is the type of the incoming body: `axum::body::Body` in axum, unless a layer above this one in a
/// `ServiceBuilder` wraps bodies, as tower-http's `RequestBodyLimitLayer` does. A function that is generic
/// over it, `fn classify<B>(request: &Request<B>) -> QueueHints`, fits everywhere.
///
/// ```
/// use http::Request;
/// use tower_policy_queue::{Classify, QueueHints};
///
/// // A closure must spell out the type of its argument.
/// let by_path = |request: &Request<()>| QueueHints {
///     policy: request.uri().path().starts_with("/batch").then(|| "batch".to_owned()),
///     ..QueueHints::default()
/// };
/// let hints = by_path.classify(&Request::new(()));
/// assert_eq!(hints.policy, None);
/// ```
pub trait Classify<B> {
    /// Returns what is known about the request.
    fn classify(&self, request: &Request<B>) -> QueueHints;
}

impl<B, F> Classify<B> for F
where
    F: Fn(&Request<B>) -> QueueHints,
{
    fn classify(&self, request: &Request<B>) -> QueueHints {
        self(request)
    }
}

/// Adds nothing to headers and extensions. The default classifier of a layer.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NoClassifier;

impl<B> Classify<B> for NoClassifier {
    fn classify(&self, _: &Request<B>) -> QueueHints {
        QueueHints::default()
    }
}
