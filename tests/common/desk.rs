//! An inner service whose every step the test decides, and requests to it through the layer.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use http::{Request, Response};
use tokio::sync::oneshot;
use tower::{Layer, Service};
use tower_policy_queue::{
    Admission, DefaultResponseForRejection, PolicyConfig, PolicyQueue, PolicyQueueLayer, Rejection,
    ResponseBody, ResponseFuture,
};

use super::{
    NoBody,
    bell::{OnDrop, Polled},
    feed::{Broken, FedBody, Feed},
};

/// A policy of one dominion, `pool`, with as many slots.
pub fn pool(slots: usize) -> PolicyConfig {
    policy(&format!(
        "dominions: [{{id: pool, kind: remote, max_concurrency: {slots}, max_queue: 1000}}]"
    ))
}

/// The policy of a text of YAML.
pub fn policy(yaml: &str) -> PolicyConfig {
    yaml.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// A request for a path, without more.
pub fn get(path: &str) -> Request<NoBody> {
    Request::builder()
        .uri(format!("/{path}"))
        .body(NoBody::new())
        .unwrap()
}

/// What the inner service does wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    ReadinessFails,
    ReadinessPanics,
    CallPanics,
}

/// How an inner future ends.
#[derive(Debug)]
enum Reply {
    Head(Response<FedBody>),
    Error,
    Panic,
}

struct Call {
    id: String,
    /// None if it came around the layer.
    admission: Option<Admission>,
    reply: Option<oneshot::Sender<Reply>>,
}

#[derive(Default)]
struct Book {
    calls: Vec<Call>,
    trouble: VecDeque<Trouble>,
    /// Not ready until it is opened.
    shut: bool,
    waiting_for_opening: Vec<Waker>,
    /// For the next inner future to run when it is dropped.
    probe: OnDrop,
}

/// An inner service that answers when the test says so.
#[derive(Clone, Default)]
pub struct Desk {
    book: Arc<Mutex<Book>>,
}

impl Desk {
    /// The paths of the requests that were called on it, in order.
    pub fn started(&self) -> Vec<String> {
        let book = self.book.lock().unwrap();
        book.calls.iter().map(|call| call.id.clone()).collect()
    }

    pub fn admission(&self, id: &str) -> Admission {
        let book = self.book.lock().unwrap();
        let call = book.calls.iter().find(|call| call.id == id);
        let admission = &call.expect("the request has started").admission;
        admission.clone().expect("it came through the layer")
    }

    pub fn has(&self, id: &str) -> bool {
        self.started().iter().any(|started| started == id)
    }

    /// From now on it is not ready.
    pub fn shut(&self) {
        self.book.lock().unwrap().shut = true;
    }

    /// It is ready again.
    pub fn open(&self) {
        let wakers = {
            let mut book = self.book.lock().unwrap();
            book.shut = false;
            std::mem::take(&mut book.waiting_for_opening)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub fn trouble(&self, trouble: Trouble) {
        self.book.lock().unwrap().trouble.push_back(trouble);
    }

    /// Has the next request's inner future run `probe` when it is dropped.
    pub fn probe_next(&self, probe: impl FnOnce() + Send + 'static) {
        self.book.lock().unwrap().probe = OnDrop::new(probe);
    }

    pub fn answer(&self, id: &str, body: FedBody) {
        self.reply(id, Reply::Head(Response::new(body)));
    }

    pub fn fail(&self, id: &str) {
        self.reply(id, Reply::Error);
    }

    pub fn panic(&self, id: &str) {
        self.reply(id, Reply::Panic);
    }

    fn reply(&self, id: &str, reply: Reply) {
        let sender = {
            let mut book = self.book.lock().unwrap();
            let call = book.calls.iter_mut().find(|call| call.id == id);
            call.expect("the request has started").reply.take()
        };
        sender
            .expect("not answered yet")
            .send(reply)
            .expect("the inner future is there");
    }

    fn takes(&self, troubles: &[Trouble]) -> Option<Trouble> {
        let mut book = self.book.lock().unwrap();
        let next = book.trouble.front().copied()?;
        troubles.contains(&next).then(|| book.trouble.pop_front())?
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Desk").field(&self.started()).finish()
    }
}

impl<B> Service<Request<B>> for Desk {
    type Response = Response<FedBody>;
    type Error = Broken;
    type Future = Working;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        match self.takes(&[Trouble::ReadinessFails, Trouble::ReadinessPanics]) {
            Some(Trouble::ReadinessFails) => return Poll::Ready(Err(Broken)),
            Some(_) => panic!("{Broken}"),
            None => {}
        }
        let mut book = self.book.lock().unwrap();
        if book.shut {
            book.waiting_for_opening
                .retain(|waker| !waker.will_wake(cx.waker()));
            book.waiting_for_opening.push(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Working {
        if self.takes(&[Trouble::CallPanics]).is_some() {
            panic!("{Broken}");
        }
        let (reply, answer) = oneshot::channel();
        let mut book = self.book.lock().unwrap();
        let admission = request.extensions().get::<Admission>();
        book.calls.push(Call {
            id: request.uri().path().trim_start_matches('/').to_owned(),
            admission: admission.cloned(),
            reply: Some(reply),
        });
        Working {
            answer,
            probe: std::mem::take(&mut book.probe),
        }
    }
}

/// The inner future.
#[derive(Debug)]
pub struct Working {
    answer: oneshot::Receiver<Reply>,
    probe: OnDrop,
}

impl Future for Working {
    type Output = Result<Response<FedBody>, Broken>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match std::task::ready!(Pin::new(&mut self.answer).poll(cx)) {
            Ok(Reply::Head(response)) => Poll::Ready(Ok(response)),
            Ok(Reply::Error) => Poll::Ready(Err(Broken)),
            Ok(Reply::Panic) => panic!("{Broken}"),
            Err(_) => Poll::Pending,
        }
    }
}

pub type Responding = ResponseFuture<Desk, DefaultResponseForRejection, NoBody>;
pub type Reading = Polled<ResponseBody<FedBody>>;

/// A desk behind the layer.
#[derive(Debug)]
pub struct Scene {
    pub desk: Desk,
    pub layer: PolicyQueueLayer,
    pub service: PolicyQueue<Desk>,
}

impl Scene {
    /// With one slot.
    pub fn one_slot() -> Self {
        Self::new(pool(1))
    }

    pub fn new(config: PolicyConfig) -> Self {
        Self::around(PolicyQueueLayer::new(config))
    }

    pub fn around(layer: PolicyQueueLayer) -> Self {
        let desk = Desk::default();
        Self {
            service: layer.layer(desk.clone()),
            layer,
            desk,
        }
    }

    /// A request arrives, and is polled once.
    pub fn send(&mut self, id: &str) -> Client {
        let mut client = self.call(id);
        assert!(
            client.polled.poll().is_pending(),
            "nothing answers before the test does"
        );
        client
    }

    /// A request arrives, and is not polled yet.
    pub fn call(&mut self, id: &str) -> Client {
        self.call_with(id, get(id))
    }

    /// A whole request arrives, and is not polled yet.
    pub fn call_with(&mut self, id: &str, request: Request<NoBody>) -> Client {
        let polled = Polled::new(self.service.call(request));
        Client {
            id: id.to_owned(),
            desk: self.desk.clone(),
            polled,
        }
    }

    /// The same desk behind the same layer, bound to a dominion.
    pub fn bound_to(&self, dominion: &str) -> Self {
        let layer = self.layer.dominion(dominion).unwrap();
        let desk = self.desk.clone();
        Self {
            service: layer.layer(desk.clone()),
            layer,
            desk,
        }
    }

    /// A request that has started already, and its response body with what feeds it.
    pub fn stream(&mut self, id: &str) -> (Reading, Feed) {
        self.send(id).stream()
    }

    /// Sends a request that starts at once if a slot is free, and takes it back.
    pub fn has_a_free_slot(&mut self) -> bool {
        // The permit of a request that was never polled returns with its future.
        let mut probe = self.call("probe");
        let mut book = self.desk.book.lock().unwrap();
        let (shut, waiting) = (book.shut, book.waiting_for_opening.len());
        book.shut = true;
        drop(book);
        let pending = probe.polled.poll().is_pending();
        let mut book = self.desk.book.lock().unwrap();
        book.shut = shut;
        let asked = book.waiting_for_opening.len() > waiting;
        book.waiting_for_opening.truncate(waiting);
        pending && asked
    }

    /// The answer to a request that is turned away at once.
    pub fn refusal(&mut self, id: &str) -> Option<Rejection> {
        match self.call(id).polled.poll() {
            Poll::Ready(Ok(response)) => response.extensions().get().cloned(),
            _ => None,
        }
    }
}

/// A request, polled only when the test says so.
#[derive(Debug)]
pub struct Client {
    pub id: String,
    pub polled: Polled<Responding>,
    desk: Desk,
}

impl Client {
    /// True if it is in the queue: not woken, and polling it leads nowhere.
    pub fn waits(&mut self) -> bool {
        self.polled.rings() == 0 && self.polled.poll().is_pending() && !self.desk.has(&self.id)
    }

    /// True if it was woken, once, and reaches the inner service when it is polled.
    pub fn runs(&mut self) -> bool {
        self.polled.rings() == 1 && self.polled.poll().is_pending() && self.desk.has(&self.id)
    }

    /// The response, once the inner service has answered.
    pub fn response(&mut self) -> Response<ResponseBody<FedBody>> {
        match self.polled.poll() {
            Poll::Ready(Ok(response)) => response,
            other => panic!("{} should have a response, not {other:?}", self.id),
        }
    }

    /// Has the inner service answer with `body`.
    pub fn answer(&mut self, body: FedBody) -> Reading {
        self.desk.answer(&self.id, body);
        Polled::new(self.response().into_body())
    }

    /// Has the inner service answer with a body that stays open.
    pub fn stream(&mut self) -> (Reading, Feed) {
        let feed = Feed::new();
        (self.answer(feed.body()), feed)
    }
}
