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

use super::{
    Admission, BoxError, Reason, Rejection, RequestBody, ResponseBody, ResponseForRejection,
    respond::turned_away, shared::Core, slot::Slot,
};
use crate::pool::{Permit, Ticket};

pin_project! {
    /// The response of [`PolicyQueue`](crate::PolicyQueue).
    ///
    /// Dropped while it waits, it leaves the queue; dropped later, it gives its slot back.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, R, ReqBody>
    where
        S: Service<Request<RequestBody<ReqBody>>>,
        ReqBody: Body,
    {
        #[pin]
        state: State<S, ReqBody, S::Future>,
        respond: R,
        core: Arc<Core>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, ReqBody, F>
    where
        ReqBody: Body,
    {
        // Waits for its turn.
        Parked { service: S, request: Request<RequestBody<ReqBody>>, ticket: Ticket },
        // May go, and waits for the inner service to be ready.
        Ready { service: S, request: Request<RequestBody<ReqBody>>, slot: Slot },
        // The inner service is at work. The slot is the last to be dropped, here as above.
        Running { #[pin] future: F, slot: Slot },
        TurnedAway { rejection: Rejection },
        Done,
    }
}

/// What a request may do when it has arrived.
#[derive(Debug)]
pub(super) enum Entered {
    Go(Slot),
    Wait(Ticket),
}

/// Why a state is left.
enum Event {
    Granted(Permit),
    Rejected(Rejection),
    Next,
}

impl<S, R, ReqBody> ResponseFuture<S, R, ReqBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
    ReqBody: Body,
{
    pub(super) fn new(
        core: &Arc<Core>,
        service: S,
        request: Request<ReqBody>,
        respond: R,
        entered: Result<Entered, Rejection>,
    ) -> Self {
        let state = match entered {
            Ok(Entered::Go(slot)) => {
                let request = request.map(RequestBody::untouched);
                State::Ready {
                    service,
                    request,
                    slot,
                }
            }
            Ok(Entered::Wait(ticket)) => {
                let request = request.map(|body| core.read_ahead(body));
                State::Parked {
                    service,
                    request,
                    ticket,
                }
            }
            Err(rejection) => State::TurnedAway { rejection },
        };
        Self {
            state,
            respond,
            core: Arc::clone(core),
        }
    }
}

impl<S, R, ReqBody, ResBody> Future for ResponseFuture<S, R, ReqBody>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
    R: ResponseForRejection<ResBody>,
    ReqBody: Body,
    ResBody: Body<Data = Bytes>,
    ResBody::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (mut state, core) = (this.state, &**this.core);
        // Each state is polled in place until it is over, then left for good: `Done` stands in
        // while its values become the next state's.
        loop {
            let event = match state.as_mut().project() {
                StateProj::Parked {
                    request, ticket, ..
                } => match ticket.poll_granted(cx) {
                    Poll::Ready(Ok(permit)) => Event::Granted(permit),
                    Poll::Ready(Err(refused)) => Event::Rejected(core.refused(refused, ticket)),
                    Poll::Pending => {
                        // The grant first: once it is there, the body is the inner service's.
                        if request.body_mut().poll_read_ahead(cx).is_ok() {
                            return Poll::Pending;
                        }
                        Event::Rejected(core.reject(Reason::RequestBody))
                    }
                },
                StateProj::Ready { service, slot, .. } => match slot.poll_revoked(cx) {
                    Poll::Ready(revoked) => Event::Rejected(core.revoked(revoked)),
                    Poll::Pending => {
                        if let Err(error) = ready!(service.poll_ready(cx)) {
                            state.set(State::Done);
                            return Poll::Ready(Err(error));
                        }
                        Event::Next
                    }
                },
                StateProj::Running { future, slot } => match slot.poll_revoked(cx) {
                    Poll::Ready(revoked) => Event::Rejected(core.revoked(revoked)),
                    Poll::Pending => {
                        let result = ready!(future.poll(cx));
                        // The inner future is dropped here, before the slot can be.
                        let StateOwned::Running { slot, .. } = state.project_replace(State::Done)
                        else {
                            unreachable!("the state was just matched")
                        };
                        return Poll::Ready(result.map(|response| admitted(response, slot)));
                    }
                },
                StateProj::TurnedAway { .. } | StateProj::Done => Event::Next,
            };
            if let Event::Rejected(rejection) = event {
                // What ran or waited is dropped in the order of its fields: the slot last.
                state.set(State::TurnedAway { rejection });
                continue;
            }
            let next = match (state.as_mut().project_replace(State::Done), event) {
                (
                    StateOwned::Parked {
                        service,
                        mut request,
                        ..
                    },
                    Event::Granted(permit),
                ) => {
                    request.body_mut().end_read_ahead();
                    State::Ready {
                        service,
                        request,
                        slot: Slot::Own(permit),
                    }
                }
                (
                    StateOwned::Ready {
                        service,
                        request,
                        slot,
                    },
                    _,
                ) => {
                    // Declared in this order so that a panic in `call` drops the slot last.
                    let slot = slot;
                    let mut service = service;
                    let mut request = request;
                    if let Some(grant) = slot.grant() {
                        request
                            .extensions_mut()
                            .insert(Admission::new(Arc::clone(grant)));
                    }
                    State::Running {
                        future: service.call(request),
                        slot,
                    }
                }
                (StateOwned::TurnedAway { rejection }, _) => {
                    return Poll::Ready(Ok(turned_away(rejection, this.respond)));
                }
                _ => panic!("`ResponseFuture` polled after completion"),
            };
            state.set(next);
        }
    }
}

/// The response of the inner service, whose body takes the slot over.
fn admitted<B: Body>(mut response: Response<B>, slot: Slot) -> Response<ResponseBody<B>> {
    if let Some(grant) = slot.grant() {
        let admission = Admission::new(Arc::clone(grant));
        response.extensions_mut().insert(admission);
    }
    let slot = slot.after_head();
    response.map(|body| ResponseBody::with_slot(body, slot))
}

impl<S, R, ReqBody> std::fmt::Debug for ResponseFuture<S, R, ReqBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
    ReqBody: Body,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match &self.state {
            State::Parked { .. } => "Parked",
            State::Ready { .. } => "Ready",
            State::Running { .. } => "Running",
            State::TurnedAway { .. } => "TurnedAway",
            State::Done => "Done",
        };
        f.debug_struct("ResponseFuture")
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
