//! A backend that, like a GPU, gets slower the more it runs at once.
//!
//! It runs a batch of [`BATCH`] sequences at full speed: a step, which writes one token of each sequence,
//! takes [`STEP`]. With `n` sequences, more than a batch, a step takes `(n / BATCH)^1.25` times as long. The
//! 1 in the exponent stands for sharing alone, which would leave the total throughput unchanged. The 0.25
//! stands for what is lost when caches do not fit, are evicted and recomputed: 44 % at ten batches.
//!
//! The head of a response comes with the first token.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use super::arrivals::Class;

/// The most sequences that run at full speed.
pub(crate) const BATCH: usize = 16;
/// The tokens of a response.
pub(crate) const TOKENS: u32 = 5;
pub(crate) const STEP: Duration = Duration::from_millis(10);

/// Clones share one backend.
#[derive(Clone, Default)]
pub(crate) struct Backend(Arc<Load>);

#[derive(Default)]
struct Load {
    running: AtomicUsize,
    most: AtomicUsize,
    /// The total time that sequences ran, in microseconds.
    busy: AtomicU64,
    finished: AtomicU64,
    /// Prompts of those that finished, in tokens, by class.
    tokens: [AtomicU64; 2],
}

/// What a backend has done so far.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) busy: Duration,
    pub(crate) finished: u64,
    /// Prompts of those that finished, in tokens, by class.
    pub(crate) tokens: [u64; 2],
    /// The most sequences that ran at a time.
    pub(crate) most: usize,
}

impl Backend {
    pub(crate) fn work(&self) -> Work {
        Work {
            busy: Duration::from_micros(self.0.busy.load(Ordering::Relaxed)),
            finished: self.0.finished.load(Ordering::Relaxed),
            tokens: Class::ALL.map(|class| self.0.tokens[class as usize].load(Ordering::Relaxed)),
            most: self.0.most.load(Ordering::Relaxed),
        }
    }
}

impl<B: Send + 'static> Service<Request<B>> for Backend {
    type Response = Response<Sequence>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let class = request.headers().get("x-dynamo-meta-policy-class");
        let class = Class::ALL
            .into_iter()
            .find(|known| class.is_some_and(|class| class == known.name()));
        let mut sequence = Sequence::new(Arc::clone(&self.0), class.unwrap_or(Class::Regular));
        Box::pin(async move {
            (&mut sequence.step).await;
            Ok(Response::new(sequence))
        })
    }
}

/// A response that is being written. Dropping it stops it.
pub(crate) struct Sequence {
    load: Arc<Load>,
    class: Class,
    began: Instant,
    left: u32,
    due: Instant,
    step: Pin<Box<Sleep>>,
    over: bool,
}

impl Sequence {
    fn new(load: Arc<Load>, class: Class) -> Self {
        let running = load.running.fetch_add(1, Ordering::Relaxed) + 1;
        load.most.fetch_max(running, Ordering::Relaxed);
        let began = Instant::now();
        let due = began + step(running);
        Self {
            load,
            class,
            began,
            left: TOKENS,
            due,
            step: Box::pin(sleep_until(due)),
            over: false,
        }
    }

    fn end(&mut self) {
        if !self.over {
            self.over = true;
            self.load.running.fetch_sub(1, Ordering::Relaxed);
            let busy = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.load.busy.fetch_add(busy, Ordering::Relaxed);
        }
    }
}

/// How long a step takes while `running` sequences run.
fn step(running: usize) -> Duration {
    let batches = running as f64 / BATCH as f64;
    STEP.mul_f64(batches.max(1.0).powf(1.25))
}

impl Body for Sequence {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.step.as_mut().poll(cx));
        self.left -= 1;
        if self.left == 0 {
            let load = &self.load;
            load.finished.fetch_add(1, Ordering::Relaxed);
            load.tokens[self.class as usize].fetch_add(self.class.prompt(), Ordering::Relaxed);
            self.end();
        } else {
            // Counted from when the last step was due, so that the delays of a busy machine do not add up.
            let due = self.due + step(self.load.running.load(Ordering::Relaxed));
            self.due = due;
            self.step.as_mut().reset(due);
        }
        let event = Bytes::from_static(b"data: {\"choices\":[{\"text\":\" token\"}]}\n\n");
        Poll::Ready(Some(Ok(Frame::data(event))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        self.end();
    }
}
