//! What `snapshot()` says of a layer: each number beside what the test did.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;
// These tests use a part of it.
#[allow(dead_code)]
#[path = "../hyper/stage.rs"]
mod stage;

mod classes;
mod clients;
mod form;
mod order;
mod outcomes;
mod reasons;
mod rejections;
mod sum;
mod workers;

use tower_policy_queue::{
    ClassSnapshot, DominionSnapshot, PolicyQueueHandle, QueueHints, Snapshot, Totals,
    WaiterSnapshot,
};

use crate::hall::Hall;

/// Two classes, `gold` of four times the weight of `bulk`, and whatever else is to be in the policy.
fn gold_and_bulk(rest: &str) -> String {
    format!(
        "
default_policy_family: gold
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: gold, policy_family: gold, cache_bucket: any, quantum: 400}}
  - {{name: bulk, policy_family: bulk, cache_bucket: any, quantum: 100}}
{rest}
"
    )
}

/// Hints of a class's family and a length in tokens.
fn asks(policy: &str, tokens: u64) -> QueueHints {
    QueueHints {
        policy: Some(policy.to_owned()),
        raw_isl_tokens: Some(tokens),
        ..QueueHints::default()
    }
}

/// The layer as it is, in which no slot has ever been idle beside a request that could use it.
fn look(handle: &PolicyQueueHandle) -> Snapshot {
    let snapshot = handle.snapshot();
    for dominion in &snapshot.dominions {
        assert_eq!(dominion.idle_beside_waiter_ms, 0, "{:?}", dominion.id);
    }
    snapshot
}

/// The dominion called `pool`.
fn pool(hall: &Hall) -> DominionSnapshot {
    let dominions = look(&hall.handle).dominions;
    let pool = dominions
        .into_iter()
        .find(|dominion| dominion.id.as_deref() == Some("pool"));
    pool.unwrap()
}

fn class<'a>(pool: &'a DominionSnapshot, name: &str) -> &'a ClassSnapshot {
    let class = pool.classes.iter().find(|class| &*class.name == name);
    class.unwrap()
}

/// The waiter that costs this many tokens.
fn costing(pool: &DominionSnapshot, cost: u64) -> &WaiterSnapshot {
    let waiter = pool.waiters.iter().find(|waiter| waiter.cost == cost);
    waiter.unwrap_or_else(|| panic!("nobody waits who costs {cost}"))
}

/// The costs of those that are listed, which are names for them here.
fn costs(pool: &DominionSnapshot) -> Vec<u64> {
    pool.waiters.iter().map(|waiter| waiter.cost).collect()
}

/// The totals of all classes, former ones included.
fn totals(dominion: &DominionSnapshot) -> impl Iterator<Item = &Totals> {
    let classes = dominion.classes.iter().map(|class| &class.totals);
    classes.chain([&dominion.former_classes])
}

/// Checks that each request that came has one outcome, waits, or runs.
fn assert_that_it_adds_up(snapshot: &Snapshot) {
    let would_be = snapshot
        .dominions
        .iter()
        .filter_map(|it| it.would_be.as_deref());
    for dominion in snapshot.dominions.iter().chain(would_be) {
        let arrived: u64 = totals(dominion).map(|totals| totals.arrived).sum();
        let settled: u64 = totals(dominion).map(Totals::settled).sum();
        let in_hand = (dominion.waiting + dominion.in_use) as u64;
        assert_eq!(arrived, settled + in_hand, "{dominion:#?}");
        let queued: u64 = dominion.classes.iter().map(|class| class.queued).sum();
        assert_eq!(queued, dominion.waiting as u64);
    }
}

impl Hall {
    fn hint(&mut self, id: &str, hints: QueueHints) {
        self.send(id, hall::hinted(id, hints));
    }
}
