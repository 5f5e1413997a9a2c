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
    /// The id of the dominion of the route.
    bound: Option<Arc<str>>,
    classifier: C,
    respond: R,
    cache: K,
}

impl PolicyQueueLayer {
    /// A layer with queues and slots of its own.
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
    /// The same layer, for the requests of one route that neither a pinned worker nor their model
    /// puts into another dominion.
    ///
    /// # Errors
    ///
    /// [`UnknownDominion`] if the policy has none of that id.
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

    /// Has each request classified by `classifier`, whose word beats extensions and headers: see
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

    /// Has `respond` make the response to a request that is turned away: see
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

    /// Has `cache` say what workers have of a prompt already: see
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

    /// A handle on the layer's queues, to change and to end them. It does not keep them open: once the
    /// last layer and the last service made from it are dropped, whoever waits is answered with
    /// `queue_unavailable`.
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

/// A layer was asked for a dominion that its policy does not have.
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
