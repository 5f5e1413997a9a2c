//! A dominion with many workers, each with a lane of its own.

use std::{
    fmt::Write,
    task::{Context, Poll, Waker},
    time::Instant,
};

use tower_policy_queue::internals::{Entered, Permit, Pool, Ticket};

use crate::{
    measure::{Caches, Random, medians, nanos},
    table::{Figure::*, Promise::*, Row},
};

const WORKERS: [usize; 3] = [10, 1_000, 10_000];

/// Which workers it is measured with, one after the other.
#[derive(Clone, Copy)]
enum Choice {
    /// Few, so that what they need is at hand whether there are 10 of them or 10,000.
    Few,
    /// Anyone, after the caches were filled with other things: neither 10 nor 10,000 are at hand.
    AnyCold,
    /// Anyone: 10 are at hand, 10,000 are not. Shows what the memory of the machine adds.
    Any,
}

pub fn rows() -> Vec<Row> {
    type Measure = fn(&mut Stage, &[usize]) -> f64;
    let measures: [(&str, Measure); 3] = [
        ("arrival, all blocked", Stage::arrivals),
        ("first byte", Stage::first_bytes),
        ("release", Stage::releases),
    ];
    let choices = [
        (Choice::Few, "always the same of", 201),
        (Choice::AnyCold, "any (cold) of", 41),
        (Choice::Any, "any of", 201),
    ];
    let mut stages = WORKERS.map(Stage::new);
    let mut rows = Vec::new();
    for (what, measure) in measures {
        for (choice, which, rounds) in choices {
            let [a, b, c] = &mut stages;
            let side = |stage: &mut Stage| {
                let workers = stage.choose(choice);
                let spent = measure(stage, &workers) / workers.len() as f64;
                stage.settle();
                spent
            };
            let [base, others @ ..] =
                medians(rounds, [&mut || side(a), &mut || side(b), &mut || side(c)]);
            for (workers, other) in WORKERS[1..].iter().zip(others) {
                let title = format!("{what}, {which} {workers} workers");
                let row = Row::new(title, Nanos(other)).against("itself, 10 workers", Nanos(base));
                rows.push(match choice {
                    Choice::Any => row,
                    Choice::Few | Choice::AnyCold => row.holds(RatioAtMost(3.0)),
                });
            }
        }
    }
    rows
}

/// Each worker is busy with one request, and another one waits in its lane.
struct Stage {
    pool: Pool,
    names: Vec<String>,
    running: Vec<Option<Permit>>,
    waiting: Vec<Ticket>,
    newcomers: Vec<Entered>,
    random: Random,
    caches: Caches,
}

impl Stage {
    fn new(workers: usize) -> Self {
        let names: Vec<_> = (0..workers)
            .map(|index| format!("worker-{index}"))
            .collect();
        let mut policy = String::from(
            "default_policy_family: all
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: all, policy_family: all, cache_bucket: all, quantum: 512, prefill_busy_threshold: 100}
dominions: [{id: pool, kind: remote, max_concurrency: 1000000, max_queue: 1000000}]
endpoints:
",
        );
        for name in &names {
            let _ = writeln!(
                policy,
                "  - {{id: {name}, dominion: pool, models: [model]}}"
            );
        }
        let pool = Pool::new(policy.parse().expect("the policy is valid"));
        let mut this = Self {
            pool,
            names,
            running: Vec::new(),
            waiting: Vec::new(),
            newcomers: Vec::new(),
            random: Random(1),
            caches: Caches::default(),
        };
        // All run before the first one waits: nobody starts at once where others wait.
        for worker in 0..workers {
            match this.enter(worker) {
                Entered::Started(permit) => this.running.push(Some(permit)),
                _ => panic!("the worker is idle"),
            }
        }
        this.waiting = (0..workers).map(|worker| this.park(worker)).collect();
        this
    }

    /// Comes for this worker, whom it keeps busy until its first byte.
    fn enter(&self, worker: usize) -> Entered {
        self.pool.enter(0, 512, Some(&self.names[worker]))
    }

    fn park(&self, worker: usize) -> Ticket {
        match self.enter(worker) {
            Entered::Parked(mut ticket) => {
                assert!(poll(&mut ticket).is_pending());
                ticket
            }
            _ => panic!("the worker is busy"),
        }
    }

    /// Different ones.
    fn choose(&mut self, choice: Choice) -> Vec<usize> {
        const CHOSEN: usize = 10;
        let all = self.names.len();
        if let Choice::Few = choice {
            return (0..CHOSEN).collect();
        }
        let first = self.random.below(all);
        if let Choice::AnyCold = choice {
            self.caches.empty();
        }
        (0..CHOSEN)
            .map(|index| (first + index * (all / CHOSEN)) % all)
            .collect()
    }

    fn arrivals(&mut self, workers: &[usize]) -> f64 {
        let start = Instant::now();
        for &worker in workers {
            let parked = self.enter(worker);
            self.newcomers.push(parked);
        }
        nanos(start)
    }

    fn first_bytes(&mut self, workers: &[usize]) -> f64 {
        let start = Instant::now();
        for &worker in workers {
            let permit = self.running[worker].as_ref();
            permit.expect("each worker has one").end_prefill();
        }
        let spent = nanos(start);
        self.succeed(workers);
        spent
    }

    fn releases(&mut self, workers: &[usize]) -> f64 {
        let start = Instant::now();
        for &worker in workers {
            self.running[worker] = None;
        }
        let spent = nanos(start);
        self.succeed(workers);
        spent
    }

    /// Those who came late leave.
    fn settle(&mut self) {
        self.newcomers.clear();
    }

    /// Those who waited for these workers run now, and others wait.
    fn succeed(&mut self, workers: &[usize]) {
        for &worker in workers {
            let Poll::Ready(Some(permit)) = poll(&mut self.waiting[worker]) else {
                panic!("its worker was free");
            };
            self.running[worker] = Some(permit);
            self.waiting[worker] = self.park(worker);
        }
    }
}

fn poll(ticket: &mut Ticket) -> Poll<Option<Permit>> {
    ticket.poll_granted(&mut Context::from_waker(Waker::noop()))
}
