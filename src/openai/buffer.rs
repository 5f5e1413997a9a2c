//! A body read into memory, up to a limit.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;

use super::UnreadableBody;

/// What has been read of a body.
///
/// The frames are joined into one piece of memory: JSON is parsed from one, and kept apart, the frames of
/// a client that sends byte by byte would take a hundred times as much.
#[derive(Debug)]
pub(super) struct Buffer {
    limit: usize,
    /// The first frame. Mostly it is the only one, and is then never copied.
    first: Bytes,
    /// All frames, once there is a second one; `first` is then empty.
    joined: Vec<u8>,
    trailers: Option<HeaderMap>,
}

impl Buffer {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            first: Bytes::new(),
            joined: Vec::new(),
            trailers: None,
        }
    }

    /// Reads until the body's end.
    pub(super) fn poll_fill<B>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), UnreadableBody>>
    where
        B: Body<Data = Bytes>,
    {
        // A body that is announced as too long is not read at all.
        let announced = body.size_hint().lower();
        if announced > self.room() as u64 {
            return Poll::Ready(Err(self.too_large()));
        }
        // A body that has ended need not be polled again, and may not answer.
        while !body.is_end_stream() {
            let frame = match ready!(body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return Poll::Ready(Err(UnreadableBody::Failed)),
                None => break,
            };
            match frame.into_data() {
                Ok(data) if data.len() > self.room() => {
                    return Poll::Ready(Err(self.too_large()));
                }
                Ok(data) => self.push(data),
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn finish(self) -> (Bytes, Option<HeaderMap>) {
        let data = if self.joined.is_empty() {
            self.first
        } else {
            // Boxed first to drop the vector's spare capacity: the request may wait for long.
            Bytes::from(self.joined.into_boxed_slice())
        };
        (data, self.trailers)
    }

    fn push(&mut self, data: Bytes) {
        if !self.joined.is_empty() {
            self.joined.extend_from_slice(&data);
        } else if self.first.is_empty() {
            self.first = data;
        } else if !data.is_empty() {
            self.joined
                .extend_from_slice(&std::mem::take(&mut self.first));
            self.joined.extend_from_slice(&data);
        }
    }

    fn room(&self) -> usize {
        self.limit - self.first.len() - self.joined.len()
    }

    fn too_large(&self) -> UnreadableBody {
        UnreadableBody::TooLarge {
            max_body_bytes: self.limit,
        }
    }
}
