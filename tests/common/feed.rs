//! A response body that the test feeds, and whose every answer it decides.

use std::{
    collections::VecDeque,
    error::Error,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};

use super::bell::OnDrop;

/// What goes wrong where a test wants something to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken on purpose")
    }
}

impl Error for Broken {}

#[derive(Debug)]
enum Item {
    Frame(Frame<Bytes>),
    Error,
    Panic,
    End,
}

#[derive(Debug, Default)]
struct Reel {
    items: VecDeque<Item>,
    /// What `is_end_stream` says, whatever is to come.
    says_ended: bool,
    /// Have it say so once the items are used up.
    ends_when_drained: bool,
    waker: Option<Waker>,
}

/// The test's end of a [`FedBody`].
#[derive(Clone, Debug, Default)]
pub struct Feed {
    reel: Arc<Mutex<Reel>>,
}

impl Feed {
    /// An open body without any frames yet.
    pub fn new() -> Self {
        Self::default()
    }

    pub fn body(&self) -> FedBody {
        FedBody {
            reel: Arc::clone(&self.reel),
            probe: OnDrop::default(),
        }
    }

    /// The body, which runs `probe` when it is dropped.
    pub fn probed_body(&self, probe: impl FnOnce() + Send + 'static) -> FedBody {
        FedBody {
            probe: OnDrop::new(probe),
            ..self.body()
        }
    }

    pub fn data(&self, text: &'static str) {
        self.push(Item::Frame(Frame::data(Bytes::from_static(
            text.as_bytes(),
        ))));
    }

    /// A data frame after which the body says that it has ended.
    pub fn last_data(&self, text: &'static str) {
        self.reel.lock().unwrap().ends_when_drained = true;
        self.data(text);
    }

    pub fn trailers(&self) {
        let trailers = HeaderMap::from_iter([(
            http::HeaderName::from_static("x-checksum"),
            HeaderValue::from_static("42"),
        )]);
        self.push(Item::Frame(Frame::trailers(trailers)));
    }

    pub fn error(&self) {
        self.push(Item::Error);
    }

    pub fn panic(&self) {
        self.push(Item::Panic);
    }

    /// The end of the stream, as a `None`.
    pub fn end(&self) {
        self.push(Item::End);
    }

    /// Has `is_end_stream` say so from now on, without any frame.
    pub fn say_ended(&self) {
        self.reel.lock().unwrap().says_ended = true;
    }

    fn push(&self, item: Item) {
        let waker = {
            let mut reel = self.reel.lock().unwrap();
            reel.items.push_back(item);
            reel.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// See [`Feed`].
#[derive(Debug)]
pub struct FedBody {
    reel: Arc<Mutex<Reel>>,
    probe: OnDrop,
}

impl FedBody {
    /// A body that has ended already.
    pub fn empty() -> Self {
        let feed = Feed::new();
        feed.say_ended();
        feed.body()
    }

    /// A body whose one frame is there at once.
    pub fn full(text: &'static str) -> Self {
        let feed = Feed::new();
        feed.last_data(text);
        feed.body()
    }
}

impl Body for FedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let item = {
            let mut reel = self.reel.lock().unwrap();
            let item = reel.items.pop_front();
            if item.is_none() {
                reel.waker = Some(cx.waker().clone());
            }
            reel.says_ended |= reel.ends_when_drained && reel.items.is_empty();
            item
        };
        match item {
            None => Poll::Pending,
            Some(Item::Frame(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Item::Error) => Poll::Ready(Some(Err(Broken))),
            Some(Item::Panic) => panic!("{Broken}"),
            Some(Item::End) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.reel.lock().unwrap().says_ended
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
