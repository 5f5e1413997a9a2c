//! Why each request waits: a word and a sentence.

use tower_policy_queue::{DominionSnapshot, QueueHints};

use crate::{
    asks, costing, gold_and_bulk,
    hall::{Hall, pinned},
    pool,
};

const ONE_SLOT: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";

/// The word and the sentence of the waiter that costs this many tokens.
fn why(pool: &DominionSnapshot, cost: u64) -> (&'static str, String) {
    let why = &costing(pool, cost).why;
    (why.word(), why.to_string())
}

fn reason(word: &'static str, sentence: &str) -> (&'static str, String) {
    (word, sentence.to_owned())
}

fn at(worker: &str, policy: &str, tokens: u64) -> QueueHints {
    QueueHints {
        worker: Some(worker.to_owned()),
        ..asks(policy, tokens)
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_one_waits_for_a_slot_and_others_of_its_class_for_those_before() {
    let mut hall = Hall::new(&gold_and_bulk(ONE_SLOT));
    hall.hint("running", asks("gold", 1));
    for tokens in [11, 12, 13] {
        hall.hint(&format!("{tokens}"), asks("gold", tokens));
    }
    let pool = pool(&hall);
    assert_eq!(
        why(&pool, 11),
        reason("slot", "it is next; 1 of 1 slots are in use")
    );
    assert_eq!(
        why(&pool, 12),
        reason("order", "another one of its class goes first")
    );
    assert_eq!(why(&pool, 13), reason("order", "2 of its class go first"));
    let positions: Vec<_> = pool.waiters.iter().map(|it| it.position).collect();
    assert_eq!(positions, [Some(1), Some(2), Some(3)]);
}

#[tokio::test(start_paused = true)]
async fn more_slots_may_be_in_use_than_there_are() {
    let mut hall = Hall::new(&gold_and_bulk(&ONE_SLOT.replace(": 1}", ": 3}")));
    for id in ["1", "2", "3"] {
        hall.arrive(id);
    }
    hall.handle.set_max_concurrency("pool", Some(2)).unwrap();
    hall.hint("waiting", asks("gold", 10));
    assert_eq!(
        why(&pool(&hall), 10),
        reason("slot", "it is next; 3 of 2 slots are in use")
    );
}

#[tokio::test(start_paused = true)]
async fn the_head_of_another_class_waits_for_its_turn_with_its_deficit() {
    let mut hall = Hall::new(&gold_and_bulk(ONE_SLOT));
    hall.hint("running", asks("gold", 1));
    hall.hint("1", asks("bulk", 1500));
    hall.hint("2", asks("gold", 400));
    let pool_now = pool(&hall);
    assert_eq!(
        why(&pool_now, 400).0,
        "slot",
        "400 tokens are one of its rounds"
    );
    assert_eq!(
        why(&pool_now, 1500),
        reason(
            "class",
            "it is not its class's turn: a deficit of 0 tokens, of 1,500 that it costs"
        )
    );

    // Gold is served in a burst; bulk is credited a quantum in each round.
    for number in 3..12 {
        hall.hint(&format!("{number}"), asks("gold", 400));
    }
    for running in ["running", "2", "3"] {
        hall.finish(running);
    }
    assert_eq!(
        why(&pool(&hall), 1500),
        reason(
            "class",
            "it is not its class's turn: a deficit of 200 tokens, of 1,500 that it costs"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_class_in_debt_is_shown_as_such() {
    let charged =
        gold_and_bulk(ONE_SLOT).replace("quantum: 100", "quantum: 100, output_token_weight: 1.0");
    let mut hall = Hall::new(&charged);
    hall.hint("running", asks("gold", 1));
    hall.hint("bulk-1", asks("bulk", 90));
    hall.finish("running");
    let (mut body, feed) = hall.stream("bulk-1");
    hall.hint("bulk-2", asks("bulk", 90));
    hall.hint("gold", asks("gold", 400));
    feed.data(r#"{"usage": {"completion_tokens": 2345}}"#);
    feed.end();
    while let std::task::Poll::Ready(Some(frame)) = body.poll_frame() {
        frame.unwrap();
    }
    drop(body);
    hall.settle();
    let now = pool(&hall);
    assert_eq!(hall.state("gold"), "running");
    assert_eq!(now.classes[1].deficit, -2345, "it was not its turn since");
    assert_eq!(why(&now, 90).0, "slot", "nobody else waits");
    hall.hint("gold-2", asks("gold", 400));
    assert_eq!(
        why(&pool(&hall), 90),
        reason(
            "class",
            "it is not its class's turn: a deficit of -2,345 tokens, of 90 that it costs"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_the_turn_of_another() {
    let fair = ONE_SLOT.replace(": 1}", ": 1, fair_scheduling: true}");
    let mut hall = Hall::new(&gold_and_bulk(&fair));
    let of = |client: &str, tokens| QueueHints {
        client: Some(client.to_owned()),
        ..asks("gold", tokens)
    };
    hall.hint("running", of("ann", 1));
    hall.hint("1", of("ann", 11));
    hall.hint("2", of("ann", 12));
    hall.hint("3", of("bob", 13));
    let pool = pool(&hall);
    assert_eq!(why(&pool, 11).0, "slot");
    assert_eq!(
        why(&pool, 13),
        reason("client", "it is another client's turn")
    );
    assert_eq!(
        why(&pool, 12),
        reason("order", "2 of its class go first"),
        "it is behind its own client's first"
    );
}

const WORKERS: &str = "
default_policy_family: gold
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: gold, policy_family: gold, cache_bucket: any, quantum: 400, prefill_busy_threshold_frac: 1.5}
  - {name: bulk, policy_family: bulk, cache_bucket: any, quantum: 100, prefill_busy_threshold: 0, busy_worker_ratio: 0.6}
dominions: [{id: pool, kind: remote, max_concurrency: 9}]
endpoints:
  - {id: w1, dominion: pool, max_num_batched_tokens: 1024}
  - {id: w2, dominion: pool, max_num_batched_tokens: 1024}
  - {id: w3, dominion: pool, max_num_batched_tokens: 1024}
";

#[tokio::test(start_paused = true)]
async fn a_pinned_request_names_its_busy_worker() {
    let mut hall = Hall::new(WORKERS);
    hall.hint("running", at("w3", "gold", 1820));
    hall.hint("1", at("w3", "gold", 30));
    hall.hint("2", at("w3", "gold", 31));
    let pool_now = pool(&hall);
    assert_eq!(
        why(&pool_now, 30),
        reason(
            "busy",
            "its worker w3 is busy for this class: 1,820 > 1,536 tokens"
        )
    );
    assert_eq!(
        why(&pool_now, 31),
        reason("blocked", "it is behind a blocked head of its lane")
    );
    let lanes: Vec<_> = pool_now
        .waiters
        .iter()
        .map(|it| it.worker.as_deref())
        .collect();
    assert_eq!(lanes, [Some("w3"), Some("w3")]);
    assert!(pool_now.waiters.iter().all(|it| it.position.is_none()));
}

#[tokio::test(start_paused = true)]
async fn the_implicit_worker_has_no_name() {
    let yaml = gold_and_bulk(ONE_SLOT)
        .replace(": 1}", ": 9}")
        .replace("quantum: 400", "quantum: 400, prefill_busy_threshold: 5");
    let mut hall = Hall::new(&yaml);
    hall.hint("running", asks("gold", 6));
    hall.hint("waiting", asks("gold", 7));
    assert_eq!(
        why(&pool(&hall), 7),
        reason("busy", "its worker is busy for this class: 6 > 5 tokens")
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_for_any_worker_counts_the_busy_ones() {
    let mut hall = Hall::new(WORKERS);
    for worker in ["w1", "w2"] {
        hall.hint(worker, at(worker, "gold", 10));
    }
    hall.hint("any", asks("bulk", 30));
    let listed = QueueHints {
        allowed_workers: Some(vec!["w1".to_owned(), "w2".to_owned()]),
        ..asks("gold", 31)
    };
    hall.hint("listed", listed.clone());
    assert_eq!(
        hall.state("listed"),
        "running",
        "10 tokens are few for gold"
    );
    assert_eq!(
        why(&pool(&hall), 30),
        reason("busy", "2 of its 3 workers are busy for this class")
    );

    for (worker, tokens) in [("w1", 1600), ("w2", 1600)] {
        hall.hint(&format!("{worker}-full"), at(worker, "gold", tokens));
    }
    hall.hint(
        "full",
        QueueHints {
            raw_isl_tokens: Some(32),
            ..listed
        },
    );
    assert_eq!(
        why(&pool(&hall), 32),
        reason("busy", "2 of its 2 workers are busy for this class")
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_workers_take_none_says_so() {
    let mut hall = Hall::new(WORKERS);
    hall.hint("running", at("w1", "gold", 1600));
    hall.hint("waiting", at("w1", "gold", 30));
    let busy = why(&pool(&hall), 30);
    assert_eq!(busy.0, "busy");
    let closed = reason("closed", "none of its workers takes requests now");
    let handle = hall.handle.clone();
    handle.drain_worker("w1", true).unwrap();
    assert_eq!(why(&pool(&hall), 30), closed);
    handle.drain_worker("w1", false).unwrap();
    assert_eq!(why(&pool(&hall), 30), busy);
    handle.set_overloaded("w1", true).unwrap();
    assert_eq!(why(&pool(&hall), 30), closed);
    handle.set_overloaded("w1", false).unwrap();
    handle.set_taint("w1", "spot", true).unwrap();
    assert_eq!(why(&pool(&hall), 30), closed);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_head_leaves_other_lanes_alone() {
    let mut hall = Hall::new(WORKERS);
    for worker in ["w1", "w2", "w3"] {
        hall.hint(worker, at(worker, "gold", 1600));
    }
    for slot in 0..6 {
        hall.hint(
            &format!("slot-{slot}"),
            QueueHints {
                raw_isl_tokens: Some(0),
                ..pinned("w2")
            },
        );
    }
    let pool_now = pool(&hall);
    assert_eq!((pool_now.in_use, pool_now.waiting), (3, 6), "w2 is busy");
    // Of six in one lane one is its head.
    let words: Vec<_> = pool_now.waiters.iter().map(|it| it.why.word()).collect();
    assert_eq!(
        words,
        [
            "busy", "blocked", "blocked", "blocked", "blocked", "blocked"
        ]
    );
}
