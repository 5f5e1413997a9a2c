//! A long queue: how fast the slot goes from one to the next, and what each place takes.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use http::Request;
use tokio::{
    runtime,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
};
use tower::Service;
use tower_policy_queue::{
    RequestBody,
    internals::{Entered, Permit, Pool, Ticket},
};

use crate::{
    alloc::counted,
    measure::{medians, nanos},
    one,
    table::{Figure::*, Promise::*, Row},
};

const PARKED: usize = 100_000;

pub fn hand_off() -> Vec<Row> {
    let row = |what: &str, [ours, tokios]: [f64; 2]| {
        Row::new(
            format!("hand-off between {what}, 100000 parked"),
            Nanos(ours),
        )
        .against("tokio Semaphore", Nanos(tokios))
        .holds(RatioAtMost(1.5))
    };
    let futures = medians(
        9,
        [
            &mut || {
                let (permit, tickets) = ours();
                hand_on(permit, tickets, poll_ticket)
            },
            &mut || {
                let (permit, acquires) = tokios();
                hand_on(permit, acquires, poll_acquire)
            },
        ],
    );
    let tasks = medians(
        9,
        [
            &mut || {
                let (permit, tickets) = ours();
                hand_on_tasks(permit, tickets, poll_ticket)
            },
            &mut || {
                let (permit, acquires) = tokios();
                hand_on_tasks(permit, acquires, poll_acquire)
            },
        ],
    );
    vec![row("tasks", tasks), row("bare futures", futures)]
}

/// Counts wake-ups, as a task would note them.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// From each release to the permit of the next, which the woken future takes.
fn hand_on<F, P>(
    mut permit: P,
    mut parked: Vec<F>,
    take: impl Fn(&mut F, &mut Context<'_>) -> Poll<P>,
) -> f64 {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    for future in &mut parked {
        assert!(take(future, cx).is_pending());
    }
    let start = Instant::now();
    for future in &mut parked {
        drop(permit);
        let Poll::Ready(granted) = take(future, cx) else {
            panic!("it is next");
        };
        permit = granted;
    }
    let spent = nanos(start) / parked.len() as f64;
    drop(permit);
    assert_eq!(woken.0.load(Ordering::Relaxed), PARKED);
    spent
}

/// The same with a task for each, on a runtime of one thread: from each release until the next task runs.
fn hand_on_tasks<F, P>(
    permit: P,
    parked: Vec<F>,
    take: fn(&mut F, &mut Context<'_>) -> Poll<P>,
) -> f64
where
    F: Send + 'static,
    P: Send + 'static,
{
    let runtime = runtime::Builder::new_current_thread()
        .build()
        .expect("it needs nothing");
    runtime.block_on(async {
        let task = |mut future: F| {
            tokio::spawn(async move {
                drop(poll_fn(|cx| take(&mut future, cx)).await);
            })
        };
        let mut tasks: Vec<_> = parked.into_iter().map(task).collect();
        let last = tasks.pop().expect("some are parked");
        // Each of them is polled once, and parked.
        for _ in 0..PARKED {
            yield_now().await;
        }
        assert!(!last.is_finished());
        let start = Instant::now();
        drop(permit);
        last.await.expect("it does not panic");
        nanos(start) / PARKED as f64
    })
}

/// The permit, and those who wait for it.
fn ours() -> (Permit, Vec<Ticket>) {
    let pool = Pool::new(one::policy(1, PARKED));
    let Entered::Started(permit) = pool.enter(0, 1, None) else {
        panic!("the slot is free");
    };
    let ticket = |_| match pool.enter(0, 1, None) {
        Entered::Parked(ticket) => ticket,
        _ => panic!("it has to wait"),
    };
    (permit, (0..PARKED).map(ticket).collect())
}

fn poll_ticket(ticket: &mut Ticket, cx: &mut Context<'_>) -> Poll<Permit> {
    let granted = ticket.poll_granted(cx);
    granted.map(|granted| granted.expect("nobody is refused"))
}

type Acquire = Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>;

fn tokios() -> (OwnedSemaphorePermit, Vec<Acquire>) {
    let semaphore = Arc::new(Semaphore::new(1));
    let acquire = |_| -> Acquire {
        let semaphore = Arc::clone(&semaphore);
        Box::pin(async { semaphore.acquire_owned().await.expect("it stays open") })
    };
    let permit = Arc::clone(&semaphore)
        .try_acquire_owned()
        .expect("it is free");
    (permit, (0..PARKED).map(acquire).collect())
}

fn poll_acquire(acquire: &mut Acquire, cx: &mut Context<'_>) -> Poll<OwnedSemaphorePermit> {
    acquire.as_mut().poll(cx)
}

pub fn memory() -> Row {
    let mut service = one::limited(1, PARKED);
    let cx = &mut Context::from_waker(Waker::noop());
    // The first one has the slot; none of the others is polled to its end.
    let _running = service.call(Request::new(one::RequestBody::new()));
    let mut parked: Vec<_> = Vec::with_capacity(PARKED);
    let ((), _, heap) = counted(|| {
        for _ in 0..PARKED {
            parked.push(service.call(Request::new(one::RequestBody::new())));
        }
        for future in &mut parked {
            assert!(Pin::new(future).poll(cx).is_pending());
        }
    });
    let in_future = size_of_val(&parked[0]) - size_of::<Request<RequestBody<one::RequestBody>>>();
    let each = heap as f64 / PARKED as f64 + in_future as f64;
    Row::new("memory of one parked request, 100000 parked", Bytes(each)).holds(AtMost(Bytes(512.0)))
}
