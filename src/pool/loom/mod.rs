//! The pool under every interleaving of a few threads, as `loom` runs them.
//!
//! Each model is a handful of threads that arrive, poll, release, drop and change the dominion at the same
//! time. Whatever the order, nobody may wait forever (`loom` reports that as a deadlock), each request has
//! one outcome, every count is right whenever the lock is released, all counts are zero at the end, and no
//! foreign waker is woken or dropped under a lock.
//!
//! Where a model gives a number of preemptions, the interleavings are those with at most that many switches
//! away from a thread that could have gone on; a switch from one that has to wait does not count.
//!
//! ```sh
//! RUSTFLAGS="--cfg policy_queue_loom" cargo test --profile loom --lib --target-dir target/loom pool::loom
//! ```

mod changes;
pub(super) mod clock;
mod hand_over;
mod reloads;
mod revocations;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use loom::{sync::Notify, thread::JoinHandle};

use super::{
    Arrival, Entrance, Permit, Pool, Refusal, Refused, State, Ticket, Wanted,
    fixtures::{self, admitted, parked},
};
use crate::{config::PolicyConfig, sync::holds_lock};

/// In bytes. The default of `loom` is too small for unoptimized code.
const STACK: usize = 1 << 18;

/// Longer than any deadline of these models.
const LATER: Duration = Duration::from_millis(50);

/// A policy with one dominion of this many slots. `class` is added to its only class, and `rest` to the
/// policy.
fn policy(slots: usize, class: &str, rest: &str) -> PolicyConfig {
    let policy = format!(
        "
default_policy_family: only
uncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]
policy_classes: [{{name: only, policy_family: only, cache_bucket: all, quantum: 8{class}}}]
dominions: [{{id: pool, kind: {kind}, max_concurrency: {slots}, max_queue: 9}}]
{rest}
",
        kind = if rest.contains("local_models") {
            "local"
        } else {
            "remote"
        },
    );
    policy.parse().unwrap()
}

/// Runs a model under every interleaving, or every one with at most this many preemptions.
fn check(
    preemptions: impl Into<Option<usize>>,
    policy: PolicyConfig,
    model: impl Fn(&Arc<Pool>) + Send + Sync + 'static,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // All of `loom`'s threads run on this one, and so inside this runtime.
    let _inside = runtime.enter();
    let policy = Arc::new(policy);
    let runs = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions.into());
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let pool = Pool::new(Arc::clone(&policy), Some(0));
        model(&pool);
        assert_over(&pool);
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{runs} interleavings");
    assert!(runs > 1, "there was something to interleave");
}

fn thread<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let builder = loom::thread::Builder::new().stack_size(STACK);
    builder.spawn(run).unwrap()
}

fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A task's waker, which as foreign code must be woken and dropped under no lock.
struct Ring(Arc<Notify>);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        assert!(!holds_lock(), "woken under a lock");
        self.0.notify();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(!holds_lock(), "dropped under a lock");
        }
    }
}

/// Polls until it is ready, and no more often than it is woken, except for spurious polls.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let notify = Arc::new(Notify::new());
    loop {
        // A new waker each time, so that it is up to the pool when the one before is dropped.
        let waker = Waker::from(Arc::new(Ring(Arc::clone(&notify))));
        let polled = poll(&mut Context::from_waker(&waker));
        drop(waker);
        match polled {
            Poll::Ready(ready) => return ready,
            Poll::Pending => notify.wait(),
        }
    }
}

/// Polls once.
fn poll_once<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let waker = Waker::from(Arc::new(Ring(Arc::new(Notify::new()))));
    poll(&mut Context::from_waker(&waker))
}

fn wait(mut ticket: Ticket) -> Result<Permit, Refused> {
    block_on(|cx| ticket.poll_granted(cx))
}

/// A request of three uncached tokens, for any worker.
fn arrival() -> Arrival<'static> {
    fixtures::arrival(0, 4, 1)
}

fn pinned(worker: &str) -> Arrival<'_> {
    Arrival {
        wanted: Wanted {
            worker: Some(worker),
            ..Wanted::default()
        },
        ..arrival()
    }
}

/// How a request's way to a slot ended.
enum Outcome {
    Runs(Permit),
    TurnedAway(Refusal),
    Refused(Refused),
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs(_) => f.write_str("Runs"),
            Self::TurnedAway(refusal) => refusal.fmt(f),
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

/// Arrives, and waits if it has to.
fn enter_and_wait(pool: &Arc<Pool>, arrival: &Arrival<'_>) -> Outcome {
    match pool.enter(arrival) {
        Entrance::Admitted(permit) => Outcome::Runs(permit),
        Entrance::TurnedAway(refusal) => Outcome::TurnedAway(refusal),
        Entrance::Parked(ticket) => wait(ticket).map_or_else(Outcome::Refused, Outcome::Runs),
    }
}

/// Counts the requests that run at the same time.
#[derive(Clone, Default)]
struct Desk(Arc<AtomicUsize>);

impl Desk {
    /// Runs a request to its end, while at most `slots` of them may run, including this one.
    fn serve(&self, permit: Permit, slots: usize) {
        let running = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(running <= slots, "{running} run on {slots} slots");
        // This takes the lock, so that the others may run in between.
        permit.end_prefill();
        self.0.fetch_sub(1, Ordering::Relaxed);
        drop(permit);
    }
}

impl State {
    /// Holds whenever the lock is released.
    pub(super) fn assert_whole(&self) {
        let totals = self.totals.iter().chain([&self.former]);
        let (arrived, settled) = totals.fold((0, 0), |(arrived, settled), class| {
            (arrived + class.arrived, settled + class.settled())
        });
        let open = self.schedule.len() + self.in_use;
        assert_eq!(
            arrived,
            settled + open as u64,
            "every request has one outcome, or waits or runs"
        );
        assert!(
            !self.has_slot() || !self.schedule.is_dispatchable(),
            "a free slot and a dispatchable head"
        );
        assert!(
            self.timekeeper.is_some()
                || self.schedule.len() == 0
                || self.revocables.next_expiry().is_none(),
            "somebody keeps the time of the holds"
        );
    }
}

/// Asserts that no request is left, nor anything that belonged to one.
fn assert_over(pool: &Pool) {
    let state = pool.lock();
    state.assert_whole();
    let audit = state.audit();
    let prefill: u64 = audit.prefill.iter().sum();
    assert_eq!((audit.in_use, audit.queued, prefill), (0, 0, 0));
    assert!(state.waiters.is_empty() && !audit.expires && state.idle_watch.is_empty());
    drop(state);
    assert_eq!(clock::asleep(), 0, "no timer runs on");
}
