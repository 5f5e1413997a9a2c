//! The life of a request from its arrival to the head of its response.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::{
    BoxError, CachedTokens, NoCache, Reason, Rejection, RequestBody, ResponseBody,
    ResponseForRejection,
    core::Core,
    respond::{turned_away, without_body},
    slot::Slot,
};
use crate::{
    pool::{Code, Grant, Refused, Revoked, Stage, Ticket},
    trace,
};

pin_project! {
    /// The response future of [`PolicyQueue`](crate::PolicyQueue).
    ///
    /// Dropping it while the request waits takes the request out of the queue; dropping it later
    /// releases the slot.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, R, ReqBody, K = NoCache>
    where
        S: Service<Request<RequestBody<ReqBody>>>,
        ReqBody: Body,
    {
        #[pin]
        state: State<S, ReqBody, S::Future>,
        respond: R,
        cache: K,
        // The request's method is HEAD, so its response has no body.
        head: bool,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, ReqBody, F>
    where
        ReqBody: Body,
    {
        // Waits for its turn.
        Parked { pending: Pending<S, ReqBody>, ticket: Ticket },
        // Has a slot, and waits for the inner service to be ready.
        Ready { pending: Pending<S, ReqBody>, slot: Slot },
        // The inner service is at work. The slot is the last field, here as above, and so dropped last.
        Running { #[pin] future: F, slot: Slot },
        TurnedAway { rejection: Option<Rejection> },
        Done,
    }
}

/// A request that has not been passed on.
struct Pending<S, ReqBody: Body> {
    // `None` once it has been passed on.
    service: Option<S>,
    request: Option<Request<RequestBody<ReqBody>>>,
}

impl<S, ReqBody: Body> Pending<S, ReqBody> {
    fn take(&mut self) -> Self {
        Self {
            service: self.service.take(),
            request: self.request.take(),
        }
    }
}

impl<S, ReqBody> Pending<S, ReqBody>
where
    S: Service<Request<RequestBody<ReqBody>>>,
    ReqBody: Body,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let service = self.service.as_mut();
        service.map_or(Poll::Ready(Ok(())), |service| service.poll_ready(cx))
    }
}

/// The decision about a request that has arrived.
#[derive(Debug)]
pub(super) enum Entered {
    Go(Slot),
    Wait(Ticket),
}

impl<S, R, ReqBody, K> ResponseFuture<S, R, ReqBody, K>
where
    S: Service<Request<RequestBody<ReqBody>>>,
    ReqBody: Body,
{
    pub(super) fn new(
        core: &Core,
        service: S,
        request: Request<ReqBody>,
        respond: R,
        cache: K,
        entered: Result<Entered, Rejection>,
    ) -> Self {
        let head = *request.method() == Method::HEAD;
        let pending = |request| Pending {
            service: Some(service),
            request: Some(request),
        };
        let state = match entered {
            Ok(Entered::Go(slot)) => {
                let pending = pending(request.map(RequestBody::untouched));
                State::Ready { pending, slot }
            }
            Ok(Entered::Wait(ticket)) => {
                let pending = pending(request.map(|body| core.read_ahead(body)));
                State::Parked { pending, ticket }
            }
            Err(rejection) => State::TurnedAway {
                rejection: Some(rejection),
            },
        };
        Self {
            state,
            respond,
            cache,
            head,
        }
    }
}

impl<S, R, ReqBody, ResBody, K> Future for ResponseFuture<S, R, ReqBody, K>
where
    S: Service<Request<RequestBody<ReqBody>>, Response = Response<ResBody>>,
    R: ResponseForRejection<ResBody>,
    K: CachedTokens,
    ReqBody: Body,
    ResBody: Body<Data = Bytes>,
    ResBody::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut state = this.state;
        loop {
            // Setting a state drops the previous one in field order: the slot last. Each state is set where
            // it is made, since a request is large to move.
            match state.as_mut().project() {
                StateProj::Parked { pending, ticket } => match ticket.poll_granted(cx) {
                    Poll::Ready(Ok(permit)) => {
                        if let Some(request) = &mut pending.request {
                            request.body_mut().end_read_ahead();
                        }
                        let pending = pending.take();
                        let slot = Slot::Own(permit);
                        state.set(State::Ready { pending, slot });
                    }
                    Poll::Ready(Err(refused)) => {
                        let rejection = refused_by(refused, ticket);
                        state.set(turned_away_by(rejection));
                    }
                    Poll::Pending => {
                        // After the grant was polled: once granted, the body belongs to the inner service.
                        let request = pending.request.as_mut();
                        match request.map(|request| request.body_mut().poll_read_ahead(cx)) {
                            Some(Err(_)) => {
                                ticket.abandon(Code::RequestBody);
                                let rejection = unreadable(ticket);
                                state.set(turned_away_by(rejection));
                            }
                            Some(Ok(())) | None => return Poll::Pending,
                        }
                    }
                },
                StateProj::Ready { pending, slot } => match slot.poll_revoked(cx) {
                    Poll::Ready((reason, grant)) => {
                        let rejection = revoked(reason, grant);
                        state.set(turned_away_by(rejection));
                    }
                    Poll::Pending => {
                        if let Err(error) = ready!(slot.run(|| pending.poll_ready(cx))) {
                            slot.reach(Stage::Failed);
                            state.set(State::Done);
                            return Poll::Ready(Err(error));
                        }
                        if let Some(request) = &mut pending.request {
                            slot.run(|| tell(request, slot, this.cache));
                        }
                        // Moved out of the state in this order, so that a panic in `call` drops the
                        // service and then the slot, without waiting for this future's drop.
                        let slot = std::mem::replace(slot, Slot::None);
                        match (pending.service.take(), pending.request.take()) {
                            (Some(mut service), Some(request)) => {
                                slot.reach(Stage::Running);
                                let future = service.call(request);
                                state.set(State::Running { future, slot });
                            }
                            // `call` panicked in an earlier poll.
                            _ => state.set(State::Done),
                        }
                    }
                },
                StateProj::Running { future, slot } => match slot.poll_revoked(cx) {
                    Poll::Ready((reason, grant)) => {
                        let rejection = revoked(reason, grant);
                        state.set(turned_away_by(rejection));
                    }
                    Poll::Pending => {
                        let result = ready!(slot.run(|| future.poll(cx)));
                        let slot = std::mem::replace(slot, Slot::None);
                        if result.is_err() {
                            slot.reach(Stage::Failed);
                        }
                        // The inner future is dropped here, before the slot can be.
                        state.set(State::Done);
                        let head = *this.head;
                        return Poll::Ready(result.map(|response| admitted(response, slot, head)));
                    }
                },
                StateProj::TurnedAway { rejection } => match rejection.take() {
                    Some(rejection) => {
                        let response = turned_away(rejection, this.respond);
                        let response = if *this.head {
                            without_body(response)
                        } else {
                            response
                        };
                        return Poll::Ready(Ok(response));
                    }
                    None => state.set(State::Done),
                },
                StateProj::Done => panic!("`ResponseFuture` polled after completion"),
            }
        }
    }
}

fn turned_away_by<S, B: Body, F>(rejection: Rejection) -> State<S, B, F> {
    State::TurnedAway {
        rejection: Some(rejection),
    }
}

/// The rejection of a parked request.
fn refused_by(refused: Refused, ticket: &Ticket) -> Rejection {
    let reason = match refused {
        Refused::Closed => Reason::QueueUnavailable,
        Refused::TimedOut => Reason::QueueTimeout,
        Refused::NoEligibleWorker => Reason::NoEligibleWorker,
        Refused::ProfileSwitch => Reason::ProfileSwitch,
    };
    reject(ticket, reason, || Some(ticket.retry_after()))
}

/// The rejection of a parked request whose body failed.
fn unreadable(ticket: &Ticket) -> Rejection {
    reject(ticket, Reason::RequestBody, || None)
}

fn reject(ticket: &Ticket, reason: Reason, soon: impl FnOnce() -> Option<Duration>) -> Rejection {
    let (policy, class) = (ticket.policy(), ticket.class());
    Rejection::of(policy, reason, class, ticket.dominion(), soon)
}

/// The rejection of a running request that lost its slot before the head of its response came.
fn revoked(revoked: Revoked, grant: &Grant) -> Rejection {
    let reason = match revoked {
        Revoked::HoldExpired => Reason::HoldTimeout,
        Revoked::ProfileSwitch => Reason::ProfileSwitch,
    };
    let (policy, class) = (grant.policy(), &grant.class().name);
    Rejection::of(policy, reason, class, grant.dominion(), || None)
}

/// Tells the cache where the request goes, and the span and the request how it was admitted.
fn tell<B>(request: &mut Request<B>, slot: &Slot, cache: &impl CachedTokens) {
    let Some(admission) = slot.admission() else {
        return;
    };
    if let Some(worker) = admission.worker() {
        cache.dispatched(request, worker);
    }
    trace::admitted(
        admission.class(),
        admission.dominion(),
        admission.worker(),
        admission.queued_for(),
    );
    let extensions = request.extensions_mut();
    // Built again rather than cloned for every request: few come with another's admission.
    if let Some(other) = extensions.insert(admission) {
        if let Some(admission) = slot.admission() {
            extensions.insert(admission.below(&other));
        }
    }
}

const CLASS: HeaderName = HeaderName::from_static("x-policy-queue-class");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The response of the inner service, whose body takes over the slot, except for a HEAD request: nobody
/// reads the body then.
fn admitted<B: Body>(
    mut response: Response<B>,
    slot: Slot,
    head: bool,
) -> Response<ResponseBody<B>> {
    if let Some((grant, admission)) = slot.grant().zip(slot.admission()) {
        let policy = grant.policy();
        // Every class name is a valid header value.
        let class = policy
            .class_header
            .then(|| HeaderValue::from_str(&grant.class().name));
        if let Some(Ok(class)) = class {
            response.headers_mut().insert(CLASS, class);
        }
        let waited = admission.queued_for().as_secs_f64() * 1e3;
        let timing = policy
            .server_timing
            .then(|| HeaderValue::from_str(&format!("queue;dur={waited:.3}")));
        if let Some(Ok(timing)) = timing {
            // Appended: the inner service may have timings of its own.
            response.headers_mut().append(SERVER_TIMING, timing);
        }
        response.extensions_mut().insert(admission);
    }
    let slot = slot.after_head();
    if head {
        slot.reach(Stage::Completed);
    }
    response.map(|body| ResponseBody::with_slot(slot, body))
}

impl<S, R, ReqBody, K> std::fmt::Debug for ResponseFuture<S, R, ReqBody, K>
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
