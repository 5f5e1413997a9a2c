//! The shares that classes get, beside those that their quanta promise.

use std::time::Duration;

use dynamo_kv_router::scheduling::PolicyQueue;
use tower_policy_queue::internals::{Arrival, Class, Queue};

use crate::{
    dynamo::{enqueue, profile},
    measure::Random,
};

/// A scenario: classes that are never empty.
struct Case {
    quanta: &'static [u64],
    /// Of each request; at random from 1 to `max_cost` where it is none.
    cost: Option<u64>,
    max_cost: u64,
    dispatches: usize,
    /// Between two dispatches, the queue is asked while nobody may go.
    probes: bool,
}

const fn probed(quanta: &'static [u64]) -> Case {
    Case {
        quanta,
        cost: Some(512),
        max_cost: 512,
        dispatches: 30_000,
        probes: true,
    }
}

const CASES: [Case; 4] = [
    probed(&[512, 128]),
    probed(&[1024, 256]),
    probed(&[2048, 512]),
    Case {
        quanta: &[4096, 1024, 512],
        cost: None,
        max_cost: 8192,
        dispatches: 300_000,
        probes: false,
    },
];

/// Prints the shares of tokens; true if ours are those that were promised.
pub fn print() -> bool {
    println!(
        "\nShares of tokens, by class. `apart` is the largest |Si/Qi - Sj/Qj| at any time, in rounds; deficit\n\
         round robin bounds it by 1 + Max/Qi + Max/Qj, here `bound` of the same two classes.\n"
    );
    println!(
        "| quanta         | costs   | blocked probes | dispatches | promised              | dynamo 1.6.1          | apart   | ours                  | apart   | bound   | holds |"
    );
    println!(
        "| ---            | ---     | ---            | ---        | ---                   | ---                   | ---     | ---                   | ---     | ---     | ---   |"
    );
    let held = CASES.each_ref().map(print_case);
    held.into_iter().all(|held| held)
}

fn print_case(case: &Case) -> bool {
    let sum: u64 = case.quanta.iter().sum();
    let promised: Vec<_> = case
        .quanta
        .iter()
        .map(|&quantum| quantum as f64 / sum as f64)
        .collect();
    let dynamo = case.run(&mut dynamo(case));
    let ours = case.run(&mut ours(case));
    let held = ours.excess <= 0.0;
    let quanta: Vec<_> = case.quanta.iter().map(u64::to_string).collect();
    let costs = case
        .cost
        .map_or(format!("1..{}", case.max_cost), |cost| cost.to_string());
    println!(
        "| {:14} | {costs:7} | {:14} | {:10} | {:21} | {:21} | {:7.1} | {:21} | {:7.1} | {:7.1} | {:5} |",
        quanta.join(":"),
        if case.probes { "yes" } else { "no" },
        case.dispatches,
        percent(&promised),
        percent(&dynamo.shares),
        dynamo.apart,
        percent(&ours.shares),
        ours.apart,
        ours.bound,
        if held { "ok" } else { "FAIL" },
    );
    held
}

fn percent(shares: &[f64]) -> String {
    let shares: Vec<_> = shares
        .iter()
        .map(|share| format!("{:.1}", share * 100.0))
        .collect();
    format!("{} %", shares.join(" : "))
}

/// A queue under test.
trait Subject {
    fn push(&mut self, class: usize, cost: u64);
    /// The class and the cost of the one that goes.
    fn serve(&mut self) -> (usize, u64);
    /// Asks while nobody may go.
    fn probe(&mut self);
}

struct Outcome {
    shares: Vec<f64>,
    apart: f64,
    bound: f64,
    /// The most by which two classes were further apart than their bound; negative within it.
    excess: f64,
}

impl Case {
    fn run(&self, subject: &mut dyn Subject) -> Outcome {
        let mut random = Random(1);
        let mut cost = || self.cost.unwrap_or(1 + random.next() % self.max_cost);
        for _ in 0..4 {
            (0..self.quanta.len()).for_each(|class| subject.push(class, cost()));
        }
        let mut served = vec![0u64; self.quanta.len()];
        let (mut apart, mut excess, mut bound) = (0.0f64, f64::MIN, 0.0);
        for _ in 0..self.dispatches {
            let (class, paid) = subject.serve();
            served[class] += paid;
            subject.push(class, cost());
            if self.probes {
                subject.probe();
            }
            for (i, &quantum_i) in self.quanta.iter().enumerate() {
                for (j, &quantum_j) in self.quanta.iter().enumerate().skip(i + 1) {
                    let rounds = |class: usize| served[class] as f64 / self.quanta[class] as f64;
                    let max = self.max_cost as f64;
                    let limit = 1.0 + max / quantum_i as f64 + max / quantum_j as f64;
                    let distance = (rounds(i) - rounds(j)).abs();
                    excess = excess.max(distance - limit - 1e-9);
                    if distance >= apart {
                        (apart, bound) = (distance, limit);
                    }
                }
            }
        }
        let sum: u64 = served.iter().sum();
        Outcome {
            shares: served
                .iter()
                .map(|&paid| paid as f64 / sum as f64)
                .collect(),
            apart,
            bound,
            excess,
        }
    }
}

struct Theirs(PolicyQueue<u64>);

fn dynamo(case: &Case) -> Theirs {
    Theirs(PolicyQueue::new(profile(
        case.quanta.iter().copied(),
        false,
    )))
}

impl Subject for Theirs {
    fn push(&mut self, class: usize, cost: u64) {
        enqueue(&mut self.0, class, cost, 0.0, cost);
    }

    fn serve(&mut self) -> (usize, u64) {
        let served = self.0.pop_next(|_, _, _| true).expect("some wait");
        (served.class_index(), served.into_payload())
    }

    fn probe(&mut self) {
        assert!(self.0.pop_next(|_, _, _| false).is_none());
    }
}

struct Ours {
    queue: Queue<u64>,
    classes: usize,
}

fn ours(case: &Case) -> Ours {
    let class = |&quantum: &u64| Class {
        quantum,
        wspt: false,
    };
    Ours {
        queue: Queue::new(&case.quanta.iter().map(class).collect::<Vec<_>>()),
        classes: case.quanta.len(),
    }
}

impl Ours {
    fn set_open(&mut self, open: bool) {
        for class in 0..self.classes {
            self.queue.recheck(class, |_, _| open);
        }
    }
}

impl Subject for Ours {
    fn push(&mut self, class: usize, cost: u64) {
        let arrival = Arrival {
            class,
            cost,
            after: Duration::ZERO,
            worker: None,
        };
        self.queue.push(arrival, cost, |_, _| true);
    }

    fn serve(&mut self) -> (usize, u64) {
        self.queue.serve(|_, _| true).expect("some wait")
    }

    fn probe(&mut self) {
        self.set_open(false);
        assert!(self.queue.serve(|_, _| false).is_none());
        self.set_open(true);
    }
}
