//! A dominion under random operations, recounted after each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use proptest::{prelude::*, test_runner::RngSeed};

use super::*;

const POLICY: &str = "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: a, policy_family: a, cache_bucket: all, quantum: 7, prefill_busy_threshold: 12}
  - {name: b, policy_family: b, cache_bucket: all, quantum: 3, queue_policy: wspt, prefill_busy_threshold_frac: 0.5, busy_worker_ratio: 0.6}
  - {name: c, policy_family: c, cache_bucket: all, quantum: 100}
dominions:
  - {id: pool, kind: remote, max_concurrency: 3, max_queue: 12}
endpoints:
  - {id: w0, dominion: pool, max_num_batched_tokens: 20, models: [m, n]}
  - {id: w1, dominion: pool, max_num_batched_tokens: 40, models: [m]}
  - {id: w2, dominion: pool, models: [n]}
";

#[derive(Clone, Debug)]
enum Operation {
    Arrive(Fields),
    /// A parked request's future is polled.
    Poll(usize),
    /// A parked request's future is dropped, granted or not.
    Leave(usize),
    FirstByte(usize),
    Finish(usize),
    Hold(usize),
    LetGo(usize),
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
}

fn worker() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["w0", "w1", "w2"])
}

fn operation() -> impl Strategy<Value = Operation> {
    let fields = (
        (0..3usize, 0..30u64, 0..10u64, 0..2u32, 0..40u8),
        prop::option::of(prop::sample::select(vec!["m", "n", "unknown"])),
        prop::option::weighted(0.3, worker()),
        prop::option::weighted(0.2, prop::collection::vec(worker(), 0..3)),
    );
    let fields = fields.prop_map(
        |((class, raw, cached, tier, client), model, worker, allowed)| {
            Operation::Arrive(Fields {
                class,
                raw,
                cached,
                tier,
                client,
                model,
                worker,
                allowed,
            })
        },
    );
    let which = any::<usize>;
    prop_oneof![
        6 => fields,
        3 => which().prop_map(Operation::Poll),
        2 => which().prop_map(Operation::Leave),
        2 => which().prop_map(Operation::FirstByte),
        3 => which().prop_map(Operation::Finish),
        1 => which().prop_map(Operation::Hold),
        1 => which().prop_map(Operation::LetGo),
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
    /// Slots whose request is over and that somebody holds on to.
    held: Vec<Share>,
}

fn pick(which: usize, length: usize) -> Option<usize> {
    (length > 0).then(|| which % length)
}

impl World {
    fn apply(&mut self, pool: &Arc<Pool>, operation: Operation) {
        match operation {
            Operation::Arrive(fields) => self.arrive(pool, fields),
            Operation::Poll(which) => {
                let Some(index) = pick(which, self.parked.len()) else {
                    return;
                };
                let mut cx = Context::from_waker(Waker::noop());
                if let Poll::Ready(granted) = self.parked[index].1.poll_granted(&mut cx) {
                    let permit = granted.expect("the queue is open");
                    self.running.push(Running {
                        permit,
                        first_byte: false,
                    });
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
                    self.held.push(grant.share().expect("the permit is there"));
                }
            }
            Operation::LetGo(which) => {
                if let Some(index) = pick(which, self.held.len()) {
                    self.held.remove(index);
                }
            }
        }
    }

    fn arrive(&mut self, pool: &Arc<Pool>, fields: Fields) {
        let client = format!("client-{}", fields.client);
        let entrance = pool.enter(&Arrival {
            class: fields.class,
            snapshot: Snapshot::new(fields.raw, fields.cached),
            strict_priority: fields.tier,
            priority_jump: 0.0,
            client: Some(&client),
            wanted: Wanted {
                model: fields.model,
                worker: fields.worker,
                allowed_workers: fields.allowed.as_deref(),
                tolerations: &[],
            },
            max_queue_wait: None,
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

    /// Counts anew what the pool keeps count of.
    fn recount(&self, pool: &Pool) {
        let state = pool.lock();
        let audit = state.audit();

        let (granted, queued): (Vec<_>, Vec<_>) = self
            .parked
            .iter()
            .partition(|(_, ticket)| audit.granted.contains_key(&ticket.waiter()));
        assert_eq!(audit.queued, queued.len(), "who waits");
        assert_eq!(
            audit.granted.len(),
            granted.len(),
            "who was granted and does not know it"
        );

        let mut slots: BTreeSet<*const Grant> = BTreeSet::new();
        slots.extend(
            self.running
                .iter()
                .map(|running| Arc::as_ptr(running.permit.grant())),
        );
        slots.extend(self.held.iter().map(|share| Arc::as_ptr(share.grant())));
        assert_eq!(audit.in_use, slots.len() + granted.len(), "slots in use");
        assert!(audit.in_use <= 3, "never more than the dominion has");

        let mut prefill = [0; 3];
        for running in self.running.iter().filter(|running| !running.first_byte) {
            let grant = running.permit.grant();
            prefill[grant.assigned.index as usize] += grant.snapshot.uncached();
        }
        for (fields, ticket) in &granted {
            let worker = audit.granted[&ticket.waiter()];
            prefill[worker as usize] += Snapshot::new(fields.raw, fields.cached).uncached();
        }
        assert_eq!(audit.prefill, prefill, "prefill by worker");

        let mut labels = BTreeMap::new();
        let mut backlog = [(0, 0, 0); 3];
        for (fields, _) in &queued {
            *labels.entry(fields.client).or_insert(0) += 1;
            let class = &mut backlog[fields.class];
            class.0 += 1;
            class.1 += fields.raw;
            class.2 += fields.cached.min(fields.raw);
        }
        assert_eq!(
            audit.labels,
            labels.len(),
            "labels under which somebody waits"
        );
        assert_eq!(audit.backlog, backlog, "what is queued by class");

        assert!(
            audit.in_use == 3 || audit.dispatchable == 0,
            "a free slot and a dispatchable head"
        );
    }
}

/// The same cases in every run.
fn deterministic(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(deterministic(400))]

    #[test]
    fn every_count_equals_a_recount_and_no_slot_idles(operations in prop::collection::vec(operation(), 0..150)) {
        let policy: PolicyConfig = POLICY.parse().unwrap();
        let pool = Pool::new(Arc::new(policy), Some(0));
        let mut world = World::default();
        for operation in operations {
            world.apply(&pool, operation);
            world.recount(&pool);
        }
        // Everybody leaves, in an order of their own.
        world.held.clear();
        world.parked.clear();
        world.recount(&pool);
        world.running.clear();
        world.recount(&pool);
        let state = pool.lock();
        let audit = state.audit();
        prop_assert_eq!((audit.in_use, audit.queued, audit.prefill), (0, 0, vec![0; 3]));
    }
}
