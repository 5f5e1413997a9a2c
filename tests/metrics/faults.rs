//! Recorders that misbehave.

use std::sync::{Arc, Mutex};

use tower_policy_queue::PolicyQueueLayer;

use crate::{
    agree,
    common::desk::policy,
    hall,
    hall::{Hall, ONE_SLOT, chat},
    ledger::{Ledger, Value},
    series::POLICY,
};

/// Runs without the noise that panics make on purpose.
fn quietly<T>(run: impl FnOnce() -> T) -> T {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = run();
    std::panic::set_hook(hook);
    result
}

#[test]
fn a_recorder_that_panics_loses_that_number_and_no_request() {
    let (mut hall, ledger) = hall(&chat("", ONE_SLOT));
    ledger.interrupt(|series| {
        assert!(
            !series.starts_with("policy_queue_admitted_total"),
            "on purpose"
        );
    });
    quietly(|| {
        for id in ["a", "b", "c"] {
            hall.arrive(id);
        }
        assert_eq!(
            hall.states(["a", "b", "c"]),
            ["running", "waiting", "waiting"]
        );
        hall.leave("b");
        hall.finish("a");
        assert_eq!(hall.state("c"), "running", "the slot went on");
        hall.finish("c");
    });
    assert_eq!(hall.counts(), (0, 0));
    let labels = "{dominion=\"pool\",profile=\"\",class=\"chat\"}";
    let number = |name: &str| ledger.number(&format!("policy_queue_{name}{labels}"));
    assert_eq!(number("admitted_total"), 0.0, "lost");
    assert_eq!(
        (number("requests_total"), number("completed_total")),
        (3.0, 2.0),
        "what comes after it is not"
    );
    assert_eq!(
        ledger.number("policy_queue_slots_in_use{dominion=\"pool\"}"),
        0.0
    );
}

#[test]
fn a_recorder_that_panics_at_the_start_does_not_keep_a_layer_from_being_made() {
    let ledger = Ledger::default();
    ledger.interrupt(|_| panic!("on purpose"));
    let layer = quietly(|| ledger.during(|| PolicyQueueLayer::new(policy(POLICY))));
    ledger.interrupt(|_| {});
    // What could not be registered is tried again with the next number.
    let handle = layer.handle();
    ledger.during(|| handle.set_max_concurrency("pool", Some(3)).unwrap());
    assert!(
        ledger
            .values()
            .contains_key("policy_queue_slots{dominion=\"pool\"}")
    );
}

#[test]
fn a_recorder_may_use_the_layer_and_is_never_called_under_its_lock() {
    let (mut hall, ledger) = hall(&chat("", ONE_SLOT));
    let calls = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&calls);
    let handle = hall.handle.clone();
    // Each of these takes every lock there is; one that is held would be waited for without end.
    ledger.interrupt(move |_| {
        let _ = handle.snapshot();
        let _ = handle.drain_worker("nobody", true);
        let _ = handle.remove_worker("nobody");
        *seen.lock().unwrap() += 1;
    });
    hall.arrive("a");
    hall.arrive("b");
    hall.finish("a");
    hall.leave("b");
    hall.handle.set_max_queue("pool", 3).unwrap();
    hall.handle.set_max_concurrency("pool", Some(3)).unwrap();
    ledger.during(|| {
        let yaml = chat(
            "",
            "dominions: [{id: new, kind: remote, max_concurrency: 1}]",
        );
        hall.handle.reload(policy(&yaml)).unwrap();
        hall.handle.reload(policy(&chat("", ONE_SLOT))).unwrap();
    });
    hall.handle.shutdown();
    assert!(*calls.lock().unwrap() > 20);
}

#[test]
fn no_lock_is_held_while_a_handle_of_what_is_gone_is_dropped() {
    let pool = |classes: &str, enforce: bool| {
        let class = |name: &str| {
            format!("{{name: {name}, policy_family: {name}, cache_bucket: any, quantum: 100}}")
        };
        let classes: Vec<String> = classes.split(' ').map(class).collect();
        policy(&format!(
            "
default_policy_family: a
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes: [{}]
dominions: [{{id: pool, kind: remote, max_concurrency: 1, enforce: {enforce}}}]
endpoints: [{{id: w, dominion: pool}}]
",
            classes.join(", ")
        ))
    };
    let ledger = Ledger::default();
    let mut hall = ledger.during(|| Hall::around(&PolicyQueueLayer::new(pool("a b", false))));
    let handle = hall.handle.clone();
    let dropped = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&dropped);
    ledger.part(move |_| {
        let _ = handle.snapshot();
        let _ = handle.remove_worker("nobody");
        *seen.lock().unwrap() += 1;
    });
    ledger.during(|| {
        hall.arrive("1");
        hall.finish("1");
        // The shadow has had classes that there are no more, and a worker that is idle.
        hall.handle.reload(pool("a", false)).unwrap();
        hall.handle.reload(pool("a b", true)).unwrap();
        // What is closed promises nothing, so that nothing of a class is left to be told.
        hall.handle.close_dominion("pool").unwrap();
        hall.handle.reload(pool("a", true)).unwrap();
    });
    assert!(*dropped.lock().unwrap() > 20);
}

#[test]
fn layers_under_one_recorder_add_up() {
    let ledger = Ledger::default();
    let yaml = chat("", ONE_SLOT);
    let (mut one, mut two) = ledger.during(|| (hall::Hall::new(&yaml), hall::Hall::new(&yaml)));
    one.arrive("a");
    two.arrive("b");
    two.arrive("c");
    let in_use = "policy_queue_slots_in_use{dominion=\"pool\"}";
    let slots = "policy_queue_slots{dominion=\"pool\"}";
    assert_eq!((ledger.number(in_use), ledger.number(slots)), (2.0, 2.0));
    drop(two);
    assert_eq!((ledger.number(in_use), ledger.number(slots)), (1.0, 1.0));
    let came = "policy_queue_requests_total{dominion=\"pool\",profile=\"\",class=\"chat\"}";
    assert_eq!(ledger.values()[came], Value::Counter(3), "what was, was");
    drop(one);
    assert_eq!((ledger.number(in_use), ledger.number(slots)), (0.0, 0.0));
}

#[test]
fn without_a_recorder_the_layer_works_as_ever() {
    let mut hall = hall::Hall::new(&chat("", ONE_SLOT));
    hall.arrive("a");
    hall.finish("a");
    assert_eq!(hall.counts(), (0, 0));
    agree_with_nothing();
}

fn agree_with_nothing() {
    let ledger = Ledger::default();
    assert!(ledger.values().is_empty());
    let layer = ledger.during(|| PolicyQueueLayer::new(policy(&chat("", ONE_SLOT))));
    agree(&ledger, &layer.handle());
}
