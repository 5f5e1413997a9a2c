//! The schedule beside a model that follows the papers word by word.

use std::{collections::BTreeSet, time::Duration};

use proptest::{prelude::*, test_runner::RngSeed};

use super::*;
use crate::config::{FairUnit, QueuePolicy};

mod look;
mod model;
mod rearrange;

use model::{Model, Queued};

/// Lanes that are blocked, by class.
#[derive(Clone, Debug, Default)]
struct Blocked(BTreeSet<(usize, LaneId)>);

#[derive(Clone, Debug, PartialEq)]
struct Job {
    id: usize,
    lane: LaneId,
}

impl Gate<Job> for Blocked {
    fn open(&self, class: usize, job: &Job) -> bool {
        !self.0.contains(&(class, job.lane))
    }
}

/// The schedule and the model, side by side.
struct Pair {
    schedule: Schedule<Job>,
    model: Model,
    blocked: Blocked,
    keys: Vec<Option<(usize, Key)>>,
}

impl Pair {
    fn new(quanta: &[u64]) -> Self {
        Self {
            schedule: Schedule::new(quanta.iter().copied(), FairUnit::Requests),
            model: Model::new(quanta),
            blocked: Blocked::default(),
            keys: Vec::new(),
        }
    }

    fn go(&mut self, operation: &Operation) {
        let classes = self.model.quanta.len();
        match operation {
            Operation::Arrive(class, arrival) => self.push(class % classes, arrival),
            Operation::Serve => {
                self.serve();
            }
            Operation::Cancel(which) => self.cancel(*which),
            Operation::Charge(class, tokens) => self.charge(class % classes, *tokens),
            Operation::Block(class, number, blocked) => {
                self.block(class % classes, lane(*number), *blocked);
            }
        }
    }

    fn push(&mut self, class: usize, arrival: &Arrival) {
        let id = self.keys.len();
        let lane = lane(arrival.lane);
        let policy = if class % 2 == 0 {
            QueuePolicy::Fcfs
        } else {
            QueuePolicy::Wspt
        };
        let jump = f64::from(arrival.jump);
        let score = Score::new(policy, Duration::from_secs(id as u64), jump, arrival.cost);
        let client = ClientId::for_test(arrival.client);
        let entry = Entry {
            class,
            lane,
            client,
            rank: Rank::new(arrival.tier, score, id as u64),
            snapshot: Snapshot::new(arrival.cost, 0),
            payload: Job { id, lane },
        };
        let key = self.schedule.push(entry, &self.blocked);
        self.keys.push(Some((class, key)));
        let Arrival {
            client, tier, cost, ..
        } = *arrival;
        self.model.push(
            class,
            Queued {
                id,
                lane,
                client,
                tier,
                score,
                cost,
            },
        );
    }

    fn serve(&mut self) -> Option<usize> {
        let expected = self.model.serve(&self.blocked);
        let served = self.schedule.serve(&self.blocked);
        let served = served.map(|entry| (entry.class, entry.payload.id));
        assert_eq!(served, expected, "the same request is next");
        let (_, id) = served?;
        self.keys[id] = None;
        Some(id)
    }

    fn cancel(&mut self, which: usize) {
        let waiting: Vec<usize> = (0..self.keys.len())
            .filter(|&id| self.keys[id].is_some())
            .collect();
        if waiting.is_empty() {
            return;
        }
        let id = waiting[which % waiting.len()];
        let (class, key) = self.keys[id].take().unwrap();
        let entry = self.schedule.remove(key, &self.blocked).unwrap();
        assert_eq!(entry.payload.id, id);
        self.model.take(class, id, false);
    }

    fn charge(&mut self, class: usize, tokens: i64) {
        self.schedule.charge(class, tokens.into());
        self.model.charge(class, tokens.into());
    }

    fn block(&mut self, class: usize, lane: LaneId, blocked: bool) {
        if blocked {
            self.blocked.0.insert((class, lane));
        } else {
            self.blocked.0.remove(&(class, lane));
        }
        match lane {
            LaneId::Worker(worker) => self.schedule.recheck_worker(worker, &self.blocked),
            LaneId::Shared => self.schedule.recheck(class, lane, &self.blocked),
        }
    }

    fn check(&mut self) {
        assert_eq!(self.schedule.cursor(), self.model.cursor);
        assert_eq!(self.schedule.burst(), self.model.burst);
        let classes = 0..self.model.queues.len();
        let backlogged = classes
            .clone()
            .filter(|&class| !self.model.queues[class].is_empty());
        assert!(self.schedule.backlogged().eq(backlogged));
        let dispatchable = classes
            .clone()
            .any(|class| self.model.candidate(class, &self.blocked).is_some());
        assert_eq!(self.schedule.is_dispatchable(), dispatchable);
        let waiting: BTreeSet<usize> = self
            .schedule
            .entries()
            .map(|entry| entry.payload.id)
            .collect();
        assert!(
            waiting
                .into_iter()
                .eq((0..self.keys.len()).filter(|&id| self.keys[id].is_some()))
        );

        for (class, queue) in self.model.queues.iter().enumerate() {
            let exact: BTreeSet<LaneId> = queue.iter().map(|queued| queued.lane).collect();
            assert_eq!(
                self.schedule.classes[class].exact_lanes(),
                exact.iter().filter(|&&lane| lane != LaneId::Shared).count(),
                "an empty lane is not kept"
            );
            assert_eq!(
                self.schedule.deficit(class),
                self.model.deficits[class],
                "deficit of {class}"
            );
            let backlog = self.schedule.backlog(class);
            assert_eq!(backlog.requests, queue.len() as u64);
            assert_eq!(
                backlog.raw_tokens,
                queue.iter().map(|queued| queued.cost).sum::<u64>()
            );
        }
        assert_eq!(
            self.schedule.len(),
            self.model.queues.iter().map(Vec::len).sum::<usize>()
        );
    }
}

fn lane(number: u32) -> LaneId {
    number.checked_sub(1).map_or(LaneId::Shared, LaneId::Worker)
}

#[derive(Clone, Debug)]
struct Arrival {
    cost: u64,
    lane: u32,
    client: u8,
    tier: u32,
    jump: u8,
}

#[derive(Clone, Debug)]
enum Operation {
    Arrive(usize, Arrival),
    Serve,
    Cancel(usize),
    Block(usize, u32, bool),
    Charge(usize, i64),
}

fn operation(unit: u64) -> impl Strategy<Value = Operation> {
    let arrival = (1..600u64, 0..3u32, 0..3u8, 0..2u32, 0..3u8).prop_map(
        move |(cost, lane, client, tier, jump)| Arrival {
            // Not a multiple of the unit, so that deficits leave remainders.
            cost: cost * unit - unit / 3,
            lane,
            client,
            tier,
            jump,
        },
    );
    prop_oneof![
        4 => (0..5usize, arrival).prop_map(|(class, arrival)| Operation::Arrive(class, arrival)),
        3 => Just(Operation::Serve),
        1 => any::<usize>().prop_map(Operation::Cancel),
        1 => (0..5usize, -300..600i64).prop_map(move |(class, tokens)| {
            Operation::Charge(class, tokens * unit as i64)
        }),
        1 => (0..5usize, 0..3u32, any::<bool>()).prop_map(|(c, l, b)| Operation::Block(c, l, b)),
    ]
}

/// Quanta and costs from one to 2^40, with at most a few hundred rounds between them: the model
/// goes through each.
fn scenario() -> impl Strategy<Value = (Vec<u64>, Vec<Operation>)> {
    (0..=30u32).prop_flat_map(|shift| {
        let unit = 1u64 << shift;
        let quanta =
            prop::collection::vec((1..1024u64).prop_map(move |quantum| quantum * unit), 1..6);
        (quanta, prop::collection::vec(operation(unit), 0..120))
    })
}

/// The same cases in every run.
pub(crate) fn deterministic(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(deterministic(512))]

    #[test]
    fn order_and_deficits_equal_those_of_plain_round_robin((quanta, operations) in scenario()) {
        let mut pair = Pair::new(&quanta);
        for operation in &operations {
            pair.go(operation);
            pair.check();
        }
        let mut previews = Vec::new();
        for limit in [3, usize::MAX] {
            let preview = pair.schedule.preview(limit, &pair.blocked, |entry, blocks| (entry.payload.id, blocks));
            let (next, blocked) = preview.into_order();
            let next: Vec<usize> = next.iter().map(|seen| seen.shown.0).collect();
            let blocked: Vec<(usize, bool)> = blocked.iter().map(|seen| seen.shown).collect();
            previews.push((next, blocked));
        }
        let waiting = pair.schedule.len();
        let mut served = Vec::new();
        while let Some(id) = pair.serve() {
            served.push(id);
            pair.check();
        }
        let (all, blocked) = &previews[1];
        prop_assert_eq!(all, &served);
        prop_assert_eq!(blocked.len(), waiting - served.len());
        let heads = blocked.iter().filter(|(_, is_head)| *is_head).count();
        let lanes = |queue: &Vec<Queued>| queue.iter().map(|it| it.lane).collect::<BTreeSet<_>>().len();
        let lanes: usize = pair.model.queues.iter().map(lanes).sum();
        prop_assert_eq!(heads, lanes, "each lane that is left has a head");
        prop_assert!(blocked[..heads].iter().all(|(_, is_head)| *is_head), "heads come first");
        let (next, few) = &previews[0];
        prop_assert_eq!(next, &served[..served.len().min(3)]);
        prop_assert_eq!(few, &blocked[..blocked.len().min(3)]);
    }

    #[test]
    fn shares_stay_within_the_bound_of_the_quanta(
        quanta in prop::collection::vec(1..5000u64, 2..6),
        costs in prop::collection::vec(1..20_000u64, 1..40),
        rounds in 1..400usize,
    ) {
        let mut schedule = Schedule::new(quanta.iter().copied(), FairUnit::Requests);
        let open = Blocked::default();
        let mut served = vec![0u64; quanta.len()];
        let mut arrivals = vec![0usize; quanta.len()];
        let mut sequence = 0;
        let mut push = |schedule: &mut Schedule<Job>, class: usize| {
            let cost = costs[(arrivals[class] * 7 + class) % costs.len()];
            arrivals[class] += 1;
            sequence += 1;
            schedule.push(plain(class, LaneId::Shared, cost, sequence), &open);
        };
        for class in 0..quanta.len() {
            push(&mut schedule, class);
            push(&mut schedule, class);
        }
        let max = *costs.iter().max().unwrap() as f64;
        for _ in 0..rounds {
            let entry = schedule.serve(&open).expect("everybody is backlogged");
            served[entry.class] += entry.snapshot.cost();
            push(&mut schedule, entry.class);
            for i in 0..quanta.len() {
                for j in 0..quanta.len() {
                    let share = |class: usize| served[class] as f64 / quanta[class] as f64;
                    let bound = 1.0 + max / quanta[i] as f64 + max / quanta[j] as f64;
                    prop_assert!((share(i) - share(j)).abs() <= bound + 1e-9);
                }
            }
        }
    }
}

#[test]
fn a_cost_of_2_to_the_60_quanta_is_reached_in_one_step() {
    let open = Blocked::default();
    let mut schedule = Schedule::new([1, 3], FairUnit::Requests);
    schedule.push(plain(0, LaneId::Shared, 1 << 60, 1), &open);
    schedule.push(plain(1, LaneId::Shared, 1 << 60, 2), &open);
    let next = schedule.serve(&open).map(|entry| entry.class);
    assert_eq!(
        next,
        Some(1),
        "three times the quantum, a third of the rounds"
    );
    assert_eq!(
        schedule.deficit(0),
        i128::from((1u64 << 60).div_ceil(3)),
        "the other class was credited each of them"
    );
    assert_eq!(schedule.serve(&open).map(|entry| entry.class), Some(0));
    assert_eq!(schedule.deficit(0), 0);
}

#[test]
fn the_first_class_of_those_with_the_fewest_rounds_to_go_is_served() {
    let open = Blocked::default();
    let serve = |costs: [u64; 3], debt: i128| {
        let mut schedule = Schedule::new([10, 10, 10], FairUnit::Requests);
        for (class, cost) in costs.into_iter().enumerate() {
            schedule.charge(class, debt);
            schedule.push(plain(class, LaneId::Shared, cost, class as u64), &open);
        }
        let served = schedule.serve(&open).map(|entry| entry.class);
        let deficits = [0, 1, 2].map(|class| schedule.deficit(class));
        (served, deficits)
    };
    // Whole numbers of rounds. Who stands before it in the ring is credited the last one, too.
    assert_eq!(serve([40, 30, 30], 0), (Some(1), [30, 0, 20]));
    assert_eq!(serve([30, 30, 40], 0), (Some(0), [0, 20, 20]));
    assert_eq!(serve([40, 40, 21], 0), (Some(2), [30, 30, 0]));
    // More rounds than fit in 64 bits.
    let debt = 10 << 90;
    assert_eq!(serve([30, 30, 40], debt), (Some(0), [0, 20, 20]));
    assert_eq!(serve([40, 30, 30], debt), (Some(1), [30, 0, 20]));
}

#[test]
fn a_class_is_served_out_of_any_debt() {
    for debt in [i128::MAX, i128::MIN, 1 << 126, -(1 << 126)] {
        let mut schedule = Schedule::new([1, 7], FairUnit::Requests);
        let open = Blocked::default();
        for class in [0, 1] {
            for _ in 0..3 {
                schedule.charge(class, debt);
            }
            schedule.push(plain(class, LaneId::Shared, 10, class as u64), &open);
        }
        for _ in [0, 1] {
            assert!(schedule.serve(&open).is_some(), "a debt of {debt}");
        }
    }
}

#[test]
fn the_largest_numbers_saturate_and_are_served() {
    let open = Blocked::default();
    let mut schedule = Schedule::new([u64::MAX, 1], FairUnit::Requests);
    schedule.push(plain(0, LaneId::Shared, u64::MAX, 1), &open);
    schedule.push(plain(0, LaneId::Shared, u64::MAX, 2), &open);
    schedule.push(plain(1, LaneId::Shared, u64::MAX, 3), &open);
    let order: Vec<_> = std::iter::from_fn(|| schedule.serve(&open))
        .map(|e| e.payload.id)
        .collect();
    assert_eq!(order.len(), 3);
}

/// The first steps of the example of the paper's section 4: a queue sends while its deficit
/// covers the head, and keeps the rest for its next turn.
#[test]
fn the_papers_example_is_served_in_its_order() {
    let open = Blocked::default();
    let mut schedule = Schedule::new([500, 500], FairUnit::Requests);
    for (sequence, (class, cost)) in [(0, 200), (0, 750), (0, 20), (1, 500), (1, 500)]
        .into_iter()
        .enumerate()
    {
        schedule.push(plain(class, LaneId::Shared, cost, sequence as u64), &open);
    }
    let mut served = Vec::new();
    while let Some(entry) = schedule.serve(&open) {
        served.push((
            entry.class,
            entry.snapshot.cost(),
            schedule.deficit(entry.class),
        ));
    }
    assert_eq!(
        served,
        [
            (0, 200, 300),
            (1, 500, 0),
            (0, 750, 50),
            (0, 20, 0),
            (1, 500, 0)
        ]
    );
}

fn plain(class: usize, lane: LaneId, cost: u64, sequence: u64) -> Entry<Job> {
    Entry {
        class,
        lane,
        client: ClientId::SHARED,
        rank: Rank::new(
            0,
            Score::new(QueuePolicy::Fcfs, Duration::ZERO, 0.0, cost),
            sequence,
        ),
        snapshot: Snapshot::new(cost, 0),
        payload: Job {
            id: sequence as usize,
            lane,
        },
    }
}
