//! The service.

use std::{
    fmt,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    BytesPerToken, EstimateTokens, Operation, RequestBody, ResponseBody, ResponseFuture, hints,
    layer::Settings,
};

/// The service of an [`OpenAiHintsLayer`](super::OpenAiHintsLayer).
///
/// It is always ready. A client may take as long as it likes to send a body, so the readiness of the inner
/// service is not held meanwhile; each request drives its own clone to readiness once its body is read.
pub struct OpenAiHints<S, E = BytesPerToken> {
    inner: S,
    settings: Settings<E>,
}

impl<S, E> OpenAiHints<S, E> {
    pub(super) fn new(inner: S, settings: Settings<E>) -> Self {
        Self { inner, settings }
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

impl<S, E, ReqBody, ResBody> Service<Request<ReqBody>> for OpenAiHints<S, E>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>> + Clone,
    E: EstimateTokens,
    ReqBody: Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, E, ReqBody>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<ReqBody>) -> Self::Future {
        let service = self.inner.clone();
        match Operation::of(&request) {
            Some(operation) => {
                ResponseFuture::reading(service, request, operation, self.settings.clone())
            }
            None => {
                hints::forget(request.extensions_mut());
                ResponseFuture::passing(service, request)
            }
        }
    }
}

impl<S: Clone, E> Clone for OpenAiHints<S, E> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), self.settings.clone())
    }
}

impl<S: fmt::Debug, E> fmt::Debug for OpenAiHints<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiHints")
            .field("inner", &self.inner)
            .field("max_body_bytes", &self.settings.max_body_bytes)
            .finish_non_exhaustive()
    }
}
