//! The layer.

use std::{error::Error, fmt, sync::Arc};

use tower_layer::Layer;

use super::{
    DefaultResponseForRejection, NoCache, NoClassifier, PolicyQueue, PolicyQueueHandle,
    core::Route, hub::Door,
};
use crate::config::PolicyConfig;

/// Decides who goes next in front of an expensive HTTP service.
///
/// All clones of a layer, and all services made from them, share its queues and slots: one limit
/// for every route and every connection. Two layers made from the same configuration share
/// nothing.
///
/// ```
/// use std::convert::Infallible;
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
/// use tower_policy_queue::{Admission, PolicyConfig, PolicyQueueLayer, RequestBody};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config: PolicyConfig = "
/// dominions:
///   - {id: gpu, kind: remote, max_concurrency: 4, max_queue: 100}
/// ".parse()?;
///
/// let service = ServiceBuilder::new()
///     .layer(PolicyQueueLayer::new(config))
///     .service(service_fn(|request: Request<RequestBody<Full<Bytes>>>| async move {
///         let admission: &Admission = request.extensions().get().unwrap();
///         assert_eq!(admission.dominion(), Some("gpu"));
///         Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
///     }));
///
/// let response = service.oneshot(Request::new(Full::default())).await?;
/// assert_eq!(response.status(), 200);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PolicyQueueLayer<C = NoClassifier, R = DefaultResponseForRejection, K = NoCache> {
    door: Arc<Door>,
    /// The id of the dominion that the layer is bound to.
    bound: Option<Arc<str>>,
    classifier: C,
    respond: R,
    cache: K,
}

impl PolicyQueueLayer {
    /// Creates a layer with queues and slots of its own.
    #[must_use]
    pub fn new(config: PolicyConfig) -> Self {
        Self {
            door: Door::new(config),
            bound: None,
            classifier: NoClassifier,
            respond: DefaultResponseForRejection,
            cache: NoCache,
        }
    }
}

impl<C, R, K> PolicyQueueLayer<C, R, K> {
    /// Returns a clone of the layer that is bound to a dominion, for use on one route. It shares the queues
    /// and slots of the original.
    ///
    /// Requests of that route go to this dominion, unless a pinned worker or their model puts them into
    /// another one.
    ///
    /// # Errors
    ///
    /// [`UnknownDominion`] if the policy has no dominion with that id.
    pub fn dominion(&self, id: &str) -> Result<Self, UnknownDominion>
    where
        C: Clone,
        R: Clone,
        K: Clone,
    {
        let core = self.door.hub().current();
        if core.route(Some(id)) == Route::Gone {
            return Err(UnknownDominion {
                id: id.to_owned(),
                known: core.dominion_ids().map(str::to_owned).collect(),
            });
        }
        Ok(Self {
            bound: Some(id.into()),
            ..self.clone()
        })
    }

    /// Classifies each request with `classifier`, which overrides extensions and headers: see
    /// [`Classify`](crate::Classify).
    #[must_use]
    pub fn classifier<T>(self, classifier: T) -> PolicyQueueLayer<T, R, K> {
        PolicyQueueLayer {
            door: self.door,
            bound: self.bound,
            classifier,
            respond: self.respond,
            cache: self.cache,
        }
    }

    /// Uses `respond` to build the response to each request that is turned away: see
    /// [`ResponseForRejection`](crate::ResponseForRejection).
    #[must_use]
    pub fn on_rejection<T>(self, respond: T) -> PolicyQueueLayer<C, T, K> {
        PolicyQueueLayer {
            door: self.door,
            bound: self.bound,
            classifier: self.classifier,
            respond,
            cache: self.cache,
        }
    }

    /// Asks `cache` how much of a prompt each worker has cached: see
    /// [`CachedTokens`](crate::CachedTokens).
    #[must_use]
    pub fn cached_tokens<T>(self, cache: T) -> PolicyQueueLayer<C, R, T> {
        PolicyQueueLayer {
            door: self.door,
            bound: self.bound,
            classifier: self.classifier,
            respond: self.respond,
            cache,
        }
    }

    /// Returns a handle to inspect, change and close the layer's queues.
    ///
    /// The handle does not keep the queues open: once the last layer and the last service made from it are
    /// dropped, requests that still wait are answered with `queue_unavailable`.
    pub fn handle(&self) -> PolicyQueueHandle {
        PolicyQueueHandle::new(Arc::clone(self.door.hub()))
    }
}

impl<S, C, R, K> Layer<S> for PolicyQueueLayer<C, R, K>
where
    C: Clone,
    R: Clone,
    K: Clone,
{
    type Service = PolicyQueue<S, C, R, K>;

    fn layer(&self, inner: S) -> Self::Service {
        let door = Arc::clone(&self.door);
        PolicyQueue::new(
            inner,
            door,
            self.bound.clone(),
            self.classifier.clone(),
            self.respond.clone(),
            self.cache.clone(),
        )
    }
}

impl<C, R, K> fmt::Debug for PolicyQueueLayer<C, R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.door.hub().current();
        let dominions: Vec<_> = core.dominion_ids().collect();
        f.debug_struct("PolicyQueueLayer")
            .field("dominions", &dominions)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

/// The error of [`PolicyQueueLayer::dominion`] for a dominion that the policy does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDominion {
    id: String,
    known: Vec<String>,
}

impl UnknownDominion {
    /// The id that was asked for.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for UnknownDominion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the policy has no dominion `{}`; ", self.id)?;
        if self.known.is_empty() {
            f.write_str("it has none at all")
        } else {
            write!(f, "it has `{}`", self.known.join("`, `"))
        }
    }
}

impl Error for UnknownDominion {}
