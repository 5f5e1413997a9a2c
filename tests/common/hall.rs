//! Requests that are polled only when they are woken, as by an executor, and what became of each.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::{task::Poll, time::Duration};

use http::{HeaderName, HeaderValue, Request, Response};
use tower_policy_queue::{
    PolicyQueueHandle, PolicyQueueLayer, QueueHints, Rejection, ResponseBody,
};

use crate::common::{
    NoBody,
    bell::Polled,
    desk::{Client, Reading, Scene, get, policy},
    feed::{FedBody, Feed},
};

type Answer = Response<ResponseBody<FedBody>>;

/// A policy of one class, `chat`, with these fields besides, and whatever else is to be in it.
pub fn chat(fields: &str, rest: &str) -> String {
    format!(
        "
default_policy_family: chat
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: chat, policy_family: chat, cache_bucket: any, quantum: 100, {fields}}}
{rest}
"
    )
}

/// A dominion `pool` with one slot.
pub const ONE_SLOT: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";

/// A request with these headers.
pub fn with(id: &str, headers: &[(&'static str, &str)]) -> Request<NoBody> {
    let mut request = get(id);
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        request
            .headers_mut()
            .append(HeaderName::from_static(name), value);
    }
    request
}

/// A request of which something is known.
pub fn hinted(id: &str, hints: QueueHints) -> Request<NoBody> {
    let mut request = get(id);
    request.extensions_mut().insert(hints);
    request
}

/// Hints of which one is the longest wait.
pub fn wait_ms(milliseconds: u64) -> QueueHints {
    QueueHints {
        max_queue_wait_ms: Some(milliseconds),
        ..QueueHints::default()
    }
}

/// Hints of which one is the worker to go to.
pub fn pinned(worker: &str) -> QueueHints {
    QueueHints {
        worker: Some(worker.to_owned()),
        ..QueueHints::default()
    }
}

/// Hints of which one is the model asked for.
pub fn model(model: &str) -> QueueHints {
    QueueHints {
        model: Some(model.to_owned()),
        ..QueueHints::default()
    }
}

struct Guest {
    client: Client,
    /// Wakes that were answered with a poll; none before the first poll.
    seen: Option<usize>,
    frozen: bool,
    over: bool,
    answer: Option<Answer>,
}

/// A desk behind the layer, and everybody who came.
pub struct Hall {
    pub scene: Scene,
    pub handle: PolicyQueueHandle,
    guests: Vec<Guest>,
}

impl Hall {
    pub fn new(yaml: &str) -> Self {
        let scene = Scene::new(policy(yaml));
        Self {
            handle: scene.layer.handle(),
            scene,
            guests: Vec::new(),
        }
    }

    /// Another desk behind the same layer.
    pub fn around(layer: &PolicyQueueLayer) -> Self {
        Self {
            handle: layer.handle(),
            scene: Scene::around(layer.clone()),
            guests: Vec::new(),
        }
    }

    /// A request arrives, and so do those that it sets going.
    pub fn arrive(&mut self, id: &str) {
        self.send(id, get(id));
    }

    /// A whole request arrives.
    pub fn send(&mut self, id: &str, request: Request<NoBody>) {
        self.call(id, request);
        self.thaw(id);
    }

    /// A request arrives and is not polled until it [thaws](Self::thaw).
    pub fn call(&mut self, id: &str, request: Request<NoBody>) {
        let client = self.scene.call_with(id, request);
        self.guests.push(Guest {
            client,
            seen: None,
            frozen: true,
            over: false,
            answer: None,
        });
    }

    /// From now on a request is not polled, whoever wakes it.
    pub fn freeze(&mut self, id: &str) {
        self.guest(id).frozen = true;
    }

    pub fn thaw(&mut self, id: &str) {
        self.guest(id).frozen = false;
        self.settle();
    }

    /// Time passes, and whoever it wakes is polled.
    pub async fn pass(&mut self, milliseconds: u64) {
        tokio::time::advance(Duration::from_millis(milliseconds)).await;
        self.settle();
    }

    /// Polls whoever was woken, until nobody is.
    pub fn settle(&mut self) {
        loop {
            let due = self.guests.iter_mut().find(|guest| {
                let woken = guest.seen != Some(guest.client.polled.rings());
                woken && !guest.frozen && !guest.over
            });
            let Some(guest) = due else {
                return;
            };
            guest.seen = Some(guest.client.polled.rings());
            if let Poll::Ready(answer) = guest.client.polled.poll() {
                guest.answer = Some(answer.unwrap());
                guest.over = true;
            }
        }
    }

    /// What became of a request: the code of its rejection, or `waiting`, `running`, `answered`.
    pub fn state(&mut self, id: &str) -> &'static str {
        self.settle();
        let running = self.scene.desk.has(id);
        let guest = self.guest(id);
        let answer = guest.answer.as_ref();
        match answer.and_then(|answer| answer.extensions().get::<Rejection>()) {
            Some(rejection) => rejection.code(),
            None if guest.over => "answered",
            None if running => "running",
            None => "waiting",
        }
    }

    /// What became of several.
    pub fn states<const N: usize>(&mut self, ids: [&str; N]) -> [&'static str; N] {
        ids.map(|id| self.state(id))
    }

    /// Times a request was woken so far.
    pub fn rings(&mut self, id: &str) -> usize {
        self.guest(id).client.polled.rings()
    }

    /// The worker that a running request was given.
    pub fn worker(&mut self, id: &str) -> Option<String> {
        self.settle();
        let admission = self.scene.desk.admission(id);
        admission.worker().map(str::to_owned)
    }

    /// The response to a request, which is taken away.
    pub fn response(&mut self, id: &str) -> Answer {
        self.settle();
        let guest = self.guest(id);
        match guest.answer.take() {
            Some(answer) => answer,
            None => panic!("{id} should have a response"),
        }
    }

    /// Has the inner service answer a request with `body`.
    pub fn answer(&mut self, id: &str, body: FedBody) -> Reading {
        self.scene.desk.answer(id, body);
        let response = self.response(id);
        Polled::new(response.into_body())
    }

    /// Has the inner service answer a request with a body that stays open.
    pub fn stream(&mut self, id: &str) -> (Reading, Feed) {
        let feed = Feed::new();
        (self.answer(id, feed.body()), feed)
    }

    /// Has the inner service answer a request and be done with it.
    pub fn finish(&mut self, id: &str) {
        drop(self.answer(id, FedBody::empty()));
        self.settle();
    }

    /// A client goes away.
    pub fn leave(&mut self, id: &str) {
        let index = self.guests.iter().position(|guest| guest.client.id == id);
        drop(self.guests.remove(index.expect("it is there")));
        self.settle();
    }

    /// Slots in use, and requests that wait.
    pub fn counts(&self) -> (usize, usize) {
        let usage = self.handle.usage();
        (usage.slots_in_use, usage.waiting)
    }

    fn guest(&mut self, id: &str) -> &mut Guest {
        let guest = self.guests.iter_mut().find(|guest| guest.client.id == id);
        guest.unwrap_or_else(|| panic!("{id} never came"))
    }
}
