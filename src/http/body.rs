//! The response body, which keeps the permit.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::pool::Permit;

pin_project! {
    /// A response body that keeps its request's slot until it ends.
    ///
    /// The slot is given back at the end of the stream, on an error, after a frame once the body says
    /// that it has ended, or when the body is dropped; at construction if it has ended by then.
    /// Frames, trailers, size and end are those of the inner body.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProj]
    enum Kind<B> {
        // The inner body is dropped before the permit, and its connection with it.
        Inner { #[pin] body: B, permit: Option<Permit> },
        Full { bytes: Option<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(super) fn full(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self {
            kind: Kind::Full { bytes },
        }
    }

    pub(super) fn without_permit(body: B) -> Self {
        Self {
            kind: Kind::Inner { body, permit: None },
        }
    }
}

impl<B: Body> ResponseBody<B> {
    pub(super) fn with_permit(body: B, permit: Permit) -> Self {
        // Nobody polls a body that has ended, and hyper may keep it until the response is sent.
        let permit = (!body.is_end_stream()).then_some(permit);
        Self {
            kind: Kind::Inner { body, permit },
        }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let (mut body, permit) = match self.project().kind.project() {
            KindProj::Inner { body, permit } => (body, permit),
            KindProj::Full { bytes } => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
        };
        let frame = ready!(body.as_mut().poll_frame(cx));
        let over = match &frame {
            Some(Ok(frame)) => {
                if let Some(permit) = permit.as_ref().filter(|_| frame.is_data()) {
                    permit.end_prefill();
                }
                // Whoever knows the length does not ask for the end after the last byte.
                body.is_end_stream()
            }
            Some(Err(_)) | None => true,
        };
        if over {
            *permit = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body, .. } => body.is_end_stream(),
            Kind::Full { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body, .. } => body.size_hint(),
            Kind::Full { bytes } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}

impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::without_permit(B::default())
    }
}
