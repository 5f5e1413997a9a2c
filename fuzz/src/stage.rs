//! Clients and a backend with the layer between them. Nothing is spawned, and time passes when it is
//! told to.

use std::{
    future::{Future, pending, ready},
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{Full, StreamBody};
use tokio::runtime::Runtime;
use tokio_test::task::{self, Spawn};
use tower_layer::Layer;
use tower_policy_queue::{
    Admission, DefaultResponseForRejection, PolicyConfig, PolicyQueue, PolicyQueueHandle,
    PolicyQueueLayer, Rejection, RequestBody, ResponseBody, ResponseFuture, Usage,
};
use tower_service::Service;

type Frames = io::Result<Frame<Bytes>>;
type FedBody = StreamBody<UnboundedReceiver<Frames>>;
type Responding = ResponseFuture<Backend, DefaultResponseForRejection, Full<Bytes>>;

/// What the backend does with a request.
#[derive(arbitrary::Arbitrary, Clone, Copy, Debug, Default)]
pub enum Plan {
    /// A body that ends when it is told to.
    #[default]
    Stream,
    /// A body that has ended.
    Empty,
    /// An error.
    Fail,
    /// No answer.
    Hang,
}

/// How a body goes on.
#[derive(arbitrary::Arbitrary, Clone, Copy, Debug)]
pub enum Next {
    Data,
    Trailers,
    End,
    Break,
}

#[derive(Clone)]
struct Backend(Arc<Mutex<Option<UnboundedSender<Frames>>>>);

impl Service<Request<RequestBody<Full<Bytes>>>> for Backend {
    type Response = Response<FedBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<Full<Bytes>>>) -> Self::Future {
        let plan = request.extensions().get().copied();
        let (feed, frames) = unbounded();
        let response = Response::new(StreamBody::new(frames));
        match plan.unwrap_or_default() {
            Plan::Stream => {
                let before = self.0.lock().expect("no panic").replace(feed);
                assert!(before.is_none(), "one answer for each request");
                Box::pin(ready(Ok(response)))
            }
            Plan::Empty => Box::pin(ready(Ok(response))),
            Plan::Fail => Box::pin(ready(Err(io::ErrorKind::ConnectionRefused.into()))),
            // The request, and its body, stay as long as it takes.
            Plan::Hang => Box::pin(async move {
                let _request = request;
                pending().await
            }),
        }
    }
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The number of the request.
    pub of: usize,
    pub status: u16,
    pub headers: HeaderMap,
    pub admission: Option<Admission>,
    pub rejection: Option<Rejection>,
    /// Of a rejection.
    pub body: Vec<u8>,
}

enum Client {
    Waiting(Spawn<Pin<Box<Responding>>>),
    Reading(Spawn<Pin<Box<ResponseBody<FedBody>>>>, Reader),
}

struct Reader {
    feed: Option<UnboundedSender<Frames>>,
    admission: Option<Admission>,
}

pub struct Stage {
    runtime: Runtime,
    service: PolicyQueue<Backend>,
    handle: PolicyQueueHandle,
    feed: Arc<Mutex<Option<UnboundedSender<Frames>>>>,
    /// In the order of arrival, by number.
    clients: Vec<(usize, Client)>,
    arrived: usize,
    answers: Vec<Answer>,
}

impl Stage {
    pub fn new(config: PolicyConfig) -> Self {
        // Paused, so that each run of an input is like the other.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without threads needs nothing");
        let layer = PolicyQueueLayer::new(config);
        let feed = Arc::default();
        Self {
            service: layer.layer(Backend(Arc::clone(&feed))),
            handle: layer.handle(),
            runtime,
            feed,
            clients: Vec::new(),
            arrived: 0,
            answers: Vec::new(),
        }
    }

    /// A request comes, and takes the next number.
    pub fn send(&mut self, mut request: Request<Full<Bytes>>, plan: Plan) -> usize {
        let number = self.arrived;
        self.arrived += 1;
        request.extensions_mut().insert(plan);
        let waiting = {
            let _inside = self.runtime.enter();
            task::spawn(Box::pin(self.service.call(request)))
        };
        self.clients.push((number, Client::Waiting(waiting)));
        self.settle(Some(number));
        number
    }

    /// The backend goes on with the body of one of those who read.
    pub fn feed(&mut self, which: usize, next: Next) {
        let mut readers: Vec<&mut Reader> = self
            .clients
            .iter_mut()
            .filter_map(|(_, client)| match client {
                Client::Reading(_, reader) => Some(reader),
                Client::Waiting(_) => None,
            })
            .collect();
        let count = readers.len();
        if count == 0 {
            return;
        }
        let feed = &mut readers[which % count].feed;
        let send = |frame| {
            if let Some(feed) = &*feed {
                // A body that has ended early is not there any more.
                let _ = feed.unbounded_send(frame);
            }
        };
        match next {
            Next::Data => send(Ok(Frame::data(Bytes::from_static(b"data: {\"a\":1}\n\n")))),
            Next::Trailers => send(Ok(Frame::trailers(HeaderMap::new()))),
            Next::Break => send(Err(io::ErrorKind::ConnectionReset.into())),
            Next::End => *feed = None,
        }
        self.settle(None);
    }

    /// A client goes away.
    pub fn leave(&mut self, which: usize) {
        if self.clients.is_empty() {
            return;
        }
        let _inside = self.runtime.enter();
        let gone = self.clients.remove(which % self.clients.len());
        drop(gone);
        drop(_inside);
        self.settle(None);
    }

    pub fn advance(&mut self, time: Duration) {
        self.runtime.block_on(tokio::time::advance(time));
        self.settle(None);
    }

    /// The answers since this was asked last.
    pub fn answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// The admissions of those whose body is being read.
    pub fn reading(&self) -> impl Iterator<Item = &Admission> {
        self.clients.iter().filter_map(|(_, client)| match client {
            Client::Reading(_, reader) => reader.admission.as_ref(),
            Client::Waiting(_) => None,
        })
    }

    pub fn usage(&self) -> Usage {
        self.handle.usage()
    }

    /// Everybody goes away, and nothing stays behind.
    pub fn clear(mut self) {
        {
            let _inside = self.runtime.enter();
            self.clients.clear();
        }
        assert_eq!(self.handle.usage(), Usage::default(), "something was left");
    }

    /// Polls whoever is new or was woken, until nobody is. A wake-up that is lost leaves its request
    /// where it is.
    fn settle(&mut self, mut new: Option<usize>) {
        loop {
            let due = self
                .clients
                .iter()
                .position(|(number, client)| match client {
                    Client::Waiting(future) => future.is_woken() || new == Some(*number),
                    Client::Reading(body, _) => body.is_woken(),
                });
            let Some(index) = due else {
                return;
            };
            let (number, client) = self.clients.remove(index);
            if new == Some(number) {
                new = None;
            }
            if let Some(client) = self.poll(number, client) {
                self.clients.insert(index, (number, client));
            }
        }
    }

    fn poll(&mut self, number: usize, client: Client) -> Option<Client> {
        let _inside = self.runtime.enter();
        let (mut body, reader) = match client {
            Client::Reading(body, reader) => (body, reader),
            Client::Waiting(mut future) => match future.poll() {
                Poll::Pending => return Some(Client::Waiting(future)),
                Poll::Ready(Err(_)) => return None,
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    let mut answer = Answer {
                        of: number,
                        status: head.status.as_u16(),
                        headers: head.headers,
                        admission: head.extensions.get().cloned(),
                        rejection: head.extensions.get().cloned(),
                        body: Vec::new(),
                    };
                    let mut body = task::spawn(Box::pin(body));
                    if answer.rejection.is_some() {
                        answer.body = read(&mut body);
                        self.answers.push(answer);
                        return None;
                    }
                    let reader = Reader {
                        feed: self.feed.lock().expect("no panic").take(),
                        admission: answer.admission.clone(),
                    };
                    self.answers.push(answer);
                    (body, reader)
                }
            },
        };
        loop {
            match body.enter(|cx, body| body.poll_frame(cx)) {
                Poll::Pending => return Some(Client::Reading(body, reader)),
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return None,
            }
        }
    }
}

/// The bytes of a body that is there at once.
fn read(body: &mut Spawn<Pin<Box<ResponseBody<FedBody>>>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Poll::Ready(Some(frame)) = body.enter(|cx, body| body.poll_frame(cx)) {
        let frame = frame.expect("an answer of the layer does not fail");
        bytes.extend_from_slice(frame.data_ref().expect("it has no trailers"));
    }
    bytes
}
