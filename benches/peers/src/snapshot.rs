//! A look at a long queue: how long it holds the lock, and what arrivals feel of it.

use std::{
    fmt::Write,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use tower_policy_queue::internals::{Entered, Permit, Pool, Ticket};

use crate::{
    measure::{median, nanos},
    table::{Figure::*, Promise::*, Row},
};

const WAITING: usize = 100_000;
const CLASSES: usize = 4;

/// Waiters that a snapshot lists.
const LISTED: usize = 100;

/// How those who wait are spread.
#[derive(Clone, Copy)]
struct Shape {
    what: &'static str,
    /// With a lane for each; none: they all wait in the shared one.
    workers: usize,
    /// None are blocked, or all are.
    blocked: bool,
    clients: usize,
}

const SHAPES: [Shape; 4] = [
    Shape {
        what: "1 lane",
        workers: 0,
        blocked: false,
        clients: 0,
    },
    Shape {
        what: "10000 lanes",
        workers: 10_000,
        blocked: false,
        clients: 0,
    },
    Shape {
        what: "10000 blocked lanes",
        workers: 10_000,
        blocked: true,
        clients: 0,
    },
    Shape {
        what: "32 clients",
        workers: 0,
        blocked: false,
        clients: 32,
    },
];

pub fn rows() -> Vec<Row> {
    SHAPES.iter().flat_map(|&shape| rows_of(shape)).collect()
}

fn rows_of(shape: Shape) -> Vec<Row> {
    let stage = Stage::new(shape);
    let times: Vec<_> = (0..101).map(|_| stage.pool.time_snapshot(LISTED)).collect();
    let of = |which: usize| {
        let times = times.iter().map(|times| times[which].as_nanos() as f64);
        median(times.collect())
    };
    let what = shape.what;
    let mut rows = vec![
        Row::new(format!("snapshot, lock held, {what}"), Nanos(of(0)))
            .holds(AtMost(Nanos(1_000_000.0))),
        Row::new(format!("snapshot, in all, {what}"), Nanos(of(1))),
    ];
    let alone = stage.arrivals(|| true);
    let beside = stage.arrivals_beside_snapshots();
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        let title = format!("arrival beside snapshots, {name}, {what}");
        let row = Row::new(title, Nanos(quantile(&beside, part)))
            .against("itself, alone", Nanos(quantile(&alone, part)));
        rows.push(row);
    }
    rows
}

/// Of sorted samples.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len() - 1;
    sorted[(last as f64 * part) as usize]
}

/// A dominion without a free slot, and all who wait for one.
struct Stage {
    shape: Shape,
    pool: Pool,
    workers: Vec<String>,
    clients: Vec<String>,
    _running: Vec<Permit>,
    _waiting: Vec<Ticket>,
}

impl Stage {
    fn new(shape: Shape) -> Self {
        let names = |prefix: &str, count: usize| -> Vec<String> {
            (0..count)
                .map(|index| format!("{prefix}-{index}"))
                .collect()
        };
        let workers = names("worker", shape.workers);
        let slots = if shape.blocked { 1_000_000 } else { 1 };
        let fair = shape.clients > 0;
        let mut policy = String::from(
            "default_policy_family: class-0\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes:\n",
        );
        for class in 0..CLASSES {
            let quantum = 512 << class;
            let threshold = if shape.blocked {
                ", prefill_busy_threshold: 100"
            } else {
                ""
            };
            let _ = writeln!(
                policy,
                "  - {{name: class-{class}, policy_family: class-{class}, cache_bucket: all, quantum: {quantum}{threshold}}}"
            );
        }
        let _ = writeln!(
            policy,
            "dominions: [{{id: pool, kind: remote, max_concurrency: {slots}, max_queue: 1000000, fair_scheduling: {fair}}}]\nendpoints:"
        );
        for worker in &workers {
            let _ = writeln!(policy, "  - {{id: {worker}, dominion: pool}}");
        }
        if workers.is_empty() {
            policy.push_str("  []\n");
        }
        let mut this = Self {
            pool: Pool::new(policy.parse().expect("the policy is valid")),
            shape,
            workers,
            clients: names("client", shape.clients),
            _running: Vec::new(),
            _waiting: Vec::new(),
        };
        let busy = if shape.blocked { this.workers.len() } else { 1 };
        for worker in 0..busy {
            let worker = this.workers.get(worker).map(String::as_str);
            match this.pool.enter(0, 1000, worker) {
                Entered::Started(permit) => this._running.push(permit),
                _ => panic!("a slot is free"),
            }
        }
        this._waiting = (0..WAITING).map(|number| this.arrive(number)).collect();
        this
    }

    fn arrive(&self, number: usize) -> Ticket {
        // A lane, or a client, has requests of each class.
        let spread = number / CLASSES;
        let of = |names: &'_ [String]| -> Option<String> {
            names.get(spread % names.len().max(1)).cloned()
        };
        let (worker, client) = (of(&self.workers), of(&self.clients));
        let class = number % CLASSES;
        let cost = 100 + number as u64 % 997;
        match self
            .pool
            .enter_as(class, cost, worker.as_deref(), client.as_deref())
        {
            Entered::Parked(ticket) => ticket,
            _ => panic!("no slot is free in {}", self.shape.what),
        }
    }

    /// Nanoseconds of arrivals that leave again, sorted: 20,000 of them, and more until it is enough.
    fn arrivals(&self, enough: impl Fn() -> bool) -> Vec<f64> {
        let mut spent = Vec::new();
        while spent.len() < 20_000 || !enough() {
            let start = Instant::now();
            let ticket = self.arrive(spent.len());
            spent.push(nanos(start));
            drop(ticket);
        }
        spent.sort_by(f64::total_cmp);
        spent
    }

    fn arrivals_beside_snapshots(&self) -> Vec<f64> {
        let over = AtomicBool::new(false);
        let taken = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::black_box(self.pool.time_snapshot(LISTED));
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
            let spent = self.arrivals(|| taken.load(Ordering::Relaxed) >= 500);
            over.store(true, Ordering::Relaxed);
            spent
        })
    }
}
