//! `CachedTokens`: prompts that a worker has already.

use std::{
    sync::{Arc, Mutex},
    task::Poll,
};

use http::Request;
use tower::{Layer, Service};
use tower_policy_queue::{
    CachedTokens, DefaultResponseForRejection, NoClassifier, PolicyQueue, PolicyQueueHandle,
    PolicyQueueLayer, QueueHints, ResponseFuture,
};

use crate::common::{
    NoBody,
    bell::Polled,
    desk::{Desk, policy},
    feed::FedBody,
};

/// Has what it was told, and takes down what it is told.
#[derive(Clone, Default)]
struct Cache {
    has: Arc<Mutex<Vec<(&'static str, u64)>>>,
    dispatched: Arc<Mutex<Vec<(String, String)>>>,
}

impl CachedTokens for Cache {
    fn cached_tokens<B>(&self, _: &Request<B>, worker: &str) -> u64 {
        let has = self.has.lock().unwrap();
        has.iter()
            .find(|(known, _)| *known == worker)
            .map_or(0, |&(_, tokens)| tokens)
    }

    fn dispatched<B>(&self, request: &Request<B>, worker: &str) {
        let entry = (request.uri().path().to_owned(), worker.to_owned());
        self.dispatched.lock().unwrap().push(entry);
    }
}

const POLICY: &str = "
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: cached}, {min_tokens: 500, bucket: uncached}]
policy_classes:
  - {name: cached, policy_family: chat, cache_bucket: cached, quantum: 100, prefill_busy_threshold: 100}
  - {name: uncached, policy_family: chat, cache_bucket: uncached, quantum: 100}
dominions: [{id: pool, kind: remote}]
endpoints:
  - {id: w1, dominion: pool, models: [m]}
  - {id: w2, dominion: pool, models: [m]}
  - {id: w3, dominion: pool, models: [m, n]}
class_header: true
";

type Queue = PolicyQueue<Desk, NoClassifier, DefaultResponseForRejection, Cache>;
type Call = ResponseFuture<Desk, DefaultResponseForRejection, NoBody, Cache>;

struct Hall {
    desk: Desk,
    handle: PolicyQueueHandle,
    queue: Queue,
    /// Requests go on running, so that the next one finds their workers loaded.
    running: Vec<Polled<Call>>,
}

fn hall(cache: &Cache) -> Hall {
    hall_of(POLICY, cache)
}

fn hall_of(yaml: &str, cache: &Cache) -> Hall {
    let desk = Desk::default();
    let layer = PolicyQueueLayer::new(policy(yaml)).cached_tokens(cache.clone());
    Hall {
        handle: layer.handle(),
        queue: layer.layer(desk.clone()),
        desk,
        running: Vec::new(),
    }
}

impl Hall {
    /// Where a request of 1,000 tokens goes: its class and worker.
    fn placed(&mut self, id: &str, hints: QueueHints) -> (String, String) {
        self.placed_by(None, id, hints)
    }

    /// The same for one that a running request sends.
    fn placed_by(&mut self, parent: Option<&str>, id: &str, hints: QueueHints) -> (String, String) {
        let hints = QueueHints {
            raw_isl_tokens: Some(1000),
            ..hints
        };
        let mut request = Request::builder().uri(format!("/{id}")).extension(hints);
        if let Some(parent) = parent {
            request = request.extension(self.desk.admission(parent));
        }
        let call = self.queue.call(request.body(NoBody::new()).unwrap());
        let mut call = Polled::new(call);
        assert!(call.poll().is_pending());
        self.running.push(call);
        let admission = self.desk.admission(id);
        at(admission.class(), admission.worker().unwrap())
    }
}

fn at(class: &str, worker: &str) -> (String, String) {
    (class.to_owned(), worker.to_owned())
}

#[test]
fn the_best_of_the_eligible_workers_counts_and_gets_the_request() {
    let cache = Cache::default();
    let mut hall = hall(&cache);
    assert_eq!(
        hall.placed("new", QueueHints::default()),
        at("uncached", "w1")
    );
    *cache.has.lock().unwrap() = vec![("w1", 200), ("w2", 900), ("w3", 900)];
    assert_eq!(
        hall.placed("again", QueueHints::default()),
        at("cached", "w2"),
        "the first of those that have most"
    );
    let only = QueueHints {
        model: Some("n".to_owned()),
        ..QueueHints::default()
    };
    assert_eq!(
        hall.placed("other", only),
        at("cached", "w3"),
        "w2 does not serve the model"
    );
    let allowed = QueueHints {
        allowed_workers: Some(vec!["w1".to_owned()]),
        ..QueueHints::default()
    };
    assert_eq!(
        hall.placed("listed", allowed),
        at("uncached", "w1"),
        "800 of 1,000 are new to it"
    );
}

#[test]
fn a_preferred_worker_that_is_busy_is_passed_over() {
    let cache = Cache::default();
    let mut hall = hall(&cache);
    *cache.has.lock().unwrap() = vec![("w2", 800)];
    assert_eq!(
        hall.placed("first", QueueHints::default()),
        at("cached", "w2")
    );
    assert_eq!(
        hall.placed("second", QueueHints::default()),
        at("cached", "w1"),
        "w2 has 200 tokens to compute, and more than 100 is busy"
    );
}

#[test]
fn a_preferred_worker_that_takes_no_requests_any_more_is_passed_over() {
    let cache = Cache::default();
    let one_slot = POLICY.replace("kind: remote}", "kind: remote, max_concurrency: 1}");
    let mut hall = hall_of(&one_slot, &cache);
    *cache.has.lock().unwrap() = vec![("w2", 900)];
    assert_eq!(
        hall.placed("first", QueueHints::default()),
        at("cached", "w2")
    );
    let hints = QueueHints {
        raw_isl_tokens: Some(1000),
        ..QueueHints::default()
    };
    let request = Request::builder().uri("/second").extension(hints);
    let call = hall.queue.call(request.body(NoBody::new()).unwrap());
    let mut second = Polled::new(call);
    assert!(second.poll().is_pending());
    hall.handle.drain_worker("w2", true).unwrap();
    hall.running.clear();
    assert!(second.poll().is_pending(), "it runs");
    let admission = hall.desk.admission("second");
    assert_eq!(
        at(admission.class(), admission.worker().unwrap()),
        at("cached", "w1"),
        "w2 was preferred when it came"
    );
}

#[test]
fn what_somebody_said_beats_the_cache_and_the_preference_stays() {
    let cache = Cache::default();
    let mut hall = hall(&cache);
    *cache.has.lock().unwrap() = vec![("w2", 900)];
    let said = QueueHints {
        cached_tokens: Some(0),
        ..QueueHints::default()
    };
    assert_eq!(hall.placed("said", said), at("uncached", "w2"));
}

#[test]
fn a_request_that_may_not_go_to_its_parent_s_worker_goes_where_its_prompt_is() {
    let cache = Cache::default();
    let mut hall = hall(&cache);
    let listed = |workers: &[&str]| QueueHints {
        allowed_workers: Some(workers.iter().map(|id| (*id).to_owned()).collect()),
        ..QueueHints::default()
    };
    hall.placed("parent", listed(&["w1"]));
    *cache.has.lock().unwrap() = vec![("w1", 950), ("w3", 900)];
    let mut nested = |id, listed| hall.placed_by(Some("parent"), id, listed).1;
    assert_eq!(nested("its-parents", listed(&["w1", "w3"])), "w1");
    assert_eq!(nested("elsewhere", listed(&["w2", "w3"])), "w3");
    let prefill = hall.handle.usage().prefill_tokens;
    assert_eq!(prefill, 1000 + 100, "what w3 has it does not read again");
}

#[test]
fn the_cache_is_told_where_each_request_goes() {
    let cache = Cache::default();
    let mut hall = hall(&cache);
    hall.placed("one", QueueHints::default());
    hall.placed("two", QueueHints::default());
    let told = cache.dispatched.lock().unwrap().clone();
    let pair = |path: &str, worker: &str| (path.to_owned(), worker.to_owned());
    assert_eq!(told, [pair("/one", "w1"), pair("/two", "w2")]);
}

#[test]
fn a_response_names_its_class_where_the_policy_says_so() {
    let cache = Cache::default();
    let mut hall = hall(&cache);
    hall.placed("named", QueueHints::default());
    hall.desk.answer("named", FedBody::empty());
    let Poll::Ready(Ok(response)) = hall.running[0].poll() else {
        panic!("it is answered");
    };
    assert_eq!(response.headers()["x-policy-queue-class"], "uncached");
}

#[test]
fn a_cache_that_is_no_clone_may_be_shared() {
    struct Shared(Mutex<Vec<String>>);

    impl CachedTokens for Shared {
        fn cached_tokens<B>(&self, _: &Request<B>, worker: &str) -> u64 {
            if worker == "w2" { 600 } else { 0 }
        }

        fn dispatched<B>(&self, _: &Request<B>, worker: &str) {
            self.0.lock().unwrap().push(worker.to_owned());
        }
    }

    let cache = Arc::new(Shared(Mutex::default()));
    let layer = PolicyQueueLayer::new(policy(POLICY)).cached_tokens(Arc::clone(&cache));
    let desk = Desk::default();
    let mut request = crate::common::desk::get("first");
    request.extensions_mut().insert(QueueHints {
        raw_isl_tokens: Some(600),
        model: Some("m".to_owned()),
        ..QueueHints::default()
    });
    let mut running = Polled::new(layer.layer(desk.clone()).call(request));
    assert!(running.poll().is_pending());
    let admission = desk.admission("first");
    assert_eq!(
        (admission.class(), admission.worker()),
        ("cached", Some("w2"))
    );
    assert_eq!(*cache.0.lock().unwrap(), ["w2"]);
    fn is_asked<K: CachedTokens>(_: &K) -> bool {
        K::ASKED
    }
    assert!(!is_asked(&Arc::new(tower_policy_queue::NoCache::default())));
}
