//! The schedule beside a model that goes through every round.

mod model;

use std::{cell::RefCell, collections::BTreeSet, time::Duration};

use arbitrary::Arbitrary;
use tower_policy_queue::internals::{Arrival, Class, Place, Queue, Standing};

use model::{Lane, Model, Next, Waiter};

const MAX_CLASSES: usize = 6;
const MAX_OPERATIONS: usize = 128;
const WORKERS: u8 = 3;
const CLIENTS: [Option<&str>; 4] = [None, Some("a"), Some("b"), Some("c")];

/// A schedule and what happens to it.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    classes: Vec<ClassOf>,
    /// Clients take turns by tokens.
    by_tokens: bool,
    size: Size,
    operations: Vec<Operation>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct ClassOf {
    quantum: u16,
    wspt: bool,
}

/// How large quanta and costs are.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Size {
    /// As they stand.
    Plain,
    /// Times a power of two below 2^31: nothing may depend on the unit.
    Scaled(u8),
    /// Costs of 2^40 quanta and more, too far for the model.
    Huge,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Operation {
    Push {
        class: u8,
        cost: u16,
        lane: u8,
        client: u8,
        tier: u8,
        jump: i8,
        /// Milliseconds since the one before.
        after: u8,
    },
    Serve,
    Remove(u8),
    /// Blocks or opens a lane of a class.
    Gate {
        class: u8,
        lane: u8,
        shut: bool,
    },
    /// Blocks or opens a worker's lanes.
    Worker {
        worker: u8,
        shut: bool,
    },
    Charge {
        class: u8,
        tokens: i16,
    },
}

/// What a waiting request is to the gate.
#[derive(Clone, Copy, Debug)]
struct Job {
    id: usize,
    lane: Lane,
}

pub fn run(case: &Case) {
    let mut pair = Pair::new(case);
    for operation in case.operations.iter().take(MAX_OPERATIONS) {
        pair.apply(*operation);
        pair.check();
    }
    while pair.serve() {
        pair.check();
    }
    pair.open_everything();
    while pair.serve() {
        pair.check();
    }
    assert_eq!(pair.queue.waiting(), 0, "somebody is stuck");
}

/// The schedule, the model and what is known without either.
struct Pair {
    queue: Queue<Job>,
    /// None where it would never end.
    model: Option<Model>,
    size: Size,
    quanta: Vec<u64>,
    shut: RefCell<BTreeSet<(usize, Lane)>>,
    waiting: Vec<Waiting>,
    arrivals: usize,
    clock: Duration,
    /// The class that the last step served.
    served: Option<usize>,
}

struct Waiting {
    id: usize,
    class: usize,
    lane: Lane,
    place: Place,
}

impl Pair {
    fn new(case: &Case) -> Self {
        let size = case.size;
        let mut classes: Vec<Class> = case
            .classes
            .iter()
            .take(MAX_CLASSES)
            .map(|class| Class {
                quantum: size.of(u64::from(class.quantum % 1024) + 1),
                wspt: class.wspt,
            })
            .collect();
        if classes.is_empty() {
            classes.push(Class {
                quantum: size.of(1),
                wspt: false,
            });
        }
        if let Size::Huge = size {
            // Some cost a handful of quanta, and some as many as there are.
            for (class, of) in classes.iter_mut().zip(&case.classes) {
                class.quantum = match of.quantum % 4 {
                    0 => 1,
                    1 => of.quantum.into(),
                    2 => u64::MAX,
                    _ => u64::from(of.quantum) << 40,
                };
            }
        }
        let model = || {
            let classes = classes.iter().map(|class| (class.quantum, class.wspt));
            Model::new(classes, case.by_tokens)
        };
        Self {
            queue: match case.by_tokens {
                true => Queue::fair_by_tokens(&classes),
                false => Queue::new(&classes),
            },
            model: (!matches!(size, Size::Huge)).then(model),
            size,
            quanta: classes.iter().map(|class| class.quantum).collect(),
            shut: RefCell::default(),
            waiting: Vec::new(),
            arrivals: 0,
            clock: Duration::ZERO,
            served: None,
        }
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Push { .. } => self.push(operation),
            Operation::Serve => {
                self.serve();
            }
            Operation::Remove(which) => self.remove(which.into()),
            Operation::Gate { class, lane, shut } => {
                let (class, lane) = (self.class(class), self.lane(lane));
                self.set(class, lane, shut);
                self.queue.recheck_lane(class, lane, open(&self.shut));
            }
            Operation::Worker { worker, shut } => {
                let worker = worker % WORKERS;
                for class in 0..self.quanta.len() {
                    self.set(class, Some(worker.into()), shut);
                }
                self.queue.recheck_worker(worker.into(), open(&self.shut));
            }
            Operation::Charge { class, tokens } => {
                let class = self.class(class);
                let tokens = self.size.charge(tokens);
                self.queue.charge(class, tokens);
                if let Some(model) = &mut self.model {
                    model.charge(class, tokens);
                }
            }
        }
    }

    fn push(&mut self, operation: Operation) {
        let Operation::Push {
            class,
            cost,
            lane,
            client,
            tier,
            jump,
            after,
        } = operation
        else {
            return;
        };
        let (class, lane) = (self.class(class), self.lane(lane));
        let client = usize::from(client) % CLIENTS.len();
        let tier = u32::from(tier % 3);
        let tokens = self.size.tokens(cost);
        self.clock += Duration::from_millis(after.into());
        let id = self.arrivals;
        self.arrivals += 1;
        let arrival = Arrival {
            class,
            cost: tokens,
            after: self.clock,
            worker: lane,
        };
        let standing = Standing {
            tier,
            // No number is no jump.
            jump: if jump == i8::MIN {
                f64::NAN
            } else {
                jump.into()
            },
            client: CLIENTS[client],
        };
        let job = Job { id, lane };
        let place = self.queue.push_as(arrival, standing, job, open(&self.shut));
        self.waiting.push(Waiting {
            id,
            class,
            lane,
            place,
        });
        if let Some(model) = &mut self.model {
            let waiter = Waiter {
                id,
                lane,
                client: client as u8,
                tier,
                jump: jump.max(0) as u64,
                arrival: self.clock.as_nanos() as u64,
                tokens,
            };
            model.push(class, waiter);
        }
    }

    /// Serves whoever is next; false if nobody may go.
    fn serve(&mut self) -> bool {
        let is_open = open(&self.shut);
        let may_go = self.waiting.iter().any(|waiting| self.may_go(waiting));
        let next = self.model.as_mut().map(|model| {
            let shut = self.shut.borrow();
            model.serve(|class, lane| !shut.contains(&(class, lane)))
        });
        let served = self.queue.serve(is_open);
        assert_eq!(served.is_some(), may_go, "it goes on while somebody may go");
        let served = served.map(|(class, job)| (class, job.id));
        match next {
            Some(Next::Serve { class, id }) => {
                assert_eq!(served, Some((class, id)), "the same request is next");
            }
            Some(Next::Nobody) => assert_eq!(served, None, "nobody is next"),
            // From here on it has nothing to say.
            Some(Next::TooFar) => self.model = None,
            None => {}
        }
        let Some((class, id)) = served else {
            return false;
        };
        let index = self.waiting.iter().position(|waiting| waiting.id == id);
        let waiting = self
            .waiting
            .remove(index.expect("whoever is served waited"));
        assert_eq!(waiting.class, class);
        assert!(self.may_go(&waiting), "its lane was open");
        self.served = Some(class);
        true
    }

    fn remove(&mut self, which: usize) {
        if self.waiting.is_empty() {
            return;
        }
        let Waiting {
            id, class, place, ..
        } = self.waiting.remove(which % self.waiting.len());
        let removed = self.queue.remove(place, open(&self.shut));
        assert_eq!(removed.map(|job| job.id), Some(id));
        assert!(
            self.queue.waiting() == self.waiting.len(),
            "one went, and no other"
        );
        if let Some(model) = &mut self.model {
            model.remove(class, id);
        }
    }

    fn open_everything(&mut self) {
        let shut = self.shut.take();
        for (class, lane) in shut {
            self.queue.recheck_lane(class, lane, open(&self.shut));
        }
    }

    /// What holds after each step.
    fn check(&mut self) {
        assert_eq!(self.queue.waiting(), self.waiting.len());
        let deficits = (0..self.quanta.len()).map(|class| self.queue.deficit(class));
        let deficits: Vec<i128> = deficits.collect();
        if let Some(class) = self.served.take() {
            assert!(deficits[class] >= 0, "it was paid for: {deficits:?}");
        }
        let Some(model) = &self.model else {
            return;
        };
        let expected: Vec<i128> = model.deficits().collect();
        assert_eq!(deficits, expected, "the deficits");
        for class in 0..self.quanta.len() {
            assert_eq!(self.queue.backlog(class), model.backlog(class));
        }
    }

    fn class(&self, number: u8) -> usize {
        usize::from(number) % self.quanta.len()
    }

    fn lane(&self, number: u8) -> Lane {
        (number % (WORKERS + 1)).checked_sub(1).map(u32::from)
    }

    fn set(&self, class: usize, lane: Lane, shut: bool) {
        let mut lanes = self.shut.borrow_mut();
        if shut {
            lanes.insert((class, lane));
        } else {
            lanes.remove(&(class, lane));
        }
    }

    fn may_go(&self, waiting: &Waiting) -> bool {
        !self.shut.borrow().contains(&(waiting.class, waiting.lane))
    }
}

fn open(shut: &RefCell<BTreeSet<(usize, Lane)>>) -> impl Fn(usize, &Job) -> bool + '_ {
    |class, job| !shut.borrow().contains(&(class, job.lane))
}

impl Size {
    fn of(self, number: u64) -> u64 {
        match self {
            Self::Scaled(shift) => number << (shift % 31),
            Self::Plain | Self::Huge => number,
        }
    }

    fn tokens(self, cost: u16) -> u64 {
        match self {
            Self::Plain => u64::from(cost % 2048),
            // Not a multiple of the unit, so that deficits leave remainders.
            Self::Scaled(_) => self
                .of(u64::from(cost % 2048))
                .saturating_sub(self.of(1) / 3),
            // By magnitude, and the largest there is.
            Self::Huge => match cost % 64 {
                63 => u64::MAX - u64::from(cost),
                magnitude => u64::from(cost) << magnitude >> 10,
            },
        }
    }

    fn charge(self, tokens: i16) -> i128 {
        match self {
            Self::Plain | Self::Scaled(_) => i128::from(tokens % 2048) * i128::from(self.of(1)),
            // All of a case together stay far from the ends of an i128.
            Self::Huge => i128::from(tokens) << (tokens.rem_euclid(96)),
        }
    }
}
