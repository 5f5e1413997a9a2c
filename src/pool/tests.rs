//! A dominion under random operations, with a recount after each.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use proptest::prelude::*;

use self::visits::Visitor;
use super::*;
use crate::{config, schedule::deterministic};

mod turnover;
mod visits;

const POLICY: &str = "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: a, policy_family: a, cache_bucket: all, quantum: 7, prefill_busy_threshold: 12}
  - {name: b, policy_family: b, cache_bucket: all, quantum: 3, queue_policy: wspt, prefill_busy_threshold_frac: 0.5, busy_worker_ratio: 0.6}
  - {name: c, policy_family: c, cache_bucket: all, quantum: 100, max_hold_ms: 20, max_queue_wait_ms: 50}
dominions:
  - {id: pool, kind: remote, max_concurrency: 3, max_queue: 12}
endpoints:
  - {id: w0, dominion: pool, max_num_batched_tokens: 20, models: [m, n]}
  - {id: w1, dominion: pool, max_num_batched_tokens: 40, models: [m]}
  - {id: w2, dominion: pool, models: [n]}
";

/// Policies that follow one another: classes change their order, their rules and their neighbours,
/// workers come and go.
const OTHERS: [&str; 5] = [
    "
default_policy_family: c
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: d, policy_family: d, cache_bucket: all, quantum: 5}
  - {name: c, policy_family: c, cache_bucket: all, quantum: 1, queue_policy: wspt, prefill_busy_threshold: 9}
  - {name: a, policy_family: a, cache_bucket: all, quantum: 70, max_hold_ms: 10}
dominions:
  - {id: other, kind: remote}
  - {id: pool, kind: remote, max_concurrency: 2, max_queue: 3, max_queue_per_client: 2, fair_unit: tokens}
endpoints:
  - {id: w2, dominion: pool, max_num_batched_tokens: 4, models: [m]}
  - {id: w3, dominion: pool, models: [n]}
",
    "
default_policy_family: b
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: b, policy_family: b, cache_bucket: all, quantum: 4, prefill_busy_threshold: 30}
dominions:
  - {id: pool, kind: remote, max_concurrency: 5, max_queue: 30, fair_scheduling: false}
",
    POLICY,
    "
default_policy_family: b
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: d, policy_family: d, cache_bucket: all, quantum: 5, max_hold_ms: 15}
  - {name: b, policy_family: b, cache_bucket: all, quantum: 4, prefill_busy_threshold: 9, max_queue_wait_ms: 20}
  - {name: a, policy_family: a, cache_bucket: all, quantum: 9, queue_policy: wspt, max_hold_ms: 10, prefill_busy_threshold: 20, busy_worker_ratio: 0.4}
dominions:
  - {id: pool, kind: remote, max_concurrency: 2, max_queue: 9, enforce: false}
endpoints:
  - {id: w1, dominion: pool, max_num_batched_tokens: 4, models: [m]}
  - {id: w0, dominion: pool, models: [n]}
",
    "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: c, policy_family: c, cache_bucket: all, quantum: 1, max_hold_ms: 7}
  - {name: a, policy_family: a, cache_bucket: all, quantum: 9, prefill_busy_threshold: 10}
dominions:
  - {id: pool, kind: remote, max_concurrency: 1, max_queue: 9, enforce: false, max_queue_per_client: 1}
",
];

#[derive(Clone, Debug)]
enum Operation {
    Arrive(Fields),
    /// A parked request's future is polled.
    Poll(usize),
    /// A parked request's future is dropped, whether or not it was granted.
    Leave(usize),
    FirstByte(usize),
    Finish(usize),
    Hold(usize),
    LetGo(usize),
    /// A running request sends another one, for this worker or, if there is none, for one of a list.
    CallBack(usize, Option<&'static str>, u64),
    /// The first byte of a request that was sent so, and runs at another worker, has come.
    VisitorsByte(usize),
    /// Such a request ends.
    VisitorLeaves(usize),
    /// A running request checks whether it may go on.
    Look(usize),
    /// Milliseconds pass, without anybody being polled for it.
    Pass(u64),
    AddWorker(&'static str, Option<&'static str>, bool),
    RemoveWorker(&'static str),
    /// Many workers come and go.
    TurnOver,
    /// A worker is drained, overloaded or tainted, by the number, or is so no longer.
    SetCondition(&'static str, u8, bool),
    SetSlots(Option<usize>),
    SetQueue(usize),
    /// A running request's slot is taken back, if it can be.
    Revoke(usize),
    Switch(Vec<&'static str>),
    Reload(usize),
}

#[derive(Clone, Debug)]
struct Fields {
    class: usize,
    raw: u64,
    cached: u64,
    tier: u32,
    client: u8,
    model: Option<&'static str>,
    worker: Option<&'static str>,
    allowed: Option<Vec<&'static str>>,
    tolerates: bool,
    wait: Option<u64>,
    preferred: Option<&'static str>,
}

fn worker() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["w0", "w1", "w2", "w3", "w4"])
}

fn operation() -> impl Strategy<Value = Operation> {
    let fields = (
        (0..3usize, 0..30u64, 0..10u64, 0..2u32, 0..40u8),
        prop::option::of(prop::sample::select(vec!["m", "n", "unknown"])),
        prop::option::weighted(0.3, worker()),
        prop::option::weighted(0.2, prop::collection::vec(worker(), 0..3)),
        (
            any::<bool>(),
            prop::option::weighted(0.3, 0..40u64),
            prop::option::weighted(0.3, worker()),
        ),
    );
    let fields = fields.prop_map(|(numbers, model, worker, allowed, others)| {
        let (class, raw, cached, tier, client) = numbers;
        let (tolerates, wait, preferred) = others;
        Operation::Arrive(Fields {
            class,
            raw,
            cached,
            tier,
            client,
            model,
            worker,
            allowed,
            tolerates,
            wait,
            preferred,
        })
    });
    let which = any::<usize>;
    let model = prop::option::of(prop::sample::select(vec!["m", "n"]));
    prop_oneof![
        6 => fields,
        3 => which().prop_map(Operation::Poll),
        2 => which().prop_map(Operation::Leave),
        2 => which().prop_map(Operation::FirstByte),
        3 => which().prop_map(Operation::Finish),
        1 => which().prop_map(Operation::Hold),
        1 => which().prop_map(Operation::LetGo),
        2 => (which(), prop::option::of(worker()), 0..20u64)
            .prop_map(|(which, worker, tokens)| Operation::CallBack(which, worker, tokens)),
        1 => which().prop_map(Operation::VisitorsByte),
        2 => which().prop_map(Operation::VisitorLeaves),
        2 => which().prop_map(Operation::Look),
        2 => (0..30u64).prop_map(Operation::Pass),
        1 => (worker(), model, any::<bool>())
            .prop_map(|(id, model, local)| Operation::AddWorker(id, model, local)),
        1 => worker().prop_map(Operation::RemoveWorker),
        1 => Just(Operation::TurnOver),
        3 => (worker(), 0..3u8, any::<bool>())
            .prop_map(|(id, which, on)| Operation::SetCondition(id, which, on)),
        1 => prop::option::weighted(0.9, 1..6usize).prop_map(Operation::SetSlots),
        1 => (1..16usize).prop_map(Operation::SetQueue),
        1 => which().prop_map(Operation::Revoke),
        1 => prop::collection::vec(worker(), 0..5).prop_map(Operation::Switch),
        1 => (0..OTHERS.len()).prop_map(Operation::Reload),
    ]
}

#[derive(Debug)]
struct Running {
    permit: Permit,
    first_byte: bool,
}

#[derive(Debug, Default)]
struct World {
    parked: Vec<(Fields, Ticket)>,
    running: Vec<Running>,
    /// Holds, which may keep a slot after its request is over.
    held: Vec<Share>,
    visitors: Vec<Visitor>,
    /// How many slots were in use when they were last counted.
    in_use: usize,
    /// Whether some policy did without fair scheduling: those who waited then have lost their labels.
    relabelled: bool,
    /// How many workers have come and gone under names of their own.
    strangers: usize,
}

/// True if the slot was taken back.
fn is_revoked(grant: &Grant) -> bool {
    let revocation = grant.revocation.as_ref();
    revocation.is_some_and(|revocation| revocation.reason().is_some())
}

fn pick(which: usize, length: usize) -> Option<usize> {
    (length > 0).then(|| which % length)
}

impl World {
    fn apply(&mut self, pool: &mut Arc<Pool>, operation: Operation) {
        match operation {
            Operation::Arrive(fields) => self.arrive(pool, fields),
            Operation::Poll(which) => {
                let Some(index) = pick(which, self.parked.len()) else {
                    return;
                };
                let mut cx = Context::from_waker(Waker::noop());
                if let Poll::Ready(answer) = self.parked[index].1.poll_granted(&mut cx) {
                    self.running.extend(answer.ok().map(|permit| Running {
                        permit,
                        first_byte: false,
                    }));
                    self.parked.remove(index);
                }
            }
            Operation::Leave(which) => {
                if let Some(index) = pick(which, self.parked.len()) {
                    self.parked.remove(index);
                }
            }
            Operation::FirstByte(which) => {
                if let Some(index) = pick(which, self.running.len()) {
                    self.running[index].permit.end_prefill();
                    self.running[index].first_byte = true;
                }
            }
            Operation::Finish(which) => {
                if let Some(index) = pick(which, self.running.len()) {
                    self.running.remove(index);
                }
            }
            Operation::Hold(which) => {
                if let Some(index) = pick(which, self.running.len()) {
                    let grant = Arc::clone(self.running[index].permit.grant());
                    let share = grant.share();
                    assert_eq!(share.is_none(), is_revoked(&grant), "what can be held");
                    self.held.extend(share);
                }
            }
            Operation::LetGo(which) => {
                if let Some(index) = pick(which, self.held.len()) {
                    self.held.remove(index);
                }
            }
            Operation::CallBack(which, worker, tokens) => {
                let index = pick(which, self.running.len());
                let share = index.and_then(|index| self.running[index].permit.grant().share());
                let visitor = share.and_then(|share| Visitor::on(share, worker, tokens));
                self.visitors.extend(visitor);
            }
            Operation::VisitorsByte(which) => {
                if let Some(index) = pick(which, self.visitors.len()) {
                    self.visitors[index].first_byte();
                }
            }
            Operation::VisitorLeaves(which) => {
                if let Some(index) = pick(which, self.visitors.len()) {
                    self.visitors.remove(index);
                }
            }
            Operation::Look(which) => {
                if let Some(index) = pick(which, self.running.len()) {
                    let mut cx = Context::from_waker(Waker::noop());
                    if self.running[index].permit.poll_revoked(&mut cx).is_ready() {
                        self.running.remove(index);
                    }
                }
            }
            Operation::Pass(milliseconds) => {
                tokio::runtime::Handle::current()
                    .block_on(tokio::time::advance(Duration::from_millis(milliseconds)));
            }
            Operation::AddWorker(id, model, local) => {
                let known = pool.lock().workers.index(id).is_some();
                if !known {
                    let models = model.as_slice();
                    pool.add_worker(fixtures::worker(id, models, local))
                        .wake_all();
                }
            }
            Operation::TurnOver => self.turn_over(pool),
            Operation::RemoveWorker(id) => pool.remove_worker(id).1.wake_all(),
            Operation::SetCondition(id, which, on) => pool.set_condition(id, |it| match which {
                0 => it.draining = on,
                1 => it.overloaded = on,
                _ if on => {
                    it.taints.insert("taint".into());
                }
                _ => {
                    it.taints.remove("taint");
                }
            }),
            Operation::SetSlots(slots) => pool.set_max_concurrency(slots),
            Operation::SetQueue(length) => pool.set_max_queue(length),
            Operation::Revoke(which) => {
                if let Some(index) = pick(which, self.running.len()) {
                    let grant = Arc::clone(self.running[index].permit.grant());
                    pool.revoke(&grant, Revoked::HoldExpired);
                }
            }
            Operation::Reload(which) => self.reload(pool, which),
            Operation::Switch(models) => {
                let models: HashSet<&str> = models.into_iter().collect();
                pool.switch_profile(&models).settle();
                let state = pool.lock();
                let unloaded = |running: &&Running| {
                    let worker = running.permit.grant().assigned.index;
                    state.workers.is_unselected(worker)
                };
                assert!(
                    self.running
                        .iter()
                        .filter(unloaded)
                        .all(|running| is_revoked(running.permit.grant())),
                    "nobody runs on a model that is not loaded"
                );
            }
        }
    }

    fn reload(&mut self, pool: &mut Arc<Pool>, which: usize) {
        let policy: PolicyConfig = OTHERS[which].parse().unwrap();
        let dominion = policy.dominions.iter().position(|it| &*it.id == "pool");
        let here = |worker: &&Arc<config::Worker>| worker.dominion == dominion;
        let workers: Vec<_> = policy.workers.iter().filter(here).cloned().collect();
        let stale = Arc::clone(pool);
        let (next, wakes) = pool.reload(&Arc::new(policy), dominion, &workers, None);
        wakes.wake_all();
        *pool = next;
        self.relabelled |= which == 1;
        for (fields, _) in &mut self.parked {
            let class = ["a", "b", "c", "d"][fields.class];
            if pool.policy.class_index(None, class).is_none() {
                // It asked for no particular class.
                let default = &pool.policy.classes[pool.policy.class_of(None, None, 0)];
                fields.class = ["a", "b", "c", "d"]
                    .iter()
                    .position(|name| **name == *default.name)
                    .unwrap();
            }
        }
        // A request that was classified by the old policy is not let in by it.
        let late = stale.enter(&fixtures::arrival(0, 1, 0));
        assert!(matches!(late, Entrance::TurnedAway(Refusal::Reloaded)));
    }

    fn arrive(&mut self, pool: &Arc<Pool>, mut fields: Fields) {
        let class = pool
            .policy
            .class_index(None, ["a", "b", "c", "d"][fields.class]);
        let class = class.unwrap_or_else(|| pool.policy.class_of(None, None, 0));
        let name = &pool.policy.classes[class].name;
        fields.class = ["a", "b", "c", "d"]
            .iter()
            .position(|known| **known == **name)
            .unwrap();
        let client = format!("client-{}", fields.client);
        let tolerations = ["taint".to_owned()];
        let entrance = pool.enter(&Arrival {
            class,
            snapshot: Snapshot::new(fields.raw, fields.cached),
            strict_priority: fields.tier,
            priority_jump: 0.0,
            client: Some(&client),
            hint: None,
            wanted: Wanted {
                model: fields.model,
                worker: fields.worker,
                allowed_workers: fields.allowed.as_deref(),
                tolerations: if fields.tolerates { &tolerations } else { &[] },
                preferred: fields.preferred,
            },
            max_queue_wait: fields.wait.map(Duration::from_millis),
        });
        match entrance {
            Entrance::Admitted(permit) => self.running.push(Running {
                permit,
                first_byte: false,
            }),
            Entrance::Parked(ticket) => self.parked.push((fields, ticket)),
            Entrance::TurnedAway(_) => {}
        }
    }

    /// Recounts what the pool keeps count of.
    fn recount(&mut self, pool: &Pool) {
        let state = pool.lock();
        let audit = state.audit();
        self.check_names(&state);

        let refused = |ticket: &Ticket| audit.refused.contains(&ticket.waiter());
        let (granted, queued): (Vec<_>, Vec<_>) = self
            .parked
            .iter()
            .filter(|(_, ticket)| !refused(ticket))
            .partition(|(_, ticket)| audit.granted.contains_key(&ticket.waiter()));
        assert_eq!(audit.queued, queued.len(), "who waits");
        assert_eq!(
            audit.granted.len(),
            granted.len(),
            "who was granted and does not know it"
        );

        let running = self.running.iter().map(|running| running.permit.grant());
        let shared = self.visitors.iter().map(|visitor| &visitor.share);
        let held = self.held.iter().chain(shared).map(Share::grant);
        let slots: BTreeMap<*const Grant, u32> = running
            .chain(held)
            .filter(|grant| !is_revoked(grant))
            .map(|grant| (Arc::as_ptr(grant), grant.assigned.index))
            .collect();
        let mut in_flight = vec![0; audit.in_flight.len()];
        let workers = slots.values().chain(audit.granted.values());
        workers.for_each(|&worker| in_flight[worker as usize] += 1);
        assert_eq!(audit.in_use, slots.len() + granted.len(), "slots in use");
        let slots = state.max_concurrency.unwrap_or(usize::MAX);
        assert!(
            audit.in_use <= slots.max(self.in_use),
            "never more than the dominion has, or had"
        );
        self.in_use = audit.in_use;

        let totals = state.totals.iter().chain([&state.former]);
        let (arrived, settled) = totals.fold((0, 0), |(arrived, settled), class| {
            (arrived + class.arrived, settled + class.settled())
        });
        assert_eq!(
            arrived,
            settled + (audit.queued + audit.in_use) as u64,
            "every request has one outcome, or none yet"
        );

        let mut prefill = vec![0; audit.prefill.len()];
        for running in self.running.iter().filter(|running| !running.first_byte) {
            let grant = running.permit.grant();
            if is_revoked(grant) {
                continue;
            }
            prefill[grant.assigned.index as usize] += grant.snapshot.uncached();
        }
        for (fields, ticket) in &granted {
            let worker = audit.granted[&ticket.waiter()];
            prefill[worker as usize] += Snapshot::new(fields.raw, fields.cached).uncached();
        }
        // Those that are told to stop leave once the lock is released.
        let mut told = Vec::new();
        for (index, visitor) in self.visitors.iter().enumerate() {
            if visitor.count(&state, &mut prefill, &mut in_flight) {
                told.push(index);
            }
        }
        assert_eq!(audit.prefill, prefill, "prefill by worker");
        assert_eq!(audit.in_flight, in_flight, "requests by worker");

        let mut labels = BTreeMap::new();
        let mut backlog = [(0, 0, 0); 4];
        for (fields, _) in &queued {
            *labels.entry(fields.client).or_insert(0) += 1;
            let class = &mut backlog[fields.class];
            class.0 += 1;
            class.1 += fields.raw;
            class.2 += fields.cached.min(fields.raw);
        }
        if !self.relabelled {
            assert_eq!(
                audit.labels,
                labels.len(),
                "labels under which somebody waits"
            );
        }
        let names = state.policy.classes.iter().map(|class| &*class.name);
        for (name, counted) in names.zip(&audit.backlog) {
            let class = ["a", "b", "c", "d"].iter().position(|known| *known == name);
            assert_eq!(
                counted,
                &backlog[class.unwrap()],
                "what is queued in {name}"
            );
        }

        assert!(
            audit.in_use >= slots || audit.dispatchable == 0,
            "a free slot and a dispatchable head"
        );
        assert!(
            audit.workers_agree,
            "which workers are open, busy and least loaded"
        );
        let keeps_time = audit.expires && audit.queued > 0;
        assert!(
            audit.timekeeper_queued.unwrap_or(!keeps_time),
            "one of those who wait keeps the time of the holds"
        );
        if let Some(shadow) = &state.shadow {
            shadow.recount();
        }
        drop(state);
        for index in told.into_iter().rev() {
            self.visitors.remove(index);
        }
    }
}

proptest! {
    #![proptest_config(deterministic(400))]

    #[test]
    fn every_count_equals_a_recount_and_no_slot_idles(
        operations in prop::collection::vec(operation(), 0..150),
        closes in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let mut policy: PolicyConfig = POLICY.parse().unwrap();
        for index in [0, 2] {
            // Like local models, which a profile may leave out.
            Arc::make_mut(&mut policy.workers[index]).endpoint = None;
        }
        let mut pool = Pool::new(Arc::new(policy), Some(0));
        let mut world = World::default();
        for operation in operations {
            world.apply(&mut pool, operation);
            world.recount(&pool);
        }
        if closes {
            pool.close().wake_all();
            world.recount(&pool);
            prop_assert_eq!(pool.counts().waiting, 0, "nobody waits for a queue that is closed");
        }
        // All leave, kind by kind.
        world.held.clear();
        world.visitors.clear();
        world.parked.clear();
        world.recount(&pool);
        world.running.clear();
        world.recount(&pool);
        let state = pool.lock();
        let audit = state.audit();
        let prefill: u64 = audit.prefill.iter().sum();
        prop_assert_eq!((audit.in_use, audit.queued, prefill), (0, 0, 0));
        prop_assert!(state.waiters.is_empty() && !audit.expires, "nothing is left behind");
        prop_assert!(state.visits.is_empty(), "nobody visits");
        drop(state);

        // In the shadow, some requests are not over yet, and some wait for a worker that takes none.
        for id in ["w0", "w1", "w2", "w3", "w4"] {
            pool.set_condition(id, |it| *it = Condition::default());
        }
        runtime.block_on(tokio::time::advance(Duration::from_secs(1000)));
        pool.snapshot(10);
        let state = pool.lock();
        if let Some(shadow) = &state.shadow {
            shadow.recount();
            prop_assert!(shadow.is_empty(), "nobody would be left");
        }
    }
}
