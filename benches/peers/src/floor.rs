//! The schedule floor: decisions and cancellations beside Dynamo's, and what must not matter.

use std::time::Instant;

use crate::{
    dynamo::Dynamo,
    measure::{Caches, Random, each, medians, nanos},
    ours::{Ours, Shape},
    table::{Figure::*, Promise::*, Row},
};

pub fn decide() -> Vec<Row> {
    let mut rows = Vec::new();
    for queued in [1_000, 100_000] {
        for classes in [2, 16, 64] {
            for wspt in [false, true] {
                let shape = Shape::new(classes, wspt);
                let mut ours = Ours::new(shape, queued);
                let mut dynamo = Dynamo::new(shape, queued);
                let [a, b] = medians(
                    61,
                    [&mut || each(2000, || ours.decide()), &mut || {
                        each(2000, || dynamo.decide())
                    }],
                );
                let order = if wspt { "WSPT" } else { "FCFS" };
                let what = format!("decide, {queued} queued, {classes} classes, {order}");
                rows.push(
                    Row::new(what, Nanos(a))
                        .against("dynamo 1.6.1", Nanos(b))
                        .holds(RatioAtMost(1.0))
                        .holds(AtMost(Nanos(300.0))),
                );
            }
        }
    }
    rows
}

pub fn cancel() -> Vec<Row> {
    let lengths = [1_000, 100_000];
    let shape = Shape::new(16, false);
    let mut ours = lengths.map(|queued| Ours::new(shape, queued));
    let mut dynamo = lengths.map(|queued| Dynamo::new(shape, queued));
    let [short, long] = &mut ours;
    let [short_dynamo, long_dynamo] = &mut dynamo;
    let mut randoms = [2, 3, 4, 5].map(Random);
    let [r0, r1, r2, r3] = &mut randoms;
    let [a, b, c, d] = medians(
        61,
        [
            &mut || cancel_ours(short, r0),
            &mut || cancel_ours(long, r1),
            &mut || cancel_dynamo(short_dynamo, r2),
            &mut || cancel_dynamo(long_dynamo, r3),
        ],
    );
    let mut caches = [(); 2].map(|()| Caches::default());
    let [c0, c1] = &mut caches;
    let [cold_short, cold_long] = medians(
        41,
        [
            &mut || {
                c0.empty();
                cancel_ours(short, r0)
            },
            &mut || {
                c1.empty();
                cancel_ours(long, r1)
            },
        ],
    );
    vec![
        Row::new("cancel at a random place, 1000 queued", Nanos(a))
            .against("dynamo retain", Nanos(c)),
        Row::new("cancel at a random place, 100000 queued", Nanos(b))
            .against("dynamo retain", Nanos(d))
            .holds(AtMost(Nanos(1000.0))),
        Row::new("  the same", Nanos(b))
            .against("itself, 1000 queued", Nanos(a))
            .holds(RatioAtMost(3.0)),
        Row::new("  the same, cold", Nanos(cold_long))
            .against("itself, 1000 queued, cold", Nanos(cold_short))
            .holds(RatioAtMost(3.0)),
    ]
}

fn cancel_ours(queue: &mut Ours, random: &mut Random) -> f64 {
    const TIMES: usize = 200;
    let places: Vec<_> = (0..TIMES).map(|_| queue.pick(random)).collect();
    let start = Instant::now();
    for place in places {
        queue.remove(place);
    }
    let spent = nanos(start) / TIMES as f64;
    (0..TIMES).for_each(|_| queue.refill());
    spent
}

fn cancel_dynamo(queue: &mut Dynamo, random: &mut Random) -> f64 {
    let number = queue.pick(random);
    let start = Instant::now();
    queue.remove(number);
    let spent = nanos(start);
    queue.refill();
    spent
}

pub fn costs() -> Vec<Row> {
    let mut rows = Vec::new();
    for classes in [2, 16] {
        let costs = [1, 1 << 10, 1 << 20, 1 << 40].map(|cost| {
            let shape = Shape {
                cost: Some(cost),
                ..Shape::new(classes, false)
            };
            Ours::new(shape, 2_000)
        });
        flat(&mut rows, costs, ["2^10", "2^20", "2^40"], |power| {
            let what = format!("arbitration, {classes} classes, cost of {power} quanta");
            (what, "itself, 1 quantum".to_owned(), 1.2)
        });
    }
    rows
}

pub fn classes() -> Vec<Row> {
    let queues = [2, 16, 128, 1024].map(|classes| {
        let shape = Shape {
            idle: true,
            ..Shape::new(classes, false)
        };
        Ours::new(shape, 2_000)
    });
    let mut rows = Vec::new();
    flat(&mut rows, queues, ["16", "128", "1024"], |classes| {
        let what = format!("arbitration, {classes} classes of which 2 have work");
        (what, "itself, 2 classes".to_owned(), 2.0)
    });
    rows
}

/// Arbitration alone in four queues, the last three compared with the first.
fn flat(
    rows: &mut Vec<Row>,
    mut queues: [Ours; 4],
    names: [&str; 3],
    describe: impl Fn(&str) -> (String, String, f64),
) {
    let [a, b, c, d] = &mut queues;
    let [base, others @ ..] = medians(
        101,
        [
            &mut || arbitrate(a),
            &mut || arbitrate(b),
            &mut || arbitrate(c),
            &mut || arbitrate(d),
        ],
    );
    for (name, other) in names.into_iter().zip(others) {
        let (what, against, limit) = describe(name);
        rows.push(
            Row::new(what, Nanos(other))
                .against(against, Nanos(base))
                .holds(RatioAtMost(limit)),
        );
    }
}

/// Nanoseconds for one decision, without the arrivals that fill the queue again.
fn arbitrate(queue: &mut Ours) -> f64 {
    const TIMES: usize = 500;
    let mut served = Vec::with_capacity(TIMES);
    let spent = each(TIMES, || served.push(queue.serve()));
    served.into_iter().for_each(|class| queue.arrive(class));
    spent
}
