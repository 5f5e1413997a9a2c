//! The policy queue of Dynamo's router, with the same classes and the same work.

use std::fmt::Write;

use dynamo_kv_router::{
    RouterQueuePolicy,
    scheduling::{PolicyProfile, PolicyQueue, QueueSnapshot, RouterPolicyConfig, WorkerPlacement},
};

use crate::{
    measure::Random,
    ours::{Payload, Shape, Work},
};

pub struct Dynamo {
    queue: PolicyQueue<Payload>,
    work: Work,
    numbers: Vec<u64>,
}

/// Classes with these quanta.
pub fn profile(quanta: impl IntoIterator<Item = u64>, wspt: bool) -> PolicyProfile {
    let mut yaml = String::from(
        "default_policy_family: family0\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes:\n",
    );
    let order = if wspt { "wspt" } else { "fcfs" };
    for (class, quantum) in quanta.into_iter().enumerate() {
        let _ = writeln!(
            yaml,
            "  - {{name: class{class}, policy_family: family{class}, cache_bucket: all, quantum: {quantum}, queue_policy: {order}}}"
        );
    }
    RouterPolicyConfig::from_yaml(&yaml)
        .expect("the policy is valid")
        .resolve_profile(None, None, RouterQueuePolicy::Fcfs)
}

/// Adds a request that any worker may serve.
pub fn enqueue<T>(queue: &mut PolicyQueue<T>, class: usize, cost: u64, after: f64, payload: T) {
    let snapshot = QueueSnapshot::new(cost as usize, 0);
    let placement = WorkerPlacement::Any;
    let queued = queue.enqueue(class, 1, snapshot, after, 0.0, 0, placement, payload);
    assert!(queued.is_ok(), "the queue has no limit");
}

impl Dynamo {
    pub fn new(shape: Shape, queued: usize) -> Self {
        let quanta = (0..shape.classes).map(|class| shape.quantum(class));
        let mut this = Self {
            queue: PolicyQueue::new(profile(quanta, shape.wspt)),
            work: Work::new(shape),
            numbers: Vec::new(),
        };
        for _ in 0..queued {
            this.refill();
        }
        this
    }

    fn push(&mut self, class: Option<usize>) {
        let (class, cost, after) = self.work.next(class);
        let payload = Payload::new(self.work.arrivals);
        enqueue(&mut self.queue, class, cost, after as f64 / 1000.0, payload);
    }

    /// One leaves, another one of its class comes.
    pub fn decide(&mut self) {
        let served = self.queue.pop_next(|_, _, _| true).expect("some wait");
        let class = served.class_index();
        std::hint::black_box(served.into_payload().number);
        self.push(Some(class));
    }

    /// The number of one that waits anywhere.
    pub fn pick(&mut self, random: &mut Random) -> u64 {
        self.numbers.swap_remove(random.below(self.numbers.len()))
    }

    /// The only way out of the middle.
    pub fn remove(&mut self, number: u64) {
        self.queue.retain(|payload| payload.number != number);
    }

    /// Another one comes, that may be picked.
    pub fn refill(&mut self) {
        self.push(None);
        self.numbers.push(self.work.arrivals);
    }
}
