//! What is known of a request beyond its headers.

use http::Request;

/// What a request is, as far as somebody says so. A field left `None` is taken from the next source.
///
/// The sources, the later ones winning field by field: the headers that the policy believes, a
/// `QueueHints` among the request's extensions, put there by an authenticating or tokenizing
/// layer outside, and the layer's [classifier](crate::PolicyQueueLayer::classifier).
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
    /// The policy family, or an explicit class.
    pub policy: Option<String>,
    /// The client's label, for turns between clients.
    pub client: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// Input length in tokens, cached ones included.
    pub raw_isl_tokens: Option<u64>,
    /// Input tokens found in a cache; more than the input's length counts as all of it.
    pub cached_tokens: Option<u64>,
    /// The tier inside the class, the higher first.
    pub strict_priority: Option<u32>,
    /// Seconds to be ahead by in an FCFS class, additional weight in a WSPT class. Negative
    /// values, and NaN, count as 0.
    pub priority_jump: Option<f64>,
    /// The id of the one worker to go to.
    pub worker: Option<String>,
    /// The ids of the workers that it may go to.
    pub allowed_workers: Option<Vec<String>>,
    /// Taints of workers that do not keep it away. No header says this.
    pub tolerations: Option<Vec<String>>,
    /// The longest it may wait, in milliseconds; a class may allow less.
    pub max_queue_wait_ms: Option<u64>,
}

/// Says what a request is. Implemented for closures from `&Request<B>` to [`QueueHints`].
///
/// It runs once for each request that the policy does not let past (`bypass`), when it arrives, outside
/// of any lock. It has the last word: what it returns beats headers and extensions, so it is the place
/// to cap what a caller may ask for.
///
/// `B` is the body that comes in: in axum `axum::body::Body`, unless the layer stands in a
/// `ServiceBuilder` below one that wraps bodies, such as tower-http's `RequestBodyLimitLayer`. A
/// function that is generic over it, `fn classify<B>(request: &Request<B>) -> QueueHints`, fits everywhere.
///
/// ```
/// use http::Request;
/// use tower_policy_queue::{Classify, QueueHints};
///
/// // A closure has to have the type written.
/// let by_path = |request: &Request<()>| QueueHints {
///     policy: request.uri().path().starts_with("/batch").then(|| "batch".to_owned()),
///     ..QueueHints::default()
/// };
/// let hints = by_path.classify(&Request::new(()));
/// assert_eq!(hints.policy, None);
/// ```
pub trait Classify<B> {
    /// What is known of the request.
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

/// The classifier of a layer that was given none: it knows nothing beyond headers and extensions.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NoClassifier;

impl<B> Classify<B> for NoClassifier {
    fn classify(&self, _: &Request<B>) -> QueueHints {
        QueueHints::default()
    }
}
