//! Requests that arrive at their own pace, whether or not earlier ones have been answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::load::{BoxError, Waits};

/// How long clients wait for the whole answer before they leave.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Several requests are sent in a tick, so that the pace does not depend on the timer.
const TICK: Duration = Duration::from_millis(10);
/// The connections that all arrivals share.
const CONNECTIONS: usize = 8;

type Caller = Client<HttpConnector, Empty<Bytes>>;

/// The two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Premium,
    Regular,
}

impl Class {
    pub(crate) const ALL: [Self; 2] = [Self::Premium, Self::Regular];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Premium => "premium",
            Self::Regular => "regular",
        }
    }

    /// The tokens of its prompts. Shares are counted in tokens: to get most of them with shorter prompts,
    /// premium must get far more of the requests.
    pub(crate) fn prompt(self) -> u64 {
        match self {
            Self::Premium => 256,
            Self::Regular => 768,
        }
    }
}

/// What became of the requests.
pub(crate) struct Arrivals {
    pub(crate) sent: u64,
    pub(crate) turned_away: u64,
    pub(crate) gave_up: u64,
    /// Neither served nor turned away, which should not happen.
    pub(crate) lost: u64,
    /// Served, by class.
    pub(crate) served: [u64; 2],
    /// How long served requests waited for the head, by class.
    pub(crate) waits: [Waits; 2],
    /// How long it took to turn requests away.
    pub(crate) rejections: Waits,
    /// The same for a client that sends one request at a time, on a connection of its own.
    pub(crate) lone_rejections: Waits,
}

/// Quantiles of waits, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Quantiles {
    /// `None` if there are too few waits.
    pub(crate) fn of(waits: &Waits) -> Option<Self> {
        (waits.count() >= 20).then_some(())?;
        Some(Self {
            p50: waits.quantile(0.5)?,
            p99: waits.quantile(0.99)?,
        })
    }
}

enum Ended {
    Served { head: Duration },
    TurnedAway { answered: Duration },
    Lost,
}

#[derive(Clone)]
struct Street {
    base: String,
    arrivals: Arc<Mutex<Arrivals>>,
    under_way: Arc<AtomicUsize>,
}

/// Sends `per_second` requests a second for `how_long`, every other one premium, and waits until all
/// have ended.
pub(crate) async fn arrive(
    base: String,
    per_second: f64,
    how_long: Duration,
) -> Result<Arrivals, BoxError> {
    let street = Street {
        base,
        arrivals: Arc::new(Mutex::new(Arrivals {
            sent: 0,
            turned_away: 0,
            gave_up: 0,
            lost: 0,
            served: [0; 2],
            waits: [Waits::new()?, Waits::new()?],
            rejections: Waits::new()?,
            lone_rejections: Waits::new()?,
        })),
        under_way: Arc::default(),
    };
    let callers: Vec<Caller> = (0..CONNECTIONS).map(|_| caller()).collect();
    let lone = tokio::spawn(street.clone().lone());
    let began = Instant::now();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sent: usize = 0;
    while began.elapsed() < how_long {
        ticks.tick().await;
        // Counted by time, as ticks may be late.
        let due = (began.elapsed().as_secs_f64() * per_second) as usize;
        for number in sent..due {
            let class = Class::ALL[number % 2];
            // Both classes share all connections.
            let caller = callers[number / 2 % CONNECTIONS].clone();
            street.under_way.fetch_add(1, Ordering::AcqRel);
            tokio::spawn(street.clone().one(caller, class));
        }
        sent = due.max(sent);
    }
    lone.abort();
    while street.under_way.load(Ordering::Acquire) > 0 {
        sleep(TICK).await;
    }
    street.arrivals().sent = sent as u64;
    let arrivals = Arc::clone(&street.arrivals);
    // Whether it was aborted or not, the lone client is gone once it is joined.
    drop(lone.await);
    drop(street);
    let arrivals = Arc::into_inner(arrivals).ok_or("a client is left over")?;
    Ok(arrivals
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner))
}

fn caller() -> Caller {
    Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http()
}

impl Street {
    async fn one(self, caller: Caller, class: Class) {
        let ended = timeout(PATIENCE, self.ask(&caller, class)).await;
        let arrivals = &mut *self.arrivals();
        match ended {
            Ok(Ended::Served { head }) => {
                arrivals.served[class as usize] += 1;
                arrivals.waits[class as usize].add(head);
            }
            Ok(Ended::TurnedAway { answered }) => {
                arrivals.turned_away += 1;
                arrivals.rejections.add(answered);
            }
            Ok(Ended::Lost) => arrivals.lost += 1,
            Err(_) => arrivals.gave_up += 1,
        }
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    /// A client that sends one request at a time. It is not counted among the others.
    async fn lone(self) {
        let caller = caller();
        loop {
            sleep(Duration::from_millis(10)).await;
            let ended = timeout(PATIENCE, self.ask(&caller, Class::Regular)).await;
            if let Ok(Ended::TurnedAway { answered }) = ended {
                self.arrivals().lone_rejections.add(answered);
            }
        }
    }

    async fn ask(&self, caller: &Caller, class: Class) -> Ended {
        let request = Request::post(&self.base)
            .header("x-dynamo-meta-policy-class", class.name())
            .header("x-raw-isl-tokens", class.prompt())
            .body(Empty::new());
        let Ok(request) = request else {
            return Ended::Lost;
        };
        let began = Instant::now();
        let Ok(response) = caller.request(request).await else {
            return Ended::Lost;
        };
        let head = began.elapsed();
        let response: Response<Incoming> = response;
        let status = response.status();
        let whole = response.into_body().collect().await.is_ok();
        match status {
            StatusCode::OK if whole => Ended::Served { head },
            StatusCode::OK => Ended::Lost,
            _ if whole => Ended::TurnedAway {
                answered: began.elapsed(),
            },
            _ => Ended::Lost,
        }
    }

    fn arrivals(&self) -> std::sync::MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
