//! The path of a request from its first byte to the inner service.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    EstimateTokens, Operation, RequestBody, ResponseBody, UnreadableBody, buffer::Buffer, hints,
    layer::Settings,
};

pin_project! {
    /// The response future of [`OpenAiHints`](super::OpenAiHints).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, E, ReqBody>
    where
        S: Service<Request<RequestBody<ReqBody>>>,
    {
        #[pin]
        state: State<S, E, ReqBody, S::Future>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, E, B, F> {
        // The body is being received.
        Reading { #[pin] body: B, buffer: Buffer, head: Box<Head<S, E>> },
        // Waits for the inner service to be ready.
        Ready { service: S, request: Request<RequestBody<B>> },
        // The inner service is at work.
        Running { #[pin] future: F },
        Done,
    }
}

/// A request without its body, and what is needed to pass it on. Boxed: reading is short, but a future is
/// always as large as its largest state.
struct Head<S, E> {
    service: S,
    parts: Parts,
    operation: Operation,
    estimator: Arc<E>,
}

impl<S, E, ReqBody> ResponseFuture<S, E, ReqBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
{
    /// Reads the body before the request goes on.
    pub(super) fn reading(
        service: S,
        request: Request<ReqBody>,
        operation: Operation,
        settings: Settings<E>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        let head = Box::new(Head {
            service,
            parts,
            operation,
            estimator: settings.estimator,
        });
        let buffer = Buffer::new(settings.max_body_bytes);
        Self {
            state: State::Reading { body, buffer, head },
        }
    }

    /// Passes the request on as it is.
    pub(super) fn passing(service: S, request: Request<ReqBody>) -> Self {
        let request = request.map(RequestBody::untouched);
        Self {
            state: State::Ready { service, request },
        }
    }
}

impl<S, E, ReqBody, ResBody> Future for ResponseFuture<S, E, ReqBody>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
    E: EstimateTokens,
    ReqBody: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            // Each state is polled in place until it is over, and then taken out.
            let over: Result<(), UnreadableBody> = match state.as_mut().project() {
                StateProj::Reading { body, buffer, .. } => ready!(buffer.poll_fill(body, cx)),
                StateProj::Ready { service, .. } => match ready!(service.poll_ready(cx)) {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        state.set(State::Done);
                        return Poll::Ready(Err(error));
                    }
                },
                StateProj::Running { future } => {
                    let result = ready!(future.poll(cx));
                    state.set(State::Done);
                    let response = result.map(|response| response.map(ResponseBody::inner));
                    return Poll::Ready(response);
                }
                StateProj::Done => panic!("`ResponseFuture` polled after completion"),
            };
            let left = state.as_mut().project_replace(State::Done);
            let next = over.and_then(|()| match left {
                StateOwned::Reading { buffer, head, .. } => head.read(buffer),
                StateOwned::Ready {
                    mut service,
                    request,
                } => Ok(State::Running {
                    future: service.call(request),
                }),
                StateOwned::Running { .. } | StateOwned::Done => Ok(State::Done),
            });
            match next {
                Ok(next) => state.set(next),
                Err(unreadable) => return Poll::Ready(Ok(unreadable.into_response())),
            }
        }
    }
}

impl<S, E: EstimateTokens> Head<S, E> {
    /// Reads the complete body.
    fn read<B, F>(self, buffer: Buffer) -> Result<State<S, E, B, F>, UnreadableBody> {
        let Self {
            service,
            mut parts,
            operation,
            estimator,
        } = self;
        let (data, trailers) = buffer.finish();
        hints::attach(&mut parts.extensions, operation, &data, &*estimator)?;
        let request = Request::from_parts(parts, RequestBody::read(data, trailers));
        Ok(State::Ready { service, request })
    }
}

impl<S, E, ReqBody> fmt::Debug for ResponseFuture<S, E, ReqBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Reading { .. } => "Reading",
            State::Ready { .. } => "Ready",
            State::Running { .. } => "Running",
            State::Done => "Done",
        };
        f.debug_struct("ResponseFuture")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
