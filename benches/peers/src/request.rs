//! One request through the layer: time, on one thread and on two, and allocations.

use std::{convert::Infallible, sync::Barrier, thread, time::Instant};

use http::{Request, Response};
use http_body::Body;
use tower::Service;

use crate::{
    alloc::counted,
    measure::{each, medians, nanos},
    one::{self, Noop, RequestBody, marking},
    table::{Figure::*, Promise::*, Row},
};

pub fn rows() -> Vec<Row> {
    let (mut ours, mut towers, mut bare) = (one::ours(), one::towers(), Noop);
    let [a, b, c] = medians(
        401,
        [
            &mut || each(500, || one::request(&mut ours)),
            &mut || each(500, || one::request(&mut towers)),
            &mut || each(500, || one::request(&mut bare)),
        ],
    );
    let mut rows = vec![
        Row::new("one request, free slot, to the end of its body", Nanos(a))
            .against("ConcurrencyLimit", Nanos(b))
            .holds(RatioAtMost(2.0)),
        Row::new("  the same less the service without a layer", Nanos(a - c))
            .against("ConcurrencyLimit", Nanos(b - c)),
    ];

    const TIMES: u64 = 10_000;
    let allocations = |request: &mut dyn FnMut()| {
        let ((), calls, _) = counted(|| (0..TIMES).for_each(|_| request()));
        calls as f64 / TIMES as f64
    };
    let calls = allocations(&mut || one::request(&mut ours));
    rows.push(Row::new("  its allocations", Allocations(calls)).holds(AtMost(Allocations(3.0))));

    let mut marked_ours = one::ours_around(marking());
    let (mut marked_towers, mut marked_bare) = (one::towers_around(marking()), marking());
    let [a, b] = medians(
        401,
        [
            &mut || each(500, || one::marked_request(&mut marked_ours)),
            &mut || each(500, || one::marked_request(&mut marked_towers)),
        ],
    );
    rows.push(
        Row::new("the same, messages that have extensions already", Nanos(a))
            .against("ConcurrencyLimit", Nanos(b)),
    );
    let with = allocations(&mut || one::marked_request(&mut marked_ours));
    let without = allocations(&mut || one::marked_request(&mut marked_bare));
    rows.push(
        Row::new(
            "  its allocations beyond those of the service",
            Allocations(with - without),
        )
        .holds(AtMost(Allocations(3.0))),
    );

    let [a, b] = medians(
        101,
        [&mut || hammer(&ours, 2, 5000), &mut || {
            hammer(&towers, 2, 5000)
        }],
    );
    rows.push(
        Row::new("the same, 2 threads on one dominion", Nanos(a))
            .against("ConcurrencyLimit", Nanos(b))
            .holds(RatioAtMost(2.0)),
    );
    rows
}

/// Nanoseconds for one request on one of the threads, all of which send as fast as they can.
fn hammer<S, B>(service: &S, threads: usize, times: usize) -> f64
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send,
    B: Body,
{
    let (start, end) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    thread::scope(|scope| {
        for _ in 0..threads {
            let mut service = service.clone();
            let (start, end) = (&start, &end);
            scope.spawn(move || {
                start.wait();
                (0..times).for_each(|_| one::request(&mut service));
                end.wait();
            });
        }
        start.wait();
        let since = Instant::now();
        end.wait();
        nanos(since) / times as f64
    })
}
