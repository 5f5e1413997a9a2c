//! What workers have of a prompt already.

use std::sync::Arc;

use http::Request;

/// Says how much of a request's prompt a worker has in its cache.
///
/// It is asked when a request arrives, for each worker that it may go to, outside of any lock. The best
/// answer counts: it is taken off the request's cost, unless somebody said `cached_tokens` already, and
/// the worker that gave it gets the request if it is not busy when its turn comes.
///
/// ```
/// use http::Request;
/// use tower_policy_queue::{CachedTokens, PolicyConfig, PolicyQueueLayer};
///
/// #[derive(Clone)]
/// struct Sticky;
///
/// impl CachedTokens for Sticky {
///     fn cached_tokens<B>(&self, request: &Request<B>, worker: &str) -> u64 {
///         let last = request.headers().get("x-last-worker");
///         if last.is_some_and(|last| last == worker) { 1000 } else { 0 }
///     }
/// }
///
/// let layer = PolicyQueueLayer::new(PolicyConfig::default()).cached_tokens(Sticky);
/// # let _ = layer;
/// ```
pub trait CachedTokens {
    /// False if the answer is always 0, so that it need not be asked for.
    const ASKED: bool = true;

    /// The prompt's tokens that the worker need not compute.
    fn cached_tokens<B>(&self, request: &Request<B>, worker: &str) -> u64;

    /// The request goes to the worker, which will have its prompt.
    fn dispatched<B>(&self, request: &Request<B>, worker: &str) {
        let _ = (request, worker);
    }
}

/// For a cache that is shared and need not be `Clone`.
impl<K: CachedTokens> CachedTokens for Arc<K> {
    const ASKED: bool = K::ASKED;

    fn cached_tokens<B>(&self, request: &Request<B>, worker: &str) -> u64 {
        K::cached_tokens(self, request, worker)
    }

    fn dispatched<B>(&self, request: &Request<B>, worker: &str) {
        K::dispatched(self, request, worker);
    }
}

/// Knows of no caches: what a layer starts with.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NoCache;

impl CachedTokens for NoCache {
    const ASKED: bool = false;

    fn cached_tokens<B>(&self, _: &Request<B>, _: &str) -> u64 {
        0
    }
}
