//! Workers: what they have, and what keeps requests from them.

use tower_policy_queue::{QueueHints, WorkerSnapshot, WorkerSpec};

use crate::{
    asks,
    common::feed::FedBody,
    gold_and_bulk,
    hall::{Hall, pinned},
    pool,
};

fn worker(hall: &Hall, id: &str) -> WorkerSnapshot {
    let workers = pool(hall).workers;
    let worker = workers.into_iter().find(|it| it.id.as_deref() == Some(id));
    worker.unwrap_or_else(|| panic!("no worker {id}"))
}

fn at(worker: &str, tokens: u64) -> QueueHints {
    QueueHints {
        raw_isl_tokens: Some(tokens),
        ..pinned(worker)
    }
}

const BUSY: &str = "
default_policy_family: strict
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: easy, policy_family: easy, cache_bucket: any, quantum: 1}
  - {name: strict, policy_family: strict, cache_bucket: any, quantum: 1, prefill_busy_threshold: 10}
  - {name: lax, policy_family: lax, cache_bucket: any, quantum: 1, prefill_busy_threshold_frac: 0.5}
dominions: [{id: pool, kind: remote, max_concurrency: 9}]
endpoints:
  - {id: a, dominion: pool, max_num_batched_tokens: 40}
  - {id: b, dominion: pool}
";

#[tokio::test(start_paused = true)]
async fn load_is_counted_until_the_first_byte_and_requests_until_the_last() {
    let mut hall = Hall::new(BUSY);
    hall.hint("1", at("a", 10));
    let idle = worker(&hall, "a");
    assert_eq!((idle.prefill_tokens, idle.in_flight), (10, 1));
    assert_eq!(idle.busy_for, [0; 0], "not more than any threshold");

    hall.hint("2", at("a", 1));
    assert_eq!(worker(&hall, "a").busy_for, [1], "more than 10");
    let easy = QueueHints {
        policy: Some("easy".to_owned()),
        ..at("a", 10)
    };
    hall.hint("3", easy);
    let busy = worker(&hall, "a");
    assert_eq!((busy.prefill_tokens, busy.in_flight), (21, 3));
    assert_eq!(busy.busy_for, [1, 2], "and more than half of 40");
    let other = worker(&hall, "b");
    assert_eq!((other.prefill_tokens, other.in_flight), (0, 0));

    let (mut body, feed) = hall.stream("1");
    feed.data("token");
    assert!(body.poll_frame().is_ready());
    let first_byte = worker(&hall, "a");
    assert_eq!((first_byte.prefill_tokens, first_byte.in_flight), (11, 3));
    assert_eq!(first_byte.busy_for, [1]);
    drop(body);
    hall.finish("2");
    hall.finish("3");
    let done = worker(&hall, "a");
    assert_eq!((done.prefill_tokens, done.in_flight), (0, 0));
    assert_eq!(done.busy_for, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn conditions_are_told_apart() {
    let hall = Hall::new(BUSY);
    let told = |hall: &Hall| {
        let it = worker(hall, "a");
        let taints: Vec<_> = it.taints.iter().map(ToString::to_string).collect();
        (
            it.draining,
            it.overloaded,
            it.unselected,
            it.removed,
            taints,
        )
    };
    let none = (false, false, false, false, vec![]);
    assert_eq!(told(&hall), none);
    let handle = hall.handle.clone();
    handle.drain_worker("a", true).unwrap();
    assert_eq!(told(&hall), (true, false, false, false, vec![]));
    handle.drain_worker("a", false).unwrap();
    handle.set_overloaded("a", true).unwrap();
    assert_eq!(told(&hall), (false, true, false, false, vec![]));
    handle.set_overloaded("a", false).unwrap();
    for taint in ["spot", "beta"] {
        handle.set_taint("a", taint, true).unwrap();
    }
    let tainted = vec!["beta".to_owned(), "spot".to_owned()];
    assert_eq!(told(&hall), (false, false, false, false, tainted));
    for taint in ["spot", "beta"] {
        handle.set_taint("a", taint, false).unwrap();
    }
    assert_eq!(told(&hall), none);
}

#[tokio::test(start_paused = true)]
async fn a_local_model_that_the_profile_leaves_out_is_unselected() {
    let hall = Hall::new(&gold_and_bulk(
        "
dominions: [{id: pool, kind: local, max_concurrency: 2}]
local_models: [{id: phi, dominion: pool}, {id: qwen, dominion: pool}]
profiles: [{name: day, models: [qwen]}, {name: night, models: [phi, qwen]}]
",
    ));
    let unselected = |hall: &Hall| ["phi", "qwen"].map(|id| worker(hall, id).unselected);
    assert_eq!(unselected(&hall), [false, false]);
    hall.handle.switch_profile("day").unwrap();
    assert_eq!(unselected(&hall), [true, false]);
    hall.handle.switch_profile("night").unwrap();
    assert_eq!(unselected(&hall), [false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_worker_is_shown_until_it_has_finished() {
    let mut hall = Hall::new(BUSY);
    hall.hint("1", at("a", 20));
    hall.handle.remove_worker("a").unwrap();
    let removed = worker(&hall, "a");
    assert!(removed.removed);
    assert_eq!((removed.prefill_tokens, removed.in_flight), (20, 1));
    hall.finish("1");
    let ids = |hall: &Hall| -> Vec<Option<String>> {
        let workers = pool(hall).workers.into_iter();
        workers.map(|it| it.id.map(|id| id.to_string())).collect()
    };
    assert_eq!(ids(&hall), [Some("b".to_owned())]);
    hall.handle.remove_worker("b").unwrap();
    assert!(ids(&hall).is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_worker_without_an_id_stands_for_all_until_one_is_added() {
    let mut hall = Hall::new(&gold_and_bulk(
        "dominions: [{id: pool, kind: remote, max_concurrency: 2}]",
    ));
    hall.hint("1", asks("gold", 5));
    let [implicit] = &*pool(&hall).workers else {
        panic!("one worker");
    };
    assert_eq!((implicit.id.as_deref(), implicit.in_flight), (None, 1));
    assert_eq!(implicit.prefill_tokens, 5);

    let spec = WorkerSpec::new("w").dominion("pool");
    hall.handle.add_worker(spec).unwrap();
    let [implicit, added] = &*pool(&hall).workers else {
        panic!("it has a request still");
    };
    assert_eq!((implicit.id.as_deref(), implicit.removed), (None, true));
    assert_eq!((added.id.as_deref(), added.in_flight), (Some("w"), 0));
    drop(hall.answer("1", FedBody::empty()));
    assert_eq!(pool(&hall).workers.len(), 1);
}
