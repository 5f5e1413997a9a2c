//! Polling by hand, with a waker that counts and may answer back.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use http_body::{Body, Frame};

/// What a waker does the first time it is woken.
type Reaction = Box<dyn FnOnce() + Send>;

/// A waker that counts.
#[derive(Default)]
pub struct Bell {
    rings: AtomicUsize,
    reaction: Mutex<Option<Reaction>>,
}

impl Bell {
    /// Times it was woken so far.
    pub fn rings(&self) -> usize {
        self.rings.load(Ordering::SeqCst)
    }

    /// Has the next wake run `reaction`, inside of the call that wakes.
    pub fn on_ring(&self, reaction: impl FnOnce() + Send + 'static) {
        *self.reaction.lock().unwrap() = Some(Box::new(reaction));
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        let reaction = self.reaction.lock().unwrap().take();
        if let Some(react) = reaction {
            react();
        }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bell").field(&self.rings()).finish()
    }
}

/// A future or a body with a waker of its own.
#[derive(Debug)]
pub struct Polled<T> {
    pub inner: Pin<Box<T>>,
    pub bell: Arc<Bell>,
}

impl<T> Polled<T> {
    pub fn new(inner: T) -> Self {
        Self {
            inner: Box::pin(inner),
            bell: Arc::default(),
        }
    }

    pub fn rings(&self) -> usize {
        self.bell.rings()
    }
}

impl<F: Future> Polled<F> {
    pub fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.inner.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

impl<B: Body> Polled<B> {
    #[allow(clippy::type_complexity)]
    pub fn poll_frame(&mut self) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.inner
            .as_mut()
            .poll_frame(&mut Context::from_waker(&waker))
    }
}

/// Runs a closure when it is dropped.
#[derive(Default)]
pub struct OnDrop(Option<Reaction>);

impl OnDrop {
    pub fn new(reaction: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(reaction)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(react) = self.0.take() {
            react();
        }
    }
}

impl fmt::Debug for OnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnDrop").field(&self.0.is_some()).finish()
    }
}
