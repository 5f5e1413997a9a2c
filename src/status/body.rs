//! The body of the responses.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::events::Events;

/// The body of a response of a [`StatusService`](super::StatusService). It never fails.
///
/// A stream of events must be polled in a Tokio runtime with its time driver enabled.
#[derive(Debug)]
pub struct StatusBody(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Bytes),
    // Boxed: much larger, and rare.
    Events(Box<Events>),
}

impl StatusBody {
    pub(super) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(super) fn whole(body: Bytes) -> Self {
        Self(Kind::Whole(body))
    }

    pub(super) fn events(events: Events) -> Self {
        Self(Kind::Events(Box::new(events)))
    }
}

impl Body for StatusBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Kind::Whole(body) if body.is_empty() => None,
            Kind::Whole(body) => Some(std::mem::take(body)),
            Kind::Events(events) => std::task::ready!(events.poll_next(cx)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(body) => body.is_empty(),
            Kind::Events(events) => events.has_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(body) => SizeHint::with_exact(body.len() as u64),
            Kind::Events(_) => SizeHint::default(),
        }
    }
}
