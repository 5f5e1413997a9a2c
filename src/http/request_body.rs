//! The request body, part of which may have been read while the request was parked.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::read_ahead::{Budget, Place};

pin_project! {
    /// The request body that the inner service receives: the frames of the original one, in order,
    /// including trailers.
    ///
    /// While a request is parked, its body is read ahead: up to `read_ahead_bytes` plus one frame, and
    /// at most 1024 frames. Reading lets the server notice that the client has gone away; hyper does
    /// not notice while 8 kB or more of an HTTP/1 body are unread. The body of a request that starts at
    /// once is not read ahead.
    ///
    /// What an HTTP/2 client sends beyond that fills the flow-control windows of its stream and
    /// connection. With hyper's defaults, 1 MiB each, one parked stream can fill the window of its
    /// whole connection, and the connection's other streams cannot send until that stream gets a slot.
    /// So a server that expects large bodies should give connections larger windows than their streams
    /// can fill:
    ///
    /// ```
    /// # use hyper_util::{rt::TokioExecutor, server::conn::auto};
    /// let mut server = auto::Builder::new(TokioExecutor::new());
    /// server
    ///     .http2()
    ///     .max_concurrent_streams(200)
    ///     .initial_stream_window_size(1 << 16)
    ///     .initial_connection_window_size(1 << 24);
    /// ```
    pub struct RequestBody<B>
    where
        B: Body,
    {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProj]
    enum Kind<B>
    where
        B: Body,
    {
        Untouched { #[pin] body: B },
        // Boxed: it is polled before the request is pinned in its final place.
        Ahead { ahead: Box<Ahead<B>> },
    }
}

/// The most frames that are read ahead from one body. Each takes up memory, however small it is.
const MAX_FRAMES: usize = 1024;

type PollFrame<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// A body that is read ahead.
struct Ahead<B: Body> {
    body: Pin<Box<B>>,
    frames: VecDeque<Frame<B::Data>>,
    /// Bytes of data in `frames`.
    buffered: usize,
    ended: bool,
    limit: usize,
    budget: Arc<Budget>,
    place: Place,
}

impl<B: Body> RequestBody<B> {
    /// A body that is not read ahead.
    pub(super) fn untouched(body: B) -> Self {
        Self {
            kind: Kind::Untouched { body },
        }
    }

    /// A body that is read ahead whenever [`poll_read_ahead`](Self::poll_read_ahead) is called.
    pub(super) fn ahead(body: B, limit: usize, budget: &Arc<Budget>) -> Self {
        if limit == 0 || body.is_end_stream() {
            return Self::untouched(body);
        }
        let ahead = Box::new(Ahead {
            body: Box::pin(body),
            frames: VecDeque::new(),
            buffered: 0,
            ended: false,
            limit,
            budget: Arc::clone(budget),
            place: Place::default(),
        });
        Self {
            kind: Kind::Ahead { ahead },
        }
    }

    /// Reads as much as is there and fits. An error ends the body.
    pub(super) fn poll_read_ahead(&mut self, cx: &mut Context<'_>) -> Result<(), B::Error> {
        match &mut self.kind {
            Kind::Untouched { .. } => Ok(()),
            Kind::Ahead { ahead } => ahead.read(cx),
        }
    }

    /// Stops reading ahead. If this body was next to read, another one may.
    pub(super) fn end_read_ahead(&mut self) {
        if let Kind::Ahead { ahead } = &mut self.kind {
            ahead.budget.leave(&mut ahead.place);
        }
    }
}

impl<B: Body> Ahead<B> {
    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), B::Error> {
        while !self.ended && self.buffered < self.limit && self.frames.len() < MAX_FRAMES {
            if !self.budget.has_room(&mut self.place, cx) {
                return Ok(());
            }
            match self.body.as_mut().poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => self.ended = true,
                Poll::Ready(Some(frame)) => {
                    let frame = frame?;
                    let bytes = frame.data_ref().map_or(0, Buf::remaining);
                    self.budget.take(bytes);
                    self.buffered += bytes;
                    self.frames.push_back(frame);
                }
            }
        }
        self.budget.leave(&mut self.place);
        Ok(())
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> PollFrame<B> {
        if let Some(frame) = self.frames.pop_front() {
            let bytes = frame.data_ref().map_or(0, Buf::remaining);
            self.buffered -= bytes;
            self.budget.give_back(bytes);
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        self.body.as_mut().poll_frame(cx)
    }
}

impl<B: Body> Drop for Ahead<B> {
    fn drop(&mut self) {
        self.budget.leave(&mut self.place);
        self.budget.give_back(self.buffered);
    }
}

impl<B: Body> Body for RequestBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollFrame<B> {
        match self.project().kind.project() {
            KindProj::Untouched { body } => body.poll_frame(cx),
            KindProj::Ahead { ahead } => ahead.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Untouched { body } => body.is_end_stream(),
            Kind::Ahead { ahead } => {
                ahead.frames.is_empty() && (ahead.ended || ahead.body.is_end_stream())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Untouched { body } => body.size_hint(),
            Kind::Ahead { ahead } => {
                let buffered = ahead.buffered as u64;
                // With trailers to come, the body's own hint: an HTTP/1 client sends trailers only after
                // a body whose length it has not declared.
                let has_trailers = ahead.frames.back().is_some_and(Frame::is_trailers);
                let rest = if ahead.ended && !has_trailers {
                    SizeHint::with_exact(0)
                } else {
                    ahead.body.size_hint()
                };
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(buffered));
                if let Some(upper) = rest.upper() {
                    hint.set_upper(upper.saturating_add(buffered));
                }
                hint
            }
        }
    }
}

/// A clone has the frames that were read and goes on with a clone of the body, for a retry inside the
/// layer.
impl<B> Clone for RequestBody<B>
where
    B: Body + Clone,
    B::Data: Clone,
{
    fn clone(&self) -> Self {
        let kind = match &self.kind {
            Kind::Untouched { body } => Kind::Untouched { body: body.clone() },
            Kind::Ahead { ahead } => Kind::Ahead {
                ahead: Box::new(ahead.duplicate()),
            },
        };
        Self { kind }
    }
}

impl<B> Ahead<B>
where
    B: Body + Clone,
    B::Data: Clone,
{
    fn duplicate(&self) -> Self {
        let frame = |frame: &Frame<B::Data>| match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => Some(Frame::data(data.clone())),
            (None, trailers) => trailers.cloned().map(Frame::trailers),
        };
        let body = Box::pin(B::clone(&self.body));
        let frames = self.frames.iter().filter_map(frame).collect();
        // Last: if one of the clones above panicked, the bytes would never be given back.
        self.budget.take(self.buffered);
        Self {
            body,
            frames,
            buffered: self.buffered,
            ended: self.ended,
            limit: self.limit,
            budget: Arc::clone(&self.budget),
            place: Place::default(),
        }
    }
}

impl<B: Body + Default> Default for RequestBody<B> {
    fn default() -> Self {
        Self::untouched(B::default())
    }
}

impl<B: Body> fmt::Debug for RequestBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffered = match &self.kind {
            Kind::Untouched { .. } => 0,
            Kind::Ahead { ahead } => ahead.buffered,
        };
        f.debug_struct("RequestBody")
            .field("buffered", &buffered)
            .finish_non_exhaustive()
    }
}
