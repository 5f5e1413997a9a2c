//! One way to protect the backend, put under overload. Each runs in its own process, so that their memory
//! can be told apart.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::{
    net::TcpListener,
    time::{Instant, interval, sleep},
};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
use tower_policy_queue::{PolicyQueueHandle, PolicyQueueLayer};

use super::{
    arrivals::{Arrivals, Class, Quantiles, arrive},
    backend::{BATCH, Backend, STEP, TOKENS},
    load::{BoxError, peak_resident, serve},
};

/// How many times more requests arrive than the backend can serve.
pub(crate) const OVERLOAD: f64 = 10.0;
/// The share that premium is promised, in percent.
pub(crate) const PREMIUM: f64 = 80.0;
pub(crate) const MAX_QUEUE: usize = 64;
/// The bytes that may be read ahead. These requests have no bodies.
pub(crate) const READ_AHEAD: usize = 1 << 20;
/// How long it takes until the queues are full.
const WARM_UP: Duration = Duration::from_secs(2);

/// Each class has a queue limit of its own. With `max_queue` alone, the class that sends most would take
/// most places, and a class cannot be served more than was let in.
const POLICY: &str = "
default_policy_family: regular
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: premium, policy_family: premium, cache_bucket: all, quantum: 2048, request_queue_limit_per_worker: 48}
  - {name: regular, policy_family: regular, cache_bucket: all, quantum: 512, request_queue_limit_per_worker: 16}
dominions: [{id: gpu, kind: remote, max_concurrency: 16, max_queue: 64}]
headers: {raw_isl_tokens: x-raw-isl-tokens}
read_ahead_total_bytes: 1048576
";

/// What stands in front of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Nothing,
    /// A `tower::limit::ConcurrencyLimit` of the size of a batch, below `tower::load_shed`.
    Tower,
    PolicyQueue,
}

impl Front {
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Tower, Self::PolicyQueue];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Tower => "ConcurrencyLimit + LoadShed",
            Self::PolicyQueue => "PolicyQueueLayer",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Row {
    pub(crate) sent: u64,
    pub(crate) served: u64,
    pub(crate) turned_away: u64,
    pub(crate) gave_up: u64,
    pub(crate) lost: u64,
    /// Sequences finished each second, while requests arrived and the queues were full.
    pub(crate) per_second: f64,
    /// The part of the time in which the places of the batch were taken, in percent.
    pub(crate) utilization: f64,
    /// Premium's share of the tokens served, in percent.
    pub(crate) premium_share: f64,
    pub(crate) waits: [Option<Quantiles>; 2],
    pub(crate) rejections: Option<Quantiles>,
    pub(crate) lone_rejections: Option<Quantiles>,
    pub(crate) most_running: usize,
    pub(crate) most_waiting: usize,
    /// In bytes.
    pub(crate) peak_resident: u64,
}

/// Requests that the backend can serve each second.
pub(crate) fn capacity() -> f64 {
    BATCH as f64 / (STEP * TOKENS).as_secs_f64()
}

impl Row {
    pub(crate) async fn measure(front: Front, how_long: Duration) -> Result<Self, BoxError> {
        let backend = Backend::default();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let mut handle = None;
        match front {
            Front::Nothing => drop(tokio::spawn(serve(listener, backend.clone()))),
            Front::Tower => drop(tokio::spawn(serve(listener, shedding(backend.clone())))),
            Front::PolicyQueue => {
                let layer = PolicyQueueLayer::new(POLICY.parse()?);
                handle = Some(layer.handle());
                let service = ServiceBuilder::new().layer(layer).service(backend.clone());
                tokio::spawn(serve(listener, service));
            }
        }

        let length = handle
            .clone()
            .map(|handle| tokio::spawn(most_waiting(handle, how_long)));
        let steady = tokio::spawn(steady(backend.clone(), how_long));
        let arrivals = arrive(base, OVERLOAD * capacity(), how_long).await?;
        let most_waiting = match length {
            Some(length) => length.await?,
            None => 0,
        };
        if let Some(handle) = handle {
            handle.drained().await;
        }
        Ok(Self::new(arrivals, backend, steady.await?, most_waiting))
    }

    fn new(arrivals: Arrivals, backend: Backend, steady: Steady, most_waiting: usize) -> Self {
        let served: u64 = arrivals.served.iter().sum();
        Self {
            sent: arrivals.sent,
            served,
            turned_away: arrivals.turned_away,
            gave_up: arrivals.gave_up,
            lost: arrivals.lost,
            per_second: steady.per_second,
            utilization: steady.utilization,
            premium_share: steady.premium_share,
            waits: Class::ALL.map(|class| Quantiles::of(&arrivals.waits[class as usize])),
            rejections: Quantiles::of(&arrivals.rejections),
            lone_rejections: Quantiles::of(&arrivals.lone_rejections),
            most_running: backend.work().most,
            most_waiting,
            peak_resident: peak_resident().unwrap_or(0),
        }
    }
}

/// The backend's work from the end of the warm-up until the last request arrives.
struct Steady {
    per_second: f64,
    utilization: f64,
    premium_share: f64,
}

async fn steady(backend: Backend, how_long: Duration) -> Steady {
    sleep(WARM_UP).await;
    let (began, before) = (Instant::now(), backend.work());
    sleep(how_long.saturating_sub(WARM_UP)).await;
    let (seconds, after) = (began.elapsed().as_secs_f64(), backend.work());
    let finished = after.finished - before.finished;
    // A sequence counts where it ends, so those that run at either end of the period cancel out.
    let busy = (after.busy - before.busy).as_secs_f64();
    let all = seconds * BATCH as f64;
    let [premium, regular] = [0, 1].map(|class| after.tokens[class] - before.tokens[class]);
    Steady {
        per_second: finished as f64 / seconds,
        utilization: 100.0 * busy / all,
        premium_share: 100.0 * premium as f64 / (premium + regular).max(1) as f64,
    }
}

async fn most_waiting(handle: PolicyQueueHandle, how_long: Duration) -> usize {
    let mut ticks = interval(Duration::from_millis(20));
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < how_long {
        ticks.tick().await;
        most = most.max(handle.usage().waiting);
    }
    most
}

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// What tower offers for it. The permit is released with the head of the response.
fn shedding(
    backend: Backend,
) -> impl Service<Request<Incoming>, Response = Response<AnyBody>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let limited = ServiceBuilder::new()
        .load_shed()
        .concurrency_limit(BATCH)
        .service(backend);
    service_fn(move |request: Request<Incoming>| {
        // Ready at once, as requests beyond the limit are shed.
        let answered = limited.clone().oneshot(request);
        async move {
            Ok(match answered.await {
                Ok(response) => response.map(BodyExt::boxed_unsync),
                Err(_) => {
                    let body = Full::from("overloaded").boxed_unsync();
                    let mut response = Response::new(body);
                    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    response
                }
            })
        }
    })
}
