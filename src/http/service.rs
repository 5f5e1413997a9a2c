//! The service that the layer produces.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    BoxError, CachedTokens, Classify, DefaultResponseForRejection, NoCache, NoClassifier,
    RequestBody, ResponseBody, ResponseForRejection, ResponseFuture,
    core::{Core, Route},
    enter::NotEntered,
    future::Entered,
    hub::Door,
    slot::Slot,
};

/// Admits requests to the inner service according to the policy: see [`PolicyQueueLayer`].
///
/// It is always ready and reserves nothing: a request queues inside its response future, which
/// drives its own clone of the inner service to readiness once it has been granted a slot. (Holding
/// the inner service's readiness while waiting would keep places of a `Buffer` or permits of a
/// `ConcurrencyLimit` below from requests that could use them.)
///
/// [`PolicyQueueLayer`]: crate::PolicyQueueLayer
#[derive(Clone)]
pub struct PolicyQueue<S, C = NoClassifier, R = DefaultResponseForRejection, K = NoCache> {
    inner: S,
    door: Arc<Door>,
    /// The policy in force when a request last arrived.
    core: Arc<Core>,
    /// The id of the dominion that the route is bound to.
    bound: Option<Arc<str>>,
    /// That dominion under `core`.
    route: Route,
    classifier: C,
    respond: R,
    cache: K,
}

impl<S, C, R, K> PolicyQueue<S, C, R, K> {
    pub(super) fn new(
        inner: S,
        door: Arc<Door>,
        bound: Option<Arc<str>>,
        classifier: C,
        respond: R,
        cache: K,
    ) -> Self {
        let core = door.hub().current();
        Self {
            inner,
            door,
            route: core.route(bound.as_deref()),
            core,
            bound,
            classifier,
            respond,
            cache,
        }
    }

    /// Switches to another policy.
    fn follow(&mut self, core: Arc<Core>) {
        self.core = core;
        self.route = self.core.route(self.bound.as_deref());
    }

    /// Gets a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Gets a mutable reference to the inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Gets the inner service back.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, C, R, K, ReqBody, ResBody> Service<Request<ReqBody>> for PolicyQueue<S, C, R, K>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>> + Clone,
    C: Classify<ReqBody>,
    R: ResponseForRejection<ResBody> + Clone,
    K: CachedTokens + Clone,
    ReqBody: Body,
    ResBody: Body<Data = Bytes>,
    ResBody::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, R, ReqBody, K>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        if self.core.is_superseded() {
            self.follow(self.door.hub().current());
        }
        // Decided here, not at the first poll: requests arrive in the order of their calls.
        let entered = if self.core.bypasses(&request) {
            Ok(Entered::Go(Slot::None))
        } else {
            let said = self.classifier.classify(&request);
            loop {
                match self.core.enter(&request, &said, &self.cache, self.route) {
                    Ok(entered) => break Ok(entered),
                    Err(NotEntered::Rejected(rejection)) => break Err(rejection),
                    // The pools may follow the next policy before it is in force.
                    Err(NotEntered::Superseded) => self.follow(self.door.hub().settled()),
                }
            }
        };
        let (respond, cache) = (self.respond.clone(), self.cache.clone());
        ResponseFuture::new(
            &self.core,
            self.inner.clone(),
            request,
            respond,
            cache,
            entered,
        )
    }
}

// Not derived: closures have no `Debug`, and a dump of the whole policy is no help.
impl<S: fmt::Debug, C, R, K> fmt::Debug for PolicyQueue<S, C, R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyQueue")
            .field("inner", &self.inner)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}
