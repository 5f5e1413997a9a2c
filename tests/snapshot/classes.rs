//! Counts, shares and estimates.

use tower_policy_queue::QueueHints;

use crate::{
    asks, class, gold_and_bulk,
    hall::{Hall, chat, hinted},
    look, pool,
};

const TWO_SLOTS: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 2, max_queue: 50}]";
const ONE_SLOT: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 500}]";

#[tokio::test(start_paused = true)]
async fn counts_follow_the_requests() {
    let mut hall = Hall::new(&gold_and_bulk(TWO_SLOTS));
    let empty = pool(&hall);
    assert_eq!((empty.slots, empty.in_use), (Some(2), 0));
    assert_eq!((empty.waiting, empty.max_queue), (0, Some(50)));
    assert_eq!((empty.oldest_wait_ms, empty.closed), (None, false));
    assert!(empty.waiters.is_empty());

    hall.hint("r1", asks("gold", 100));
    hall.hint("r2", asks("bulk", 50));
    let cached = QueueHints {
        cached_tokens: Some(100),
        ..asks("gold", 300)
    };
    hall.hint("g1", cached);
    hall.pass(500).await;
    hall.hint("b1", asks("bulk", 70));
    hall.pass(250).await;
    hall.hint("g2", asks("gold", 190));

    let parked = pool(&hall);
    assert_eq!((parked.in_use, parked.waiting), (2, 3));
    assert_eq!(parked.oldest_wait_ms, Some(750));
    assert_eq!((parked.burst, parked.cursor), (None, 0));
    let gold = class(&parked, "gold");
    assert_eq!((gold.quantum, gold.deficit), (400, 0));
    assert_eq!((gold.queued, gold.queued_tokens), (2, 490));
    assert_eq!(gold.queued_cached_tokens, 100);
    let bulk = class(&parked, "bulk");
    assert_eq!((bulk.quantum, bulk.deficit), (100, 0));
    assert_eq!((bulk.queued, bulk.queued_tokens), (1, 70));
    let waiters: Vec<_> = parked
        .waiters
        .iter()
        .map(|it| (it.position, &*it.class_name, it.cost, it.age_ms))
        .collect();
    assert_eq!(
        waiters,
        [
            (Some(1), "gold", 200, 750),
            (Some(2), "gold", 190, 0),
            (Some(3), "bulk", 70, 250),
        ]
    );

    hall.finish("r1");
    let served = pool(&hall);
    assert_eq!((served.in_use, served.waiting), (2, 2));
    assert_eq!(class(&served, "gold").deficit, 200, "a quantum less 200");
    assert_eq!((served.burst, served.cursor), (Some(0), 1));
    assert_eq!(served.oldest_wait_ms, Some(250), "g1 does not wait now");

    hall.finish("r2");
    let emptied = pool(&hall);
    assert_eq!(class(&emptied, "gold").deficit, 0, "it has no backlog");
    assert_eq!((emptied.burst, emptied.cursor), (None, 1));
    assert_eq!((emptied.in_use, emptied.waiting), (2, 1));

    hall.leave("b1");
    let left = pool(&hall);
    assert_eq!((left.in_use, left.waiting), (2, 0));
    assert_eq!(left.oldest_wait_ms, None);
    assert_eq!(class(&left, "bulk").queued_tokens, 0);
}

#[tokio::test(start_paused = true)]
async fn limits_are_those_of_now_and_the_unlimited_have_none() {
    let mut hall = Hall::new(&gold_and_bulk(TWO_SLOTS));
    hall.handle.set_max_concurrency("pool", Some(1)).unwrap();
    hall.handle.set_max_queue("pool", 7).unwrap();
    hall.arrive("1");
    let snapshot = look(&hall.handle);
    let [pool, nowhere] = &*snapshot.dominions else {
        panic!("the dominion and the place of the others");
    };
    assert_eq!(
        (pool.slots, pool.max_queue, pool.in_use),
        (Some(1), Some(7), 1)
    );
    assert_eq!(nowhere.id, None);
    assert_eq!(
        (nowhere.slots, nowhere.max_queue, nowhere.in_use),
        (None, None, 0)
    );
    assert_eq!(snapshot.usage, hall.handle.usage());

    hall.handle.close_dominion("pool").unwrap();
    let snapshot = look(&hall.handle);
    let closed: Vec<_> = snapshot.dominions.iter().map(|it| it.closed).collect();
    assert_eq!(closed, [true, false]);
    assert_eq!(snapshot.dominions[0].classes[0].estimated_wait_ms, None);
}

/// A hall whose slot is taken, with so many of each class behind it, all of 100 tokens.
fn backlogged(gold: usize, bulk: usize) -> Hall {
    let mut hall = Hall::new(&gold_and_bulk(ONE_SLOT));
    hall.hint("first", asks("bulk", 0));
    for (family, count) in [("gold", gold), ("bulk", bulk)] {
        for number in 0..count {
            hall.hint(&format!("{family}-{number}"), asks(family, 100));
        }
    }
    hall
}

impl Hall {
    /// The one that runs is done after so many milliseconds, and another one is next.
    async fn serve(&mut self, milliseconds: u64) {
        let running = self.scene.desk.started().pop().unwrap();
        self.pass(milliseconds).await;
        self.finish(&running);
    }
}

#[tokio::test(start_paused = true)]
async fn backlogged_classes_have_the_shares_that_their_quanta_promise() {
    let mut hall = backlogged(100, 100);
    for served in 1..=50_u32 {
        hall.serve(1000).await;
        let pool = pool(&hall);
        assert_eq!(pool.window_ms, u64::from(served) * 1000);
        let [gold, bulk] = &*pool.classes else {
            panic!("two classes");
        };
        assert_eq!((gold.promised_share, bulk.promised_share), (0.8, 0.2));
        let tokens = f64::from(served) * 100.0 + 1.0;
        assert!((gold.share + bulk.share - 1.0).abs() < 1e-9);
        assert!((pool.tokens_per_second * f64::from(served) - tokens).abs() < 1e-6);
        let of_bulk = bulk.tokens_per_second * f64::from(served);
        assert!((of_bulk - bulk.share * tokens).abs() < 1e-6);
        // In rounds, less the one token that ran before there was any backlog.
        let rounds = [
            gold.share * tokens / 400.0,
            (bulk.share * tokens - 1.0) / 100.0,
        ];
        let bound = 1.0 + 100.0 / 400.0 + 100.0 / 100.0;
        assert!((rounds[0] - rounds[1]).abs() <= bound, "{rounds:?}");
    }
    let pool = pool(&hall);
    assert!(
        (pool.classes[0].share - 0.8).abs() < 0.01,
        "{:?}",
        pool.classes[0].share
    );
}

#[tokio::test(start_paused = true)]
async fn shares_are_those_of_the_last_minute() {
    let mut hall = backlogged(0, 90);
    for _ in 0..90 {
        hall.serve(1000).await;
    }
    let bulk = pool(&hall);
    assert!(
        (60_000..65_000).contains(&bulk.window_ms),
        "{}",
        bulk.window_ms
    );
    assert_eq!((bulk.classes[0].share, bulk.classes[1].share), (0.0, 1.0));
    assert_eq!(bulk.tokens_per_second, 100.0);

    for number in 0..80 {
        hall.hint(&format!("late-{number}"), asks("gold", 100));
    }
    for _ in 0..70 {
        hall.serve(1000).await;
    }
    let gold = pool(&hall);
    assert!(
        (60_000..65_000).contains(&gold.window_ms),
        "{}",
        gold.window_ms
    );
    assert_eq!((gold.classes[0].share, gold.classes[1].share), (1.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_of_more_than_a_minute_the_shares_are_forgotten() {
    let mut hall = backlogged(20, 20);
    for _ in 0..23 {
        hall.serve(1000).await;
    }
    let busy = pool(&hall);
    assert!(busy.classes[0].share > 0.7);

    hall.pass(61_000).await;
    let pause = pool(&hall);
    assert_eq!(pause.window_ms, 61_000);
    assert_eq!((pause.classes[0].share, pause.classes[1].share), (0.0, 0.0));
    assert_eq!(pause.tokens_per_second, 0.0);
    assert_eq!(pause.classes[0].promised_share, 0.8, "they wait as before");
}

#[tokio::test(start_paused = true)]
async fn a_class_without_backlog_is_promised_what_it_would_get_if_it_came() {
    let hall = backlogged(0, 3);
    let pool = pool(&hall);
    assert_eq!(class(&pool, "gold").promised_share, 0.8);
    assert_eq!(class(&pool, "bulk").promised_share, 1.0, "it is alone");
}

fn estimates(hall: &Hall) -> [Option<u64>; 2] {
    let pool = pool(hall);
    ["gold", "bulk"].map(|name| class(&pool, name).estimated_wait_ms)
}

#[tokio::test(start_paused = true)]
async fn the_estimated_wait_grows_with_the_queue() {
    let mut hall = Hall::new(&gold_and_bulk(ONE_SLOT));
    assert_eq!(estimates(&hall), [Some(0); 2], "a slot is free");
    hall.hint("1", asks("gold", 100));
    assert_eq!(estimates(&hall), [None; 2], "nothing is known yet");
    hall.pass(2000).await;
    hall.finish("1");
    assert_eq!(estimates(&hall), [Some(0); 2], "it is free again");

    hall.hint("2", asks("gold", 100));
    assert_eq!(estimates(&hall), [Some(2000); 2], "as long as the last one");
    for number in 1..=20_u64 {
        hall.hint(&format!("g{number}"), asks("gold", 100));
        let [gold, bulk] = estimates(&hall).map(Option::unwrap);
        assert_eq!(
            gold,
            2000 * (number + 1),
            "those before it, and the one that runs"
        );
        assert!(
            bulk <= 2000 * (1 + 4),
            "it waits for four of gold at most: {bulk}"
        );
    }
    let before = estimates(&hall)[0];
    hall.handle.set_max_concurrency("pool", Some(2)).unwrap();
    assert!(
        estimates(&hall)[0] < before,
        "two are served at the same time"
    );
}

#[tokio::test(start_paused = true)]
async fn the_estimated_wait_is_not_nothing_while_the_workers_are_busy() {
    let rest = "
dominions: [{id: pool, kind: remote, max_concurrency: 4}]
endpoints: [{id: w, dominion: pool}]
";
    let mut hall = Hall::new(&chat("prefill_busy_threshold: 50", rest));
    let sized = |tokens| hinted("1", asks("chat", tokens));
    hall.send("1", sized(50));
    assert_eq!(pool(&hall).classes[0].estimated_wait_ms, Some(0));
    hall.finish("1");
    hall.send("1", sized(51));
    let busy = pool(&hall);
    assert_eq!(
        busy.classes[0].estimated_wait_ms, None,
        "it could not start, and none has waited"
    );
}
