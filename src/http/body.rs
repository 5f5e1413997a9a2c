//! The response body, which holds the slot.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::slot::{Slot, SlotRevoked};
use crate::pool::Stage;

/// The error of a [`ResponseBody`]: the inner body's, or a [`SlotRevoked`].
pub type BoxError = Box<dyn Error + Send + Sync>;

pin_project! {
    /// A response body that holds its request's slot until it ends.
    ///
    /// The slot is released at the end of the stream, on an error, or when the body is dropped. It is
    /// also released as soon as the inner body says that it has ended (`is_end_stream`), which is
    /// checked at construction and after each frame. A class can release it earlier (`hold_until`).
    ///
    /// Frames, trailers, size hint and end of stream are those of the inner body. But if the slot is
    /// revoked (by `max_hold_ms` or a profile switch), the body ends with a
    /// [`SlotRevoked`](crate::SlotRevoked) error.
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
        // In this order, so that the inner body, and its connection with it, is dropped before the slot.
        Inner { #[pin] body: B, slot: Slot },
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

    pub(super) fn without_slot(body: B) -> Self {
        Self {
            kind: Kind::Inner {
                body,
                slot: Slot::None,
            },
        }
    }
}

impl<B: Body> ResponseBody<B> {
    // The parameters in this order, so that a panic drops the body before the slot. A binding of its own
    // would be dropped before both.
    pub(super) fn with_slot(mut slot: Slot, body: B) -> Self {
        // Nobody polls a body that has ended, and hyper may keep it until the response is sent.
        if body.is_end_stream() {
            slot.end(Stage::Completed);
        }
        Self {
            kind: Kind::Inner { body, slot },
        }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut kind = self.project().kind;
        let (mut body, slot) = match kind.as_mut().project() {
            KindProj::Inner { body, slot } => (body, slot),
            KindProj::Full { bytes } => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
        };
        if let Poll::Ready((revoked, _)) = slot.poll_revoked(cx) {
            kind.set(Kind::Full { bytes: None });
            return Poll::Ready(Some(Err(SlotRevoked::new(revoked).into())));
        }
        let frame = ready!(slot.run(|| body.as_mut().poll_frame(cx)));
        if let Some(bytes) = frame
            .as_ref()
            .and_then(|frame| frame.as_ref().ok()?.data_ref())
        {
            slot.read_output(bytes);
        }
        match &frame {
            // A reader that knows the length does not poll for the end after the last byte.
            Some(Ok(_)) if body.is_end_stream() => slot.end(Stage::Completed),
            Some(Ok(frame)) if frame.is_data() => slot.after_data(),
            Some(Ok(_)) => {}
            Some(Err(_)) => slot.end(Stage::Failed),
            None => slot.end(Stage::Completed),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
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

/// A body that holds no slot, for a [`ResponseForRejection`](crate::ResponseForRejection) that works with
/// every body type.
impl<B> From<Bytes> for ResponseBody<B> {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}

impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::without_slot(B::default())
    }
}
