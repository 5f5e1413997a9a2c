//! The service behind the layer. It does what the client of each request has ordered, and keeps the ledger.

use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::{
    sync::oneshot,
    time::{Instant, Sleep, sleep},
};
use tower::Service;
use tower_policy_queue::Admission;

use super::{
    broken::lock,
    ledger::{Arrived, Ledger, Running},
    load::{BoxError, Waits},
    policies::BRIEF,
};

/// What it sends, over and over.
static TEXT: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// The payload of panics that are meant to happen.
pub(crate) struct Expected;

/// What a client wants done with its request.
pub(crate) struct Order {
    /// From the call to the head.
    pub(crate) head_after: Duration,
    pub(crate) frames: usize,
    /// At most 64 KiB.
    pub(crate) frame_bytes: usize,
    pub(crate) gap: Duration,
    /// The response declares its length.
    pub(crate) sized: bool,
    pub(crate) fate: Fate,
    /// To be notified when the request begins to run.
    pub(crate) granted: Option<oneshot::Sender<()>>,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// With a 500.
    Status,
    /// With an error instead of a response.
    Error,
    /// With an error after the last frame.
    BodyError,
    PanicInCall,
    PanicInFuture,
    /// After the last frame.
    PanicInBody,
}

/// Orders, by the id of their requests. Clients and backend run in one process.
#[derive(Clone, Default)]
pub(crate) struct Orders(Arc<Mutex<HashMap<u64, Order>>>);

impl Orders {
    pub(crate) fn put(&self, id: u64, order: Order) {
        lock(&self.0).insert(id, order);
    }

    pub(crate) fn take(&self, id: u64) -> Option<Order> {
        lock(&self.0).remove(&id)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

#[derive(Clone)]
struct Shared {
    orders: Orders,
    ledger: Ledger,
    waits: Arc<Mutex<HashMap<String, Waits>>>,
    asked: Arc<AtomicU64>,
}

impl Shared {
    fn begin(&self, arrived: Arrived, admission: &Admission) -> Slot {
        let class = admission.class();
        self.note_wait(class, admission.queued_for());
        let hold = (class == "brief").then_some(BRIEF);
        let dominion = admission.dominion().unwrap_or("-");
        let running = self.ledger.begin(dominion, arrived, hold);
        match class {
            "embed" => Slot::UntilHead(running),
            "peek" => Slot::UntilFirstByte(running),
            _ => Slot::UntilEnd(running),
        }
    }

    fn note_wait(&self, class: &str, wait: Duration) {
        let mut waits = lock(&self.waits);
        if !waits.contains_key(class) {
            waits.extend(Waits::new().map(|fresh| (class.to_owned(), fresh)));
        }
        if let Some(waits) = waits.get_mut(class) {
            waits.add(wait);
        }
    }
}

/// The service. Each clone must become ready anew, and some take a while.
pub(crate) struct Backend {
    shared: Shared,
    readiness: Readiness,
}

enum Readiness {
    Unasked,
    Soon(Pin<Box<Sleep>>),
    Ready,
}

impl Clone for Backend {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            readiness: Readiness::Unasked,
        }
    }
}

impl Backend {
    pub(crate) fn new(orders: Orders, ledger: Ledger) -> Self {
        Self {
            shared: Shared {
                orders,
                ledger,
                waits: Arc::default(),
                asked: Arc::default(),
            },
            readiness: Readiness::Unasked,
        }
    }

    /// How long requests waited for their slots, by class.
    pub(crate) fn waits(&self) -> Vec<(String, Waits)> {
        let waits = lock(&self.shared.waits);
        let waits = waits.iter();
        let mut waits: Vec<_> = waits.map(|(id, it)| (id.clone(), it.clone())).collect();
        waits.sort_by(|one, other| one.0.cmp(&other.0));
        waits
    }
}

impl<B> Service<Request<B>> for Backend
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Reply>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Reply>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if let Readiness::Unasked = self.readiness {
            let asked = self.shared.asked.fetch_add(1, Ordering::Relaxed);
            self.readiness = match asked % 16 {
                0 => Readiness::Soon(Box::pin(sleep(Duration::from_millis(asked / 16 % 16)))),
                _ => Readiness::Ready,
            };
        }
        if let Readiness::Soon(sleep) = &mut self.readiness {
            ready!(sleep.as_mut().poll(cx));
            self.readiness = Readiness::Ready;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.readiness = Readiness::Unasked;
        let shared = &self.shared;
        let slot = match (request.extensions().get(), request.extensions().get()) {
            (Some(&arrived), Some(admission)) => shared.begin(arrived, admission),
            // Pinned to a worker that does not exist, where nothing is enforced.
            _ => {
                shared.ledger.begin_unplaced();
                Slot::None
            }
        };
        let id = request.headers().get("x-id");
        let id = id.and_then(|id| id.to_str().ok()?.parse().ok());
        // There is none if its client has gone.
        let order = id.and_then(|id| shared.orders.take(id));
        let Some(mut order) = order else {
            return Box::pin(async { Ok(Response::new(Reply::none())) });
        };
        if let Some(granted) = order.granted.take() {
            // Nobody listens if the client has just gone.
            let _ = granted.send(());
        }
        if order.fate == Fate::PanicInCall {
            slot.fail();
            std::panic::panic_any(Expected);
        }
        Box::pin(respond(request.into_body(), order, slot))
    }
}

async fn respond<B>(body: B, order: Order, slot: Slot) -> Result<Response<Reply>, BoxError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send,
{
    let mut received = 0;
    let mut body = std::pin::pin!(body);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            slot.fail();
            error.into()
        })?;
        received += frame.data_ref().map_or(0, Bytes::len);
    }
    if !order.head_after.is_zero() {
        sleep(order.head_after).await;
    }
    match order.fate {
        Fate::Error => {
            slot.fail();
            return Err("this request was to fail".into());
        }
        Fate::PanicInFuture => {
            slot.fail();
            std::panic::panic_any(Expected);
        }
        _ => {}
    }
    let failed = order.fate == Fate::Status;
    let mut response = Response::new(Reply::new(order, slot));
    response.headers_mut().insert("x-received", received.into());
    if failed {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    Ok(response)
}

/// How long a request keeps its slot, by its class.
enum Slot {
    None,
    UntilHead(Running),
    UntilFirstByte(Running),
    UntilEnd(Running),
}

impl Slot {
    /// Records that the request fails while it has its slot.
    fn fail(&self) {
        match self {
            Self::UntilHead(running) | Self::UntilFirstByte(running) | Self::UntilEnd(running) => {
                running.fail();
            }
            Self::None => {}
        }
    }
}

/// The body of a response. It leaves the ledger before it reports its end, as the layer then passes its
/// slot on.
pub(crate) struct Reply {
    left: usize,
    frame: Bytes,
    gap: Duration,
    sized: bool,
    fate: Fate,
    next: Option<Pin<Box<Sleep>>>,
    over: bool,
    slot: Slot,
}

impl Reply {
    fn none() -> Self {
        Self {
            left: 0,
            frame: Bytes::new(),
            gap: Duration::ZERO,
            sized: true,
            fate: Fate::Done,
            next: None,
            over: true,
            slot: Slot::None,
        }
    }

    fn new(order: Order, slot: Slot) -> Self {
        let fate = order.fate;
        // A body that breaks its declared length is a different mistake, which is not tried here.
        let sized = order.sized && matches!(fate, Fate::Done | Fate::Status);
        let over = order.frames == 0 && sized;
        Self {
            left: order.frames,
            frame: Bytes::from_static(&TEXT[..order.frame_bytes.min(TEXT.len())]),
            gap: order.gap,
            sized,
            fate,
            next: None,
            over,
            slot: match slot {
                Slot::UntilHead(_) => Slot::None,
                _ if over => Slot::None,
                slot => slot,
            },
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        if let Some(next) = &mut this.next {
            ready!(next.as_mut().poll(cx));
        }
        if this.left == 0 {
            if matches!(this.fate, Fate::PanicInBody | Fate::BodyError) {
                this.slot.fail();
            }
            if this.fate == Fate::PanicInBody {
                std::panic::panic_any(Expected);
            }
            this.over = true;
            this.slot = Slot::None;
            return Poll::Ready(match this.fate {
                Fate::BodyError => Some(Err("this body was to fail".into())),
                _ => None,
            });
        }
        this.left -= 1;
        if let Slot::UntilFirstByte(_) = this.slot {
            this.slot = Slot::None;
        }
        if this.left == 0 && this.sized {
            this.over = true;
            this.slot = Slot::None;
        } else if !this.gap.is_zero() {
            let due = Instant::now() + this.gap;
            match &mut this.next {
                Some(next) => next.as_mut().reset(due),
                None => this.next = Some(Box::pin(sleep(this.gap))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(this.frame.clone()))))
    }

    fn is_end_stream(&self) -> bool {
        self.sized && self.over
    }

    fn size_hint(&self) -> SizeHint {
        if self.sized {
            let left = self.left as u64;
            SizeHint::with_exact(left.saturating_mul(self.frame.len() as u64))
        } else {
            SizeHint::default()
        }
    }
}
