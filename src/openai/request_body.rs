//! The request body that the inner service gets.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The request body that the inner service receives: the bytes and the trailers of the original one.
    ///
    /// A body that was read becomes one data frame, followed by the trailers if there were any. Without
    /// trailers, its length is known exactly. A body that was not read is passed on as it is.
    #[derive(Clone)]
    pub struct RequestBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[derive(Clone)]
    #[project = KindProj]
    enum Kind<B> {
        Untouched { #[pin] body: B },
        Read { data: Bytes, trailers: Option<HeaderMap> },
    }
}

impl<B> RequestBody<B> {
    pub(super) fn untouched(body: B) -> Self {
        Self {
            kind: Kind::Untouched { body },
        }
    }

    pub(super) fn read(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self {
            kind: Kind::Read { data, trailers },
        }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProj::Untouched { body } => body.poll_frame(cx),
            KindProj::Read { data, .. } if !data.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(data)))))
            }
            KindProj::Read { trailers, .. } => Poll::Ready(
                trailers
                    .take()
                    .map(|trailers| Ok(Frame::trailers(trailers))),
            ),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Untouched { body } => body.is_end_stream(),
            Kind::Read { data, trailers } => data.is_empty() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Untouched { body } => body.size_hint(),
            Kind::Read { data, trailers } => {
                let length = data.len() as u64;
                let mut hint = SizeHint::new();
                hint.set_lower(length);
                // An HTTP/1 client sends trailers only after a body whose length it has not declared.
                if trailers.is_none() {
                    hint.set_upper(length);
                }
                hint
            }
        }
    }
}

impl<B: Default> Default for RequestBody<B> {
    fn default() -> Self {
        Self::untouched(B::default())
    }
}

/// Prompts are private: only the length is printed.
impl<B> fmt::Debug for RequestBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.kind {
            Kind::Untouched { .. } => None,
            Kind::Read { data, .. } => Some(data.len()),
        };
        f.debug_struct("RequestBody")
            .field("read", &bytes)
            .finish_non_exhaustive()
    }
}
