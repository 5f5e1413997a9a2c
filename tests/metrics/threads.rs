//! Several threads at once: nothing they change goes untold.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use futures::FutureExt;
use tower::{Layer, Service};
use tower_policy_queue::{PolicyQueueLayer, QueueHints};

use crate::{
    agree,
    common::{
        bell::Polled,
        desk::{Desk, policy},
        feed::FedBody,
    },
    hall::hinted,
    ledger::{Ledger, Value},
    series::POLICY,
};

const THREADS: usize = 4;
const ROUNDS: usize = 400;

fn work(layer: &PolicyQueueLayer, thread: usize) {
    let desk = Desk::default();
    let mut service = layer.layer(desk.clone());
    for round in 0..ROUNDS {
        let id = format!("{thread}-{round}");
        let hints = QueueHints {
            policy: Some(["chat", "batch"][round % 2].to_owned()),
            raw_isl_tokens: Some((round % 7) as u64 * 40),
            ..QueueHints::default()
        };
        let mut polled = Polled::new(service.call(hinted(&id, hints)));
        if round % 5 == 0 {
            // Leaves, granted, queued or turned away.
            continue;
        }
        let _ = polled.poll();
        if round % 3 == 0 {
            thread::yield_now();
        }
        if polled.rings() > 0 {
            let _ = polled.poll();
        }
        if desk.has(&id) && round % 2 == 0 {
            desk.answer(&id, FedBody::empty());
            assert!(polled.inner.as_mut().now_or_never().is_some());
        }
    }
}

#[test]
fn what_several_threads_change_at_once_is_all_told_in_the_end() {
    let ledger = Ledger::default();
    let layer = ledger.during(|| PolicyQueueLayer::new(policy(POLICY)));
    let handle = layer.handle();
    // Fewer places than threads.
    handle.set_max_queue("pool", 1).unwrap();
    let start = Arc::new(Barrier::new(THREADS));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (layer, start) = (layer.clone(), Arc::clone(&start));
            scope.spawn(move || {
                start.wait();
                work(&layer, thread);
            });
        }
    });
    agree(&ledger, &handle);
    let totals = &handle.snapshot().dominions[0].classes[0].totals;
    assert!(totals.completed > 0 && totals.rejected.total() > 0);
    assert_eq!(handle.usage().slots_in_use, 0);
}

#[test]
fn a_recorder_that_dawdles_holds_up_nobody_else_and_loses_nothing() {
    let ledger = Ledger::default();
    let layer = ledger.during(|| PolicyQueueLayer::new(policy(POLICY)));
    // One thread is stopped inside the recorder while another works.
    let (inside, done) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let stopped = AtomicBool::new(false);
    ledger.interrupt({
        let (inside, done) = (Arc::clone(&inside), Arc::clone(&done));
        move |_| {
            let slow = thread::current().name() == Some("slow");
            if slow && !stopped.swap(true, Ordering::SeqCst) {
                inside.wait();
                done.wait();
            }
        }
    });
    thread::scope(|scope| {
        let mut slow = layer.layer(Desk::default());
        let arrive = move || drop(slow.call(hinted("slow", QueueHints::default())));
        let builder = thread::Builder::new().name("slow".to_owned());
        builder.spawn_scoped(scope, arrive).unwrap();
        inside.wait();
        work(&layer, 0);
        done.wait();
    });
    agree(&ledger, &layer.handle());
}

#[test]
fn counters_never_go_backwards() {
    let ledger = Ledger::default();
    let layer = ledger.during(|| PolicyQueueLayer::new(policy(POLICY)));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|thread| {
                let layer = layer.clone();
                scope.spawn(move || work(&layer, thread))
            })
            .collect();
        let mut before = ledger.values();
        while workers.iter().any(|worker| !worker.is_finished()) {
            let now = ledger.values();
            for (series, value) in &now {
                if let (Value::Counter(now), Some(Value::Counter(before))) =
                    (value, before.get(series))
                {
                    assert!(now >= before, "{series}: {now} after {before}");
                }
            }
            before = now;
        }
    });
}
