//! Real runtimes: no task of its own on one thread, and an exact limit on many.

use crate::common::NoBody;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tower_policy_queue::RequestBody;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::{
    runtime::{Builder, Handle},
    task::{JoinSet, yield_now},
};
use tower::{Layer, ServiceExt, service_fn};
use tower_policy_queue::{PolicyQueueLayer, QueueHints};

use crate::common::{
    bell::OnDrop,
    desk::{Scene, get, policy, pool},
};

const SLOTS: usize = 8;
const CLIENTS: usize = 64;
const ROUNDS: usize = 1000;

/// How many are in flight now, and how many were at most.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Gauge {
    fn enter(self: &Arc<Self>) -> OnDrop {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        let this = Arc::clone(self);
        OnDrop::new(move || {
            this.now.fetch_sub(1, Ordering::SeqCst);
        })
    }
}

/// In flight from the call to the end of a short stream, which ends or is dropped.
fn measured(
    gauge: &Arc<Gauge>,
) -> impl tower::Service<
    Request<RequestBody<NoBody>>,
    Response = Response<impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let gauge = Arc::clone(gauge);
    service_fn(move |_: Request<RequestBody<NoBody>>| {
        let inside = gauge.enter();
        async move {
            yield_now().await;
            let frames = futures::stream::unfold((0, inside), |(frame, inside)| async move {
                yield_now().await;
                let data = Frame::data(Bytes::from_static(b"token"));
                (frame < 2).then_some((Ok::<_, Infallible>(data), (frame + 1, inside)))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(frames))))
        }
    })
}

#[test]
fn sixty_four_clients_on_many_threads_reach_the_limit_and_never_exceed_it() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .unwrap();
    let gauge = Arc::new(Gauge::default());
    let layer = PolicyQueueLayer::new(pool(SLOTS));
    let service = layer.layer(measured(&gauge));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let service = service.clone();
        clients.spawn_on(
            async move {
                for round in 0..ROUNDS {
                    let response = service.clone().oneshot(get("")).await.unwrap();
                    let mut body = response.into_body();
                    assert!(body.frame().await.is_some());
                    // Every third client leaves in the middle.
                    if round % 3 > 0 {
                        body.collect().await.unwrap();
                    }
                }
            },
            runtime.handle(),
        );
    }
    runtime.block_on(clients.join_all());
    assert_eq!(
        gauge.peak.load(Ordering::SeqCst),
        SLOTS,
        "the limit, reached and kept"
    );
    assert_eq!(gauge.now.load(Ordering::SeqCst), 0);
}

#[test]
fn requests_dropped_at_random_moments_on_many_threads_lose_no_slot() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let gauge = Arc::new(Gauge::default());
    let mut scene = Scene::new(pool(SLOTS));
    let service = scene.layer.layer(measured(&gauge));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let service = service.clone();
        clients.spawn_on(
            async move {
                for round in 0..ROUNDS {
                    let request = service.clone().oneshot(get(""));
                    // Gives up after a number of polls that differs from request to request.
                    let patience = (client * 31 + round * 17) % 23;
                    tokio::select! {
                        biased;
                        response = request => drop(response.unwrap()),
                        () = async { for _ in 0..patience { yield_now().await } } => {}
                    }
                }
            },
            runtime.handle(),
        );
    }
    runtime.block_on(clients.join_all());
    assert!(gauge.peak.load(Ordering::SeqCst) <= SLOTS);
    assert_eq!(gauge.now.load(Ordering::SeqCst), 0);
    let all: Vec<_> = (0..SLOTS).map(|n| scene.send(&n.to_string())).collect();
    assert_eq!(scene.desk.started().len(), SLOTS, "all slots are there");
    assert!(scene.send("one-more").waits(), "and not one more");
    drop(all);
}

#[tokio::test(flavor = "current_thread")]
async fn on_one_thread_it_works_without_a_task_of_its_own() {
    let layer = PolicyQueueLayer::new(pool(1));
    let service = layer.layer(measured(&Arc::default()));
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let requests = (0..10).map(|_| async {
        let response = service.clone().oneshot(get("")).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    });
    let mut requests = futures::future::join_all(requests);
    assert!(futures::poll!(&mut requests).is_pending());
    assert_eq!(tasks(), before, "nobody is spawned for those who wait");
    assert!(requests.await.iter().all(|bytes| bytes == "tokentoken"));
    drop((layer, service));
    assert_eq!(tasks(), before);
}

#[test]
fn it_works_without_a_runtime() {
    let layer = PolicyQueueLayer::new(pool(1));
    let service = layer.layer(measured(&Arc::default()));
    let requests = (0..3).map(|_| async {
        let response = service.clone().oneshot(get("")).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    });
    let answers = futures::executor::block_on(futures::future::join_all(requests));
    assert!(answers.iter().all(|bytes| bytes == "tokentoken"));
}

#[test]
fn classes_get_their_shares_whichever_clone_their_requests_come_through() {
    let config = policy(
        "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: a, policy_family: a, cache_bucket: any, quantum: 400}
  - {name: b, policy_family: b, cache_bucket: any, quantum: 100}
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1000}]
",
    );
    let mut scene = Scene::new(config);
    let mut running = Some(scene.stream("running"));
    let send = |scene: &mut Scene, id: &str, class: &str| {
        let mut request = get(id);
        request.extensions_mut().insert(QueueHints {
            policy: Some(class.to_owned()),
            raw_isl_tokens: Some(100),
            ..QueueHints::default()
        });
        let mut client = scene.call_with(id, request);
        assert!(client.waits());
        client
    };
    let (mut one, mut two) = (scene.bound_to("pool"), scene.bound_to("pool"));
    // Nearly all that comes through the one is of class a, through the other of class b.
    let mut waiting: Vec<_> = (0..90)
        .flat_map(|n| {
            let skewed = n % 10 == 0;
            let (a, b) = if skewed {
                (&mut two, &mut one)
            } else {
                (&mut one, &mut two)
            };
            let a = send(a, &format!("a{n}"), "a");
            [a, send(b, &format!("b{n}"), "b")]
        })
        .collect();
    let mut served = Vec::new();
    for _ in 0..100 {
        running.take();
        let woken = waiting
            .iter()
            .position(|client| client.polled.rings() == 1)
            .unwrap();
        let mut next = waiting.remove(woken);
        assert!(next.runs());
        served.push(next.id.as_bytes()[0]);
        running = Some(next.stream());
    }
    let of_a = served.iter().filter(|&&class| class == b'a').count();
    assert_eq!(of_a, 80, "four tokens of a for each of b");
}
