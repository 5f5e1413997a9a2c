//! The life of a request from its arrival to its response's head.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{Admission, Rejection, ResponseBody, ResponseForRejection, shared::Entered};
use crate::pool::{Permit, Ticket};

pin_project! {
    /// The response of [`PolicyQueue`](crate::PolicyQueue).
    ///
    /// Dropped while it waits, it leaves the queue; dropped later, it gives its slot back.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, R, ReqBody>
    where
        S: Service<Request<ReqBody>>,
    {
        #[pin]
        state: State<S, R, ReqBody, S::Future>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, R, ReqBody, F> {
        // Waits for its turn.
        Parked { service: S, request: Request<ReqBody>, ticket: Ticket, respond: R },
        // Owns a slot, and waits for the inner service to be ready.
        Granted { service: S, request: Request<ReqBody>, permit: Permit },
        // The inner service is at work. The permit is the last to be dropped, here as above.
        Running { #[pin] future: F, permit: Permit },
        TurnedAway { rejection: Rejection, respond: R },
        Done,
    }
}

impl<S, R, ReqBody> ResponseFuture<S, R, ReqBody>
where
    S: Service<Request<ReqBody>>,
{
    pub(super) fn new(
        service: S,
        request: Request<ReqBody>,
        respond: R,
        entered: Result<Entered, Rejection>,
    ) -> Self {
        let state = match entered {
            Ok(Entered::Admitted(permit)) => State::Granted {
                service,
                request,
                permit,
            },
            Ok(Entered::Parked(ticket)) => State::Parked {
                service,
                request,
                ticket,
                respond,
            },
            Err(rejection) => State::TurnedAway { rejection, respond },
        };
        Self { state }
    }
}

impl<S, R, ReqBody, ResBody> Future for ResponseFuture<S, R, ReqBody>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    R: ResponseForRejection<ResBody>,
    ResBody: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        // Each state is polled in place until it is ready, then left for good: `Done` stands in
        // while its values become the next state's.
        loop {
            let outcome = match state.as_mut().project() {
                StateProj::Parked { ticket, .. } => Some(ready!(ticket.poll_granted(cx))),
                StateProj::Granted { service, .. } => {
                    if let Err(error) = ready!(service.poll_ready(cx)) {
                        state.set(State::Done);
                        return Poll::Ready(Err(error));
                    }
                    None
                }
                StateProj::Running { future, .. } => {
                    let result = ready!(future.poll(cx));
                    // The inner future is dropped here, before the permit can be.
                    let StateOwned::Running { permit, .. } = state.project_replace(State::Done)
                    else {
                        unreachable!("the state was just matched")
                    };
                    return Poll::Ready(result.map(|response| admitted(response, permit)));
                }
                StateProj::TurnedAway { .. } | StateProj::Done => None,
            };
            let next = match (state.as_mut().project_replace(State::Done), outcome) {
                (
                    StateOwned::Parked {
                        service, request, ..
                    },
                    Some(Ok(permit)),
                ) => State::Granted {
                    service,
                    request,
                    permit,
                },
                (StateOwned::Parked { respond, .. }, _) => State::TurnedAway {
                    rejection: Rejection::QueueUnavailable,
                    respond,
                },
                (
                    StateOwned::Granted {
                        mut service,
                        mut request,
                        permit,
                    },
                    _,
                ) => {
                    let admission = Admission::new(Arc::clone(permit.grant()));
                    request.extensions_mut().insert(admission);
                    State::Running {
                        future: service.call(request),
                        permit,
                    }
                }
                (StateOwned::TurnedAway { rejection, respond }, _) => {
                    return Poll::Ready(Ok(turned_away(rejection, &respond)));
                }
                (StateOwned::Running { .. } | StateOwned::Done, _) => {
                    panic!("`ResponseFuture` polled after completion")
                }
            };
            state.set(next);
        }
    }
}

/// The response of the inner service, whose body takes the permit over.
fn admitted<B: Body>(response: Response<B>, permit: Permit) -> Response<ResponseBody<B>> {
    let admission = Admission::new(Arc::clone(permit.grant()));
    let mut response = response.map(|body| ResponseBody::with_permit(body, permit));
    response.extensions_mut().insert(admission);
    response
}

/// The response of the layer itself.
fn turned_away<B>(
    rejection: Rejection,
    respond: &impl ResponseForRejection<B>,
) -> Response<ResponseBody<B>> {
    let mut response = respond.response_for_rejection(&rejection);
    response.extensions_mut().insert(rejection);
    response
}
