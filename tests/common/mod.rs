//! A backend whose responses the test feeds by hand, and clients polled only when they are woken.
//!
//! Nothing is spawned and no time passes by itself, so each test is deterministic, and a lost
//! wake-up shows as a request that does not go on.

// Each test crate uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod bell;
pub mod desk;
pub mod feed;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::{Ready, ready},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{Empty, StreamBody};
use serde_json::Value;
// Not tokio's: its receivers take part in a budget that only a yield renews, and nothing yields.
use tokio_test::task::{self, Spawn};
use tower::{Layer, Service};
use tower_policy_queue::{
    Admission, PolicyQueue, PolicyQueueLayer, Rejection, ResponseBody, ResponseFuture,
};

/// What the requests of these tests carry.
pub type NoBody = Empty<Bytes>;

type Frames = Result<Frame<Bytes>, Infallible>;
type FedBody = StreamBody<UnboundedReceiver<Frames>>;
type Responding = ResponseFuture<Backend, tower_policy_queue::DefaultResponseForRejection, NoBody>;

/// Answers every request at once with a body that stays open.
#[derive(Clone, Debug, Default)]
pub struct Backend {
    started: Arc<Mutex<Vec<Started>>>,
}

/// A request that reached the backend.
#[derive(Debug)]
pub struct Started {
    pub id: String,
    pub admission: Admission,
    feed: UnboundedSender<Frames>,
}

impl<B> Service<Request<B>> for Backend {
    type Response = Response<FedBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (feed, frames) = unbounded();
        let admission = request.extensions().get::<Admission>();
        self.started.lock().unwrap().push(Started {
            id: request.uri().path().trim_start_matches('/').to_owned(),
            admission: admission
                .expect("an admitted request has an `Admission`")
                .clone(),
            feed,
        });
        ready(Ok(Response::new(StreamBody::new(frames))))
    }
}

/// What an operation caused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Dispatch {
        id: String,
        class: String,
        profile: Option<String>,
        dominion: Option<String>,
        worker: Option<String>,
    },
    Reject {
        id: String,
        status: u16,
        code: String,
    },
}

enum Client {
    Waiting(Spawn<std::pin::Pin<Box<Responding>>>),
    Reading(Spawn<ResponseBody<FedBody>>),
}

/// Clients and a backend with the layer between them.
pub struct Bench {
    service: PolicyQueue<Backend>,
    backend: Backend,
    feeds: BTreeMap<String, UnboundedSender<Frames>>,
    /// In the order of arrival.
    clients: Vec<(String, Client)>,
}

impl Bench {
    pub fn new(layer: &PolicyQueueLayer) -> Self {
        let backend = Backend::default();
        Self {
            service: layer.layer(backend.clone()),
            backend,
            feeds: BTreeMap::new(),
            clients: Vec::new(),
        }
    }

    /// A request comes in.
    pub fn arrive(&mut self, id: &str, headers: HeaderMap) -> Vec<Effect> {
        let mut request = Request::builder()
            .uri(format!("/{id}"))
            .body(NoBody::new())
            .unwrap();
        *request.headers_mut() = headers;
        self.send(id, request)
    }

    /// A whole request comes in.
    pub fn send(&mut self, id: &str, request: Request<NoBody>) -> Vec<Effect> {
        let waiting = task::spawn(Box::pin(self.service.call(request)));
        self.clients.push((id.to_owned(), Client::Waiting(waiting)));
        self.settle(Some(id))
    }

    /// The backend sends a data frame.
    pub fn first_byte(&mut self, id: &str) -> Vec<Effect> {
        let data = Frame::data(Bytes::from_static(b"token"));
        self.feeds[id]
            .unbounded_send(Ok(data))
            .expect("the body is open");
        self.settle(None)
    }

    /// The backend ends the body.
    pub fn finish(&mut self, id: &str) -> Vec<Effect> {
        self.feeds.remove(id).expect("the body is open");
        self.settle(None)
    }

    /// The client goes away.
    pub fn cancel(&mut self, id: &str) -> Vec<Effect> {
        let index = self.clients.iter().position(|(known, _)| known == id);
        let (_, client) = self.clients.remove(index.expect("the client is there"));
        drop(client);
        self.feeds.remove(id);
        self.settle(None)
    }

    /// The clock moves on.
    pub async fn pass(&mut self, milliseconds: u64) -> Vec<Effect> {
        tokio::time::advance(Duration::from_millis(milliseconds)).await;
        self.settle(None)
    }

    /// Polls whoever is new or was woken, until nobody is.
    fn settle(&mut self, new: Option<&str>) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut new = new;
        loop {
            let due = self.clients.iter().position(|(id, client)| match client {
                Client::Waiting(future) => future.is_woken() || new == Some(id),
                Client::Reading(body) => body.is_woken(),
            });
            let Some(index) = due else {
                return effects;
            };
            let (id, client) = self.clients.remove(index);
            if new == Some(&id) {
                new = None;
            }
            if let Some(client) = self.poll(&id, client, &mut effects) {
                self.clients.insert(index, (id, client));
            }
        }
    }

    fn poll(&mut self, id: &str, client: Client, effects: &mut Vec<Effect>) -> Option<Client> {
        let mut body = match client {
            Client::Reading(body) => body,
            Client::Waiting(mut future) => match future.poll() {
                Poll::Pending => return Some(Client::Waiting(future)),
                Poll::Ready(Ok(response)) => {
                    if let Some(rejection) = response.extensions().get::<Rejection>().cloned() {
                        effects.push(rejected(id, response, &rejection));
                        return None;
                    }
                    effects.push(self.dispatched(id, &response));
                    task::spawn(response.into_body())
                }
            },
        };
        loop {
            match body.enter(|cx, body| body.poll_frame(cx)) {
                Poll::Pending => return Some(Client::Reading(body)),
                Poll::Ready(Some(frame)) => drop(frame.expect("the backend does not fail")),
                Poll::Ready(None) => return None,
            }
        }
    }

    fn dispatched<B>(&mut self, id: &str, response: &Response<B>) -> Effect {
        let started = self.backend.started.lock().unwrap().pop();
        let Started {
            id: reached,
            admission,
            feed,
        } = started.expect("it reached the backend");
        assert_eq!(
            reached, id,
            "one request reached the backend for each response"
        );
        let answered: &Admission = response
            .extensions()
            .get()
            .expect("the response says so too");
        assert_eq!(format!("{answered:?}"), format!("{admission:?}"));
        self.feeds.insert(id.to_owned(), feed);
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Effect::Dispatch {
            id: id.to_owned(),
            class: admission.class().to_owned(),
            profile: owned(admission.profile()),
            dominion: owned(admission.dominion()),
            worker: owned(admission.worker()),
        }
    }
}

fn rejected(id: &str, response: Response<ResponseBody<FedBody>>, rejection: &Rejection) -> Effect {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    let error = json(response.into_body());
    let code = error["error"]["code"].as_str().unwrap().to_owned();
    assert_eq!(code, rejection.code());
    assert_eq!(status, rejection.status().as_u16());
    Effect::Reject {
        id: id.to_owned(),
        status,
        code,
    }
}

/// The JSON of a body that is there at once.
pub fn json<B>(body: B) -> Value
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    let mut cx = Context::from_waker(std::task::Waker::noop());
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut cx) {
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    serde_json::from_slice(&bytes).expect("a body of JSON")
}
