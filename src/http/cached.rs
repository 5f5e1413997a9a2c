//! How much of a prompt workers have cached.

use std::sync::Arc;

use http::Request;

/// Says how much of a request's prompt a worker has in its cache.
///
/// When a request arrives, the layer asks about each worker that the request may go to, outside any lock.
/// The highest answer counts. It is taken off the request's cost, unless hints or headers have already
/// set `cached_tokens`; and the request prefers that worker, if it is not busy when the request's turn
/// comes.
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
    /// False if the answer is always 0; the layer then does not ask.
    const ASKED: bool = true;

    /// The tokens of the prompt that the worker has cached and need not compute.
    fn cached_tokens<B>(&self, request: &Request<B>, worker: &str) -> u64;

    /// Called when the request goes on to the worker, which will then have its prompt.
    fn dispatched<B>(&self, request: &Request<B>, worker: &str) {
        let _ = (request, worker);
    }
}

/// Lets layers share a cache that is not `Clone`.
impl<K: CachedTokens> CachedTokens for Arc<K> {
    const ASKED: bool = K::ASKED;

    fn cached_tokens<B>(&self, request: &Request<B>, worker: &str) -> u64 {
        K::cached_tokens(self, request, worker)
    }

    fn dispatched<B>(&self, request: &Request<B>, worker: &str) {
        K::dispatched(self, request, worker);
    }
}

/// Knows of no cached tokens. The default of a layer.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NoCache;

impl CachedTokens for NoCache {
    const ASKED: bool = false;

    fn cached_tokens<B>(&self, _: &Request<B>, _: &str) -> u64 {
        0
    }
}
