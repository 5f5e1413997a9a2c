//! Replays a log through the layer in simulated time.
//!
//! The clock stands still while there is work to do, and otherwise jumps to the next event. So a replay
//! takes only as long as its computation, and the same log always has the same outcome.

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::stream::{self, Stream};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, StreamBody};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tower::{Layer, Service};
use tower_policy_queue::{Admission, PolicyConfig, PolicyQueueLayer, Rejection};

use super::{
    ledger::{Ledger, SharedLedger},
    log::Entry,
};

/// Replays a log, which must be in order of arrival, and returns what became of its requests.
pub(super) fn replay(config: &PolicyConfig, log: &[Entry]) -> Ledger {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(run(config, log))
}

async fn run(config: &PolicyConfig, log: &[Entry]) -> Ledger {
    let begin = Instant::now();
    let ledger = SharedLedger::new(Ledger::new(config, log, begin));
    let mut service = PolicyQueueLayer::new(config.clone()).layer(Backend {
        ledger: ledger.clone(),
    });
    let first = log.first().map_or(0, |entry| entry.at_ms);
    let mut running = JoinSet::new();
    for (index, entry) in log.iter().enumerate() {
        let at = begin + Duration::from_millis(entry.at_ms - first);
        if at > Instant::now() {
            sleep_until(at).await;
        }
        let mut request = Request::new(Empty::<Bytes>::new());
        request.extensions_mut().insert(entry.hints());
        request.extensions_mut().insert(Job {
            index,
            first_byte: Duration::from_millis(entry.first_byte_ms()),
            service: Duration::from_millis(entry.service_ms),
        });
        ledger.with(|ledger| ledger.arrived(index));
        let mut answer = Box::pin(service.call(request));
        // The first poll shows whether it was turned away, or started or has to wait.
        match futures::poll!(&mut answer) {
            Poll::Ready(response) => {
                running.spawn(read(ledger.clone(), index, std::future::ready(response)));
            }
            Poll::Pending => {
                ledger.with(|ledger| ledger.pending(index));
                running.spawn(read(ledger.clone(), index, answer));
            }
        }
        // Reaped as they end, since a long log has many; their results are of no interest.
        while running.try_join_next().is_some() {}
    }
    while running.join_next().await.is_some() {}
    // Not dropped earlier: with the last service, all waiting requests are turned away.
    drop(service);
    ledger.take()
}

/// The client: reads its response to the end.
async fn read<B>(
    ledger: SharedLedger,
    index: usize,
    answer: impl Future<Output = Result<Response<B>, Infallible>>,
) where
    B: Body<Data = Bytes>,
{
    let Ok(response) = answer.await;
    if let Some(rejection) = response.extensions().get::<Rejection>() {
        let code = rejection.code();
        return ledger.with(|ledger| ledger.turned_away(index, code));
    }
    let mut body = pin!(response.into_body());
    while let Some(frame) = body.frame().await {
        if frame.is_err() {
            return ledger.with(|ledger| ledger.cut(index));
        }
    }
}

/// What the backend must do.
#[derive(Clone, Copy)]
struct Job {
    index: usize,
    first_byte: Duration,
    service: Duration,
}

/// Serves each request for its time, any number at once.
#[derive(Clone)]
struct Backend {
    ledger: SharedLedger,
}

type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>;
type Answer =
    Pin<Box<dyn Future<Output = Result<Response<StreamBody<Frames>>, Infallible>> + Send>>;

impl<B> Service<Request<B>> for Backend {
    type Response = Response<StreamBody<Frames>>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        let extensions = request.extensions();
        let (Some(&job), Some(admission)) =
            (extensions.get::<Job>(), extensions.get::<Admission>())
        else {
            unreachable!("the replay sends jobs, and the layer admits them");
        };
        self.ledger
            .with(|ledger| ledger.started(job.index, admission));
        let start = Instant::now();
        let running = Running {
            ledger: self.ledger.clone(),
            index: job.index,
        };
        Box::pin(async move {
            sleep_until(start + job.first_byte).await;
            running
                .ledger
                .with(|ledger| ledger.first_byte(running.index));
            let end = start + job.service;
            let frames = stream::unfold((true, running), move |(first, running)| async move {
                if first {
                    // It comes with the head.
                    let frame = Frame::data(Bytes::from_static(b"token"));
                    return Some((Ok(frame), (false, running)));
                }
                sleep_until(end).await;
                drop(running);
                None
            });
            Ok(Response::new(StreamBody::new(Box::pin(frames) as Frames)))
        })
    }
}

/// A request at the backend. Dropping it records its end, whether that is the body's end or comes before.
struct Running {
    ledger: SharedLedger,
    index: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ledger.with(|ledger| ledger.ended(self.index));
    }
}
