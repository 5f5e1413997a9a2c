//! The schedule floor with work for it, the same in each run.

use std::time::Duration;

use tower_policy_queue::internals::{Arrival, Class, Place, Queue};

use crate::measure::Random;

/// What waits: as large as what the layer parks.
#[derive(Clone, Copy)]
pub struct Payload {
    pub number: u64,
    _rest: [u64; 2],
}

impl Payload {
    pub fn new(number: u64) -> Self {
        Self {
            number,
            _rest: [0; 2],
        }
    }
}

/// The classes of a queue, and the requests that come.
#[derive(Clone, Copy)]
pub struct Shape {
    pub classes: usize,
    pub wspt: bool,
    /// Of each request, where all quanta are 1; random, where this is none.
    pub cost: Option<u64>,
    /// Only the first and the last class have work.
    pub idle: bool,
}

impl Shape {
    pub fn new(classes: usize, wspt: bool) -> Self {
        Self {
            classes,
            wspt,
            cost: None,
            idle: false,
        }
    }

    pub fn quantum(&self, class: usize) -> u64 {
        match self.cost {
            Some(_) => 1,
            // The first and the last class have the same ones, however many there are.
            None if self.idle => 512,
            None => [512, 1024, 2048, 4096][class % 4],
        }
    }
}

/// Arrivals, a millisecond apart.
#[derive(Clone)]
pub struct Work {
    shape: Shape,
    random: Random,
    /// So far.
    pub arrivals: u64,
}

impl Work {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            random: Random(1),
            arrivals: 0,
        }
    }

    /// The next arrival, of this class or of one at random: its class, cost, and milliseconds of
    /// arrival, which each queue takes in its own unit.
    pub fn next(&mut self, class: Option<usize>) -> (usize, u64, u64) {
        let drawn = self.random.next();
        self.arrivals += 1;
        let Shape { classes, idle, .. } = self.shape;
        let class = class.unwrap_or_else(|| {
            let drawn = (drawn >> 32) as usize;
            if idle {
                drawn % 2 * (classes - 1)
            } else {
                drawn % classes
            }
        });
        let cost = self.shape.cost.unwrap_or(1 + drawn % 8192);
        (class, cost, self.arrivals)
    }
}

pub struct Ours {
    queue: Queue<Payload>,
    work: Work,
    places: Vec<Place>,
}

impl Ours {
    pub fn new(shape: Shape, queued: usize) -> Self {
        let class = |class| Class {
            quantum: shape.quantum(class),
            wspt: shape.wspt,
        };
        let mut this = Self {
            queue: Queue::new(&(0..shape.classes).map(class).collect::<Vec<_>>()),
            work: Work::new(shape),
            places: Vec::new(),
        };
        for _ in 0..queued {
            this.refill();
        }
        this
    }

    fn push(&mut self, class: Option<usize>) -> Place {
        let (class, cost, after) = self.work.next(class);
        let arrival = Arrival {
            class,
            cost,
            after: Duration::from_millis(after),
            worker: None,
        };
        let payload = Payload::new(self.work.arrivals);
        self.queue.push(arrival, payload, |_, _| true)
    }

    /// One leaves, another one of its class comes: the queues keep their lengths.
    pub fn decide(&mut self) {
        let class = self.serve();
        self.arrive(class);
    }

    /// The class of the one that leaves.
    pub fn serve(&mut self) -> usize {
        let (class, payload) = self.queue.serve(|_, _| true).expect("some wait");
        std::hint::black_box(payload.number);
        class
    }

    pub fn arrive(&mut self, class: usize) {
        self.push(Some(class));
    }

    /// One that waits anywhere.
    pub fn pick(&mut self, random: &mut Random) -> Place {
        self.places.swap_remove(random.below(self.places.len()))
    }

    pub fn remove(&mut self, place: Place) {
        let gone = self.queue.remove(place, |_, _| true);
        assert!(gone.is_some(), "it waited");
    }

    /// Another one comes, that may be picked.
    pub fn refill(&mut self) {
        let place = self.push(None);
        self.places.push(place);
    }
}
