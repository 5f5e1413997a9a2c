//! The order of service that a snapshot tells, beside that in which requests are served.

use tower_policy_queue::QueueHints;

use crate::{
    asks, costs, gold_and_bulk,
    hall::{Hall, pinned},
    pool,
};

/// Numbers that look random and are the same in each run (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Classes of all kinds, none of which finds a worker busy.
fn random_policy(random: &mut Random) -> String {
    let classes = 1 + random.below(5);
    let class = |index: u64, random: &mut Random| {
        let quantum = 1 + random.below(300);
        let order = ["fcfs", "wspt"][random.below(2) as usize];
        format!(
            "  - {{name: c{index}, policy_family: c{index}, cache_bucket: any, quantum: {quantum}, queue_policy: {order}}}\n"
        )
    };
    let classes: String = (0..classes).map(|index| class(index, random)).collect();
    let fair = [
        ", fair_scheduling: false",
        ", fair_scheduling: true",
        ", fair_scheduling: true, fair_unit: tokens",
    ];
    let fair = fair[random.below(3) as usize];
    format!(
        "
default_policy_family: c0
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
{classes}
dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: 1000{fair}}}]
endpoints: [{{id: w0, dominion: pool}}, {{id: w1, dominion: pool}}, {{id: w2, dominion: pool}}]
"
    )
}

/// `cost` is unlike that of all others: it names the request.
fn random_hints(random: &mut Random, cost: u64) -> QueueHints {
    let worker = random.below(6);
    let client = random.below(5);
    QueueHints {
        client: (client > 0).then(|| format!("client-{client}")),
        strict_priority: Some(random.below(8).saturating_sub(5) as u32),
        priority_jump: Some(random.below(4) as f64),
        worker: (worker < 3).then(|| format!("w{worker}")),
        ..asks(&format!("c{}", random.below(5)), cost)
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_served_in_the_order_that_was_told() {
    let mut blocked = 0;
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut hall = Hall::new(&random_policy(&mut random));
        hall.hint("1000", asks("c0", 1000));
        let mut next_cost = 1001;
        let mut running = 1000_u64;
        for _ in 0..3 {
            for _ in 0..random.below(40) {
                hall.hint(
                    &format!("{next_cost}"),
                    random_hints(&mut random, next_cost),
                );
                next_cost += 1;
                hall.pass(random.below(900)).await;
            }
            // Those who wait for it alone go on waiting.
            let shut = format!("w{}", random.below(3));
            let shuts = random.below(3) == 0;
            if shuts {
                hall.handle.drain_worker(&shut, true).unwrap();
            }
            let told = pool(&hall);
            assert_eq!(
                told.waiters.len(),
                told.waiting,
                "few enough to tell them all"
            );
            let positions: Vec<_> = told.waiters.iter().map_while(|it| it.position).collect();
            assert_eq!(positions, (1..=positions.len()).collect::<Vec<_>>());
            assert!(
                told.waiters[positions.len()..]
                    .iter()
                    .all(|it| it.position.is_none())
            );
            blocked += told.waiting - positions.len();

            let order = &costs(&told)[..positions.len()];
            // Not all of them, so that the next ones come amid bursts and turns.
            let until = order.len() - random.below(1 + order.len() as u64 / 2) as usize;
            for (served, &next) in order[..until].iter().enumerate() {
                hall.finish(&running.to_string());
                assert!(
                    hall.scene.desk.has(&next.to_string()),
                    "seed {seed}: {served} of {order:?}"
                );
                running = next;
                let rest = costs(&pool(&hall));
                assert_eq!(rest[..order.len() - served - 1], order[served + 1..]);
            }
            if shuts {
                hall.handle.drain_worker(&shut, false).unwrap();
            }
        }
    }
    assert!(blocked > 100, "some were blocked: {blocked}");
}

#[tokio::test(start_paused = true)]
async fn only_the_next_ones_and_as_many_of_the_blocked_are_told() {
    let rest = "
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1000}]
endpoints: [{id: w0, dominion: pool}, {id: w1, dominion: pool}]
";
    let mut hall = Hall::new(&gold_and_bulk(rest));
    hall.hint("running", asks("gold", 1));
    for number in 0..150 {
        hall.hint(&format!("gold-{number}"), asks("gold", 1000 + number));
        hall.hint(&format!("bulk-{number}"), asks("bulk", 2000 + number));
        let pinned = QueueHints {
            raw_isl_tokens: Some(3000 + number),
            ..pinned("w1")
        };
        hall.hint(&format!("pinned-{number}"), pinned);
    }
    hall.handle.drain_worker("w1", true).unwrap();

    let whole = hall.handle.snapshot_of(usize::MAX).dominions.remove(0);
    assert_eq!((whole.waiting, whole.waiters_omitted), (450, 0));
    assert_eq!(whole.waiters.len(), 450);
    let (next, blocked) = whole.waiters.split_at(300);
    assert!(next.iter().all(|it| it.position.is_some()));
    assert!(blocked.iter().all(|it| it.position.is_none()));

    let told = pool(&hall);
    assert_eq!(told.waiters.len(), 200);
    assert_eq!(told.waiters_omitted, 250);
    assert_eq!(told.waiters[..100], next[..100]);
    assert_eq!(told.waiters[100..], blocked[..100]);
    let words: Vec<_> = blocked.iter().map(|it| it.why.word()).collect();
    assert_eq!(
        (words[0], words[1]),
        ("closed", "blocked"),
        "the head first"
    );

    for (limit, listed) in [(0, 0), (1, 2), (7, 14), (149, 298), (150, 300), (151, 301)] {
        let few = hall.handle.snapshot_of(limit).dominions.remove(0);
        assert_eq!(few.waiters.len(), listed, "of {limit}");
        assert_eq!(few.waiters_omitted, 450 - listed);
        let (least, of_the_blocked) = (limit.min(300), limit.min(150));
        assert_eq!(few.waiters[..least], next[..least]);
        assert_eq!(few.waiters[least..], blocked[..of_the_blocked]);
    }
}

#[tokio::test(start_paused = true)]
async fn looking_changes_nothing() {
    let mut orders = Vec::new();
    for looks in [true, false] {
        let mut random = Random(7);
        let mut hall = Hall::new(&random_policy(&mut random));
        hall.hint("999", asks("c0", 999));
        for cost in 1000..1100 {
            hall.hint(&cost.to_string(), random_hints(&mut random, cost));
        }
        let mut running = "999".to_owned();
        while hall.counts().1 > 0 {
            if looks {
                pool(&hall);
            }
            hall.finish(&running);
            running = hall.scene.desk.started().pop().unwrap();
            hall.pass(1).await;
        }
        orders.push(hall.scene.desk.started());
    }
    assert_eq!(orders[0].len(), 101);
    assert_eq!(orders[0], orders[1]);
}
