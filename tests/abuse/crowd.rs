//! Many requests that wait for one slot, served one after the other.

use http::Request;
use tower::{Layer, Service};
use tower_policy_queue::{Admission, Classify, PolicyQueue, PolicyQueueLayer, Usage};

use crate::common::{
    NoBody,
    bell::Polled,
    desk::{Desk, Responding, policy},
};

pub(crate) struct Crowd<C> {
    layer: PolicyQueueLayer<C>,
    service: PolicyQueue<Desk, C>,
    desk: Desk,
    /// In the order of arrival.
    waiting: Vec<(String, Polled<Responding>)>,
    running: Option<Polled<Responding>>,
}

impl Crowd<tower_policy_queue::NoClassifier> {
    /// Behind a policy, nobody there yet.
    pub(crate) fn new(yaml: &str) -> Self {
        Self::behind(PolicyQueueLayer::new(policy(yaml)))
    }
}

impl<C: Classify<NoBody> + Clone> Crowd<C> {
    pub(crate) fn behind(layer: PolicyQueueLayer<C>) -> Self {
        let desk = Desk::default();
        Self {
            service: layer.layer(desk.clone()),
            layer,
            desk,
            waiting: Vec::new(),
            running: None,
        }
    }

    /// A request takes the slot, for as long as the others arrive.
    pub(crate) fn occupy(&mut self, request: Request<NoBody>) {
        let mut polled = Polled::new(self.service.call(request));
        assert!(polled.poll().is_pending());
        assert_eq!(self.usage().slots_in_use, 1);
        self.running = Some(polled);
    }

    /// A request arrives, and waits.
    pub(crate) fn park(&mut self, request: Request<NoBody>) {
        let id = request.uri().path().trim_start_matches('/').to_owned();
        let mut polled = Polled::new(self.service.call(request));
        assert!(polled.poll().is_pending(), "{id} is not turned away");
        assert_eq!(polled.rings(), 0, "{id} waits");
        self.waiting.push((id, polled));
    }

    /// The slot goes to the next one, who keeps it until the one after it is served.
    pub(crate) fn serve_next(&mut self) -> String {
        self.running = None;
        let next = self.waiting.iter().position(|(_, it)| it.rings() > 0);
        let (id, mut polled) = self
            .waiting
            .remove(next.expect("a freed slot wakes somebody"));
        assert!(polled.poll().is_pending());
        self.running = Some(polled);
        id
    }

    /// Everybody is served, and the slot is free afterwards.
    pub(crate) fn serve_all(&mut self) -> Vec<String> {
        let order = (0..self.waiting.len()).map(|_| self.serve_next()).collect();
        self.running = None;
        order
    }

    pub(crate) fn admission(&self, id: &str) -> Admission {
        self.desk.admission(id)
    }

    pub(crate) fn usage(&self) -> Usage {
        self.layer.handle().usage()
    }
}
