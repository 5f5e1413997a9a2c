//! Clients: some patient, some slow, and many that vanish at some stage.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fastrand::Rng;
use http::{Request, Response, StatusCode, request::Builder};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};

use super::{
    backend::{Fate, Order, Orders},
    broken::Broken,
    load::BoxError,
    policies::{FAMILIES, WORKERS},
    tally::{Outcome, Tally},
};

/// Far more than the longest wait (3 s) and the longest stream (2 s) together.
const PATIENCE: Duration = Duration::from_secs(60);

type Upload = UnsyncBoxBody<Bytes, BoxError>;

/// Connections to one of the servers.
#[derive(Clone)]
pub(crate) struct Way {
    client: Client<HttpConnector, Upload>,
    base: String,
    http2: bool,
}

impl Way {
    pub(crate) fn new(base: &str, http2: bool) -> Self {
        let mut client = Client::builder(TokioExecutor::new());
        client
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(64)
            .http2_only(http2)
            // A reader that stops must hold up its own stream and no other.
            .http2_initial_stream_window_size(1 << 16)
            .http2_initial_connection_window_size(1 << 25);
        Self {
            client: client.build_http(),
            base: base.to_owned(),
            http2,
        }
    }
}

/// What all clients share.
#[derive(Clone)]
pub(crate) struct Crowd {
    /// HTTP/1 and HTTP/2, to each of the servers.
    pub(crate) ways: Vec<Way>,
    /// The same for requests with bodies. A server that answers before it has read a body closes its
    /// HTTP/1 connection, on which no other request must be by then.
    pub(crate) upload_ways: Vec<Way>,
    pub(crate) orders: Orders,
    pub(crate) tally: Tally,
    pub(crate) broken: Broken,
    /// True while requests should be sent.
    pub(crate) load: watch::Receiver<bool>,
    pub(crate) next: Arc<AtomicU64>,
}

/// What a client does with its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Read,
    ReadSlowly,
    StopReading,
    /// Reads, in a class whose slots are revoked before the end.
    Overstay,
    LeaveBeforeHead,
    LeaveOnGrant,
    LeaveAfterHead,
    LeaveMidStream,
    Upload,
    GiveUpload,
    BreakUpload,
    /// Reads, and sees the handler fail.
    Fail(Fate),
}

impl Plan {
    fn any(rng: &mut Rng) -> Self {
        match rng.u8(..100) {
            0..=49 => Self::Read,
            50..=51 => Self::Overstay,
            52..=58 => Self::ReadSlowly,
            59..=60 => Self::StopReading,
            61..=69 => Self::LeaveBeforeHead,
            70..=73 => Self::LeaveOnGrant,
            74..=77 => Self::LeaveAfterHead,
            78..=83 => Self::LeaveMidStream,
            84..=87 => Self::Upload,
            88..=90 => Self::GiveUpload,
            91 => Self::BreakUpload,
            92..=93 => Self::Fail(Fate::Status),
            94 => Self::Fail(Fate::Error),
            95..=96 => Self::Fail(Fate::BodyError),
            97 => Self::Fail(Fate::PanicInCall),
            98 => Self::Fail(Fate::PanicInFuture),
            _ => Self::Fail(Fate::PanicInBody),
        }
    }

    fn sends(self) -> bool {
        matches!(self, Self::Upload | Self::GiveUpload | Self::BreakUpload)
    }
}

/// A request that is about to be sent.
struct Asked {
    plan: Plan,
    /// It may lose its slot after its class's longest hold.
    brief: bool,
    http2: bool,
    /// Bytes that the client means to send, and expects to receive.
    sending: usize,
    expected: usize,
}

impl Crowd {
    /// Sends one request after the other while there should be load.
    pub(crate) async fn client(mut self, seed: u64) {
        let mut rng = Rng::with_seed(seed);
        while self.load.wait_for(|load| *load).await.is_ok() {
            let under_way = self.tally.begin();
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let outcome = timeout(PATIENCE, self.ask(&mut rng, id)).await;
            // The backend has already taken it, unless it never saw the request.
            drop(self.orders.take(id));
            match outcome {
                Ok(Some(outcome)) => self.tally.add(outcome),
                Ok(None) => {}
                Err(_) => {
                    self.tally.add(Outcome::Hung);
                    self.broken.tell(format_args!(
                        "request {id} was not answered in {PATIENCE:?}"
                    ));
                }
            }
            drop(under_way);
            if rng.u8(..4) == 0 {
                sleep(Duration::from_millis(rng.u64(..60))).await;
            }
        }
    }

    /// Sends a request and returns how it ended; `None` if it was turned away.
    async fn ask(&mut self, rng: &mut Rng, id: u64) -> Option<Outcome> {
        let plan = Plan::any(rng);
        let (told, granted) = oneshot::channel();
        let order = order(rng, plan, told);
        let ways = match plan.sends() {
            true => &self.upload_ways,
            false => &self.ways,
        };
        let way = ways[rng.usize(..ways.len())].clone();
        let family = match plan {
            Plan::Overstay => "brief",
            Plan::StopReading if rng.bool() => "brief",
            _ => FAMILIES[rng.usize(..FAMILIES.len())],
        };
        let asked = Asked {
            plan,
            brief: family == "brief",
            http2: way.http2,
            sending: if plan.sends() {
                rng.usize(1..1 << 18)
            } else {
                0
            },
            expected: order.frames * order.frame_bytes,
        };
        self.orders.put(id, order);
        let request = facts(rng, Request::post(&way.base), family).header("x-id", id);
        let request = match request.body(upload(rng, &asked)) {
            Ok(request) => request,
            Err(error) => return Some(self.unexpected(&asked, error)),
        };

        let response = way.client.request(request);
        let response = match plan {
            Plan::LeaveBeforeHead | Plan::GiveUpload => {
                let leave = sleep(Duration::from_millis(rng.u64(..150)));
                match first(response, leave).await {
                    Some(response) => response,
                    None if plan == Plan::GiveUpload => return Some(Outcome::UploadGivenUp),
                    None => return Some(Outcome::LeftBeforeHead),
                }
            }
            // If the grant never comes, the response is first.
            Plan::LeaveOnGrant => match first(response, granted_only(granted)).await {
                Some(response) => response,
                None => return Some(Outcome::LeftOnGrant),
            },
            _ => response.await,
        };
        match response {
            Ok(response) => self.read(rng, &asked, response).await,
            Err(error) => Some(self.no_head(&asked, error)),
        }
    }

    /// The outcome if no head came, which may be as ordered.
    fn no_head(&self, asked: &Asked, error: Error) -> Outcome {
        match asked.plan {
            Plan::Fail(Fate::Error) => Outcome::Failed,
            Plan::Fail(Fate::PanicInCall | Fate::PanicInFuture) => Outcome::Panicked,
            // hyper may lose the head together with what follows it.
            Plan::Fail(Fate::PanicInBody) => Outcome::Panicked,
            Plan::Fail(Fate::BodyError) => Outcome::Failed,
            Plan::BreakUpload => Outcome::UploadBroken,
            Plan::Upload | Plan::GiveUpload => Outcome::AnswerLost,
            _ => self.unexpected(asked, error),
        }
    }

    async fn read(
        &mut self,
        rng: &mut Rng,
        asked: &Asked,
        response: Response<Incoming>,
    ) -> Option<Outcome> {
        let (head, mut body) = response.into_parts();
        let code = head.headers.get("x-policy-queue-reason");
        if let Some(code) = code.and_then(|code| code.to_str().ok()) {
            let answered = body.collect().await;
            let told = answered.is_ok_and(|body| !body.to_bytes().is_empty());
            if !told && !asked.plan.sends() {
                return Some(self.unexpected(asked, format_args!("no body with {code}")));
            }
            self.tally.add_rejected(code);
            return None;
        }
        let status = head.status;
        match asked.plan {
            // Caught and answered by the `CatchPanicLayer`.
            Plan::Fail(Fate::PanicInCall | Fate::PanicInFuture)
                if status == StatusCode::INTERNAL_SERVER_ERROR =>
            {
                return Some(Outcome::Panicked);
            }
            Plan::Fail(Fate::Status) if status == StatusCode::INTERNAL_SERVER_ERROR => {}
            _ if status == StatusCode::OK => {}
            _ => return Some(self.unexpected(asked, format_args!("status {status}"))),
        }
        let received = head.headers.get("x-received");
        let received: Option<usize> = received.and_then(|it| it.to_str().ok()?.parse().ok());
        if received != Some(asked.sending) {
            let what = format_args!("{received:?} of {} bytes arrived", asked.sending);
            return Some(self.unexpected(asked, what));
        }

        let leave_after = match asked.plan {
            Plan::LeaveAfterHead => return Some(Outcome::LeftAfterHead),
            Plan::LeaveMidStream | Plan::StopReading => asked.expected * rng.usize(1..4) / 8,
            _ => usize::MAX,
        };
        let mut got = 0;
        loop {
            if got >= leave_after && asked.plan == Plan::LeaveMidStream {
                return Some(Outcome::LeftMidStream);
            } else if got >= leave_after {
                // At the longest until the load ends.
                let idle = Duration::from_millis(rng.u64(100..2500));
                let no_load = self.load.wait_for(|load| !*load);
                drop(timeout(idle, no_load).await);
                return Some(Outcome::StoppedReading);
            }
            match body.frame().await {
                Some(Ok(frame)) => got += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(error)) => return Some(self.broken_off(asked, error)),
                None => break,
            }
            if asked.plan == Plan::ReadSlowly {
                sleep(Duration::from_millis(rng.u64(..20))).await;
            }
        }
        if got != asked.expected {
            let what = format_args!("{got} of {} bytes", asked.expected);
            return Some(self.unexpected(asked, what));
        }
        Some(match asked.plan {
            Plan::ReadSlowly => Outcome::ServedSlowly,
            Plan::Upload | Plan::GiveUpload => Outcome::Uploaded,
            Plan::Fail(Fate::Status) => Outcome::Failed,
            Plan::Fail(_) | Plan::BreakUpload => {
                return Some(self.unexpected(asked, "a whole answer"));
            }
            _ => Outcome::Served,
        })
    }

    /// The outcome if the body broke off, which may be as ordered.
    fn broken_off(&self, asked: &Asked, error: hyper::Error) -> Outcome {
        match asked.plan {
            Plan::Fail(Fate::BodyError) => Outcome::Failed,
            Plan::Fail(Fate::PanicInBody) => Outcome::Panicked,
            _ if asked.brief => Outcome::HoldEnded,
            _ => self.unexpected(asked, error),
        }
    }

    fn unexpected(&self, asked: &Asked, what: impl std::fmt::Debug) -> Outcome {
        let version = if asked.http2 { "HTTP/2" } else { "HTTP/1" };
        let plan = asked.plan;
        self.broken
            .tell(format_args!("{plan:?} over {version}: {what:?}"));
        Outcome::Unexpected
    }
}

/// The response, or `None` if `other` completes first.
async fn first<T>(response: impl Future<Output = T>, other: impl Future) -> Option<T> {
    tokio::select! {
        biased;
        _ = other => None,
        response = response => Some(response),
    }
}

async fn granted_only(granted: oneshot::Receiver<()>) {
    if granted.await.is_err() {
        std::future::pending().await
    }
}

/// What the backend must do.
fn order(rng: &mut Rng, plan: Plan, granted: oneshot::Sender<()>) -> Order {
    let millis = |rng: &mut Rng, most| Duration::from_millis(rng.u64(..=most));
    let (frames, frame_bytes, gap) = match plan {
        // More than a connection can buffer.
        Plan::StopReading => (100, 64 * 1024, Duration::ZERO),
        Plan::Overstay => (12, 64, Duration::from_millis(100)),
        Plan::LeaveMidStream => (rng.usize(8..20), 64, millis(rng, 12)),
        Plan::ReadSlowly => (rng.usize(1..20), rng.usize(1..8192), millis(rng, 4)),
        _ => (rng.usize(..12), rng.usize(1..512), millis(rng, 8)),
    };
    Order {
        head_after: if rng.bool() {
            millis(rng, 40)
        } else {
            Duration::ZERO
        },
        frames,
        frame_bytes,
        gap,
        sized: rng.u8(..4) == 0,
        fate: match plan {
            Plan::Fail(fate) => fate,
            _ => Fate::Done,
        },
        granted: Some(granted),
    }
}

/// Adds the headers that the policy reads.
fn facts(rng: &mut Rng, mut request: Builder, family: &str) -> Builder {
    let raw = rng.u32(1..2000);
    request = request
        .header("x-dynamo-meta-policy-class", family)
        .header("x-raw-isl-tokens", raw);
    if rng.bool() {
        request = request.header("x-cached-tokens", rng.u32(..=raw));
    }
    request = match rng.u8(..6) {
        0 => request,
        1 => request.header("x-promptforge-client", "not a label"),
        // More labels than a dominion tells apart.
        _ => request.header("x-promptforge-client", format!("client-{}", rng.u8(..40))),
    };
    let mut one_in = |of: u8| rng.u8(..of) == 0;
    let (tier, jump, wait) = (one_in(20), one_in(20), one_in(10));
    let place = rng.u8(..100);
    if tier {
        request = request.header("x-strict-priority", rng.u32(1..4));
    }
    if jump {
        request = request.header("x-priority-jump", format!("{:.1}", rng.f64() * 2.0));
    }
    if wait {
        request = request.header("x-max-queue-wait-ms", rng.u32(20..3000));
    }
    match place {
        0..=44 => request.header("x-model", "m-a"),
        45..=69 => request.header("x-model", "m-b"),
        70..=71 => request.header("x-model", "m-b-large"),
        72..=79 => request.header("x-model", "m-c"),
        80..=84 => request
            .header("x-model", "m-a")
            .header("x-allowed-workers", "a1, a3"),
        85..=93 => request.header("x-worker", WORKERS[rng.usize(..WORKERS.len())]),
        _ => request,
    }
}

/// The body of a request: empty, or chunks now and then.
fn upload(rng: &mut Rng, asked: &Asked) -> Upload {
    if !asked.plan.sends() {
        return Full::default()
            .map_err(|never| match never {})
            .boxed_unsync();
    }
    let breaks = asked.plan == Plan::BreakUpload;
    let pace = Duration::from_millis(rng.u64(..5));
    let chunks = futures::stream::unfold((asked.sending, 0_u64), move |(left, sent)| async move {
        let chunk = left.min(8 * 1024);
        if sent > 0 {
            sleep(pace).await;
        }
        if left == 0 || (breaks && sent == 3) {
            return breaks.then(|| (Err("this body was to break off".into()), (0, sent)));
        }
        let bytes = Bytes::from(vec![b'u'; chunk]);
        Some((Ok(Frame::data(bytes)), (left - chunk, sent + 1)))
    });
    StreamBody::new(chunks).boxed_unsync()
}
