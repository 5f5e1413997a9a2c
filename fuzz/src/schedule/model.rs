//! Plain deficit round robin, one visit at a time, written for being right and not for being fast.
//!
//! It shares no code with the crate: times are integers, priorities by weight are fractions, and who is
//! next is found by looking at everybody.

use std::{cmp::Ordering, collections::BTreeMap};

/// The lane of a worker, or the shared one.
pub type Lane = Option<u32>;

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub id: usize,
    pub lane: Lane,
    pub client: u8,
    pub tier: u32,
    /// Of at least 0; in seconds or a weight.
    pub jump: u64,
    /// Nanoseconds since the beginning.
    pub arrival: u64,
    /// In tokens; it is charged one at least.
    pub tokens: u64,
}

impl Waiter {
    fn cost(&self) -> i128 {
        self.tokens.max(1).into()
    }
}

/// A client's turn in a tier of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    served: u128,
    /// When it was queued.
    since: u64,
}

#[derive(Debug)]
struct Class {
    quantum: i128,
    wspt: bool,
    deficit: i128,
    waiters: Vec<Waiter>,
    /// The clients that wait, in the tiers of the lanes they wait in.
    turns: BTreeMap<(Lane, u32, u8), Turn>,
}

/// Classes in a ring.
#[derive(Debug)]
pub struct Model {
    classes: Vec<Class>,
    by_tokens: bool,
    cursor: usize,
    burst: Option<usize>,
    time: u64,
}

/// What a model says of the next request.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Serve {
        class: usize,
        id: usize,
    },
    Nobody,
    /// It takes more rounds than there is patience for. The model is of no use any more.
    TooFar,
}

/// Rounds that a model goes through for one request.
const PATIENCE: u32 = 4096;

impl Model {
    /// Classes by their quantum, and whether they are WSPT.
    pub fn new(classes: impl IntoIterator<Item = (u64, bool)>, by_tokens: bool) -> Self {
        let class = |(quantum, wspt): (u64, bool)| Class {
            quantum: quantum.into(),
            wspt,
            deficit: 0,
            waiters: Vec::new(),
            turns: BTreeMap::new(),
        };
        Self {
            classes: classes.into_iter().map(class).collect(),
            by_tokens,
            cursor: 0,
            burst: None,
            time: 0,
        }
    }

    pub fn deficits(&self) -> impl Iterator<Item = i128> + '_ {
        self.classes.iter().map(|class| class.deficit)
    }

    /// Requests of a class, and their tokens.
    pub fn backlog(&self, class: usize) -> (u64, u64) {
        let waiters = &self.classes[class].waiters;
        let tokens = waiters.iter().map(|waiter| waiter.tokens).sum();
        (waiters.len() as u64, tokens)
    }

    pub fn push(&mut self, class: usize, waiter: Waiter) {
        self.time += 1;
        let class = &mut self.classes[class];
        let key = (waiter.lane, waiter.tier, waiter.client);
        let turn = Turn {
            // Level with the one that was served least.
            served: class
                .clients(waiter.lane, waiter.tier)
                .map(|(_, turn)| turn.served)
                .min()
                .unwrap_or(0),
            since: self.time,
        };
        class.turns.entry(key).or_insert(turn);
        class.waiters.push(waiter);
    }

    pub fn remove(&mut self, class: usize, id: usize) {
        self.take(class, id);
        self.settle(class);
    }

    pub fn charge(&mut self, class: usize, tokens: i128) {
        self.classes[class].deficit -= tokens;
        self.settle(class);
    }

    /// Serves the request whose turn it is, of those whose lane is open.
    pub fn serve(&mut self, open: impl Fn(usize, Lane) -> bool) -> Next {
        let heads: Vec<Option<Waiter>> = self
            .classes
            .iter()
            .enumerate()
            .map(|(index, class)| class.candidate(|lane| open(index, lane)))
            .collect();
        if heads.iter().all(Option::is_none) {
            return Next::Nobody;
        }
        let Some(class) = self.pick(&heads) else {
            return Next::TooFar;
        };
        let Some(head) = &heads[class] else {
            unreachable!("a class without a candidate is not picked");
        };
        self.classes[class].deficit -= head.cost();
        self.take(class, head.id);
        self.pass_turn(class, head);
        self.cursor = (class + 1) % self.classes.len();
        self.burst = Some(class);
        self.settle(class);
        Next::Serve { class, id: head.id }
    }

    fn pick(&mut self, heads: &[Option<Waiter>]) -> Option<usize> {
        if let Some((burst, head)) = self
            .burst
            .and_then(|burst| Some((burst, heads[burst].as_ref()?)))
        {
            if head.cost() <= self.classes[burst].deficit {
                return Some(burst);
            }
            self.burst = None;
        }
        for _ in 0..PATIENCE {
            for step in 0..heads.len() {
                let index = (self.cursor + step) % heads.len();
                let Some(head) = &heads[index] else {
                    continue;
                };
                let class = &mut self.classes[index];
                if class.deficit < head.cost() {
                    class.deficit += class.quantum;
                }
                if class.deficit >= head.cost() {
                    return Some(index);
                }
            }
        }
        None
    }

    fn take(&mut self, class: usize, id: usize) {
        let class = &mut self.classes[class];
        class.waiters.retain(|waiter| waiter.id != id);
        // Who waits no more has no turn.
        let Class { waiters, turns, .. } = class;
        turns.retain(|&key, _| {
            waiters
                .iter()
                .any(|waiter| (waiter.lane, waiter.tier, waiter.client) == key)
        });
    }

    fn pass_turn(&mut self, class: usize, served: &Waiter) {
        self.time += 1;
        let key = (served.lane, served.tier, served.client);
        if let Some(turn) = self.classes[class].turns.get_mut(&key) {
            turn.since = self.time;
            if self.by_tokens {
                turn.served += served.cost() as u128;
            }
        }
    }

    fn settle(&mut self, class: usize) {
        let settled = &mut self.classes[class];
        if settled.waiters.is_empty() {
            settled.deficit = settled.deficit.min(0);
            self.burst = self.burst.filter(|&burst| burst != class);
        }
    }
}

impl Class {
    fn clients(&self, lane: Lane, tier: u32) -> impl Iterator<Item = (u8, Turn)> + '_ {
        self.turns
            .iter()
            .filter(move |((at, of, _), _)| (*at, *of) == (lane, tier))
            .map(|((_, _, client), turn)| (*client, *turn))
    }

    fn head(&self, lane: Lane) -> Option<&Waiter> {
        let waiters = || {
            self.waiters
                .iter()
                .filter(move |waiter| waiter.lane == lane)
        };
        let tier = waiters().map(|waiter| waiter.tier).max()?;
        let (client, _) = self.clients(lane, tier).min_by_key(|(_, turn)| *turn)?;
        waiters()
            .filter(|waiter| waiter.tier == tier && waiter.client == client)
            .min_by(|a, b| self.order(a, b))
    }

    fn candidate(&self, open: impl Fn(Lane) -> bool) -> Option<Waiter> {
        let mut lanes: Vec<Lane> = self.waiters.iter().map(|waiter| waiter.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
            .into_iter()
            .filter(|&lane| open(lane))
            .filter_map(|lane| self.head(lane))
            .min_by(|a, b| self.order(a, b))
            .cloned()
    }

    /// The higher tier, then the earlier or the heavier for its cost, then the arrival.
    fn order(&self, a: &Waiter, b: &Waiter) -> Ordering {
        let score = if self.wspt {
            // (1 + jump) / cost, the larger first, without a division.
            let [weight_a, weight_b] = [a, b].map(|waiter| i128::from(waiter.jump) + 1);
            (weight_b * a.cost()).cmp(&(weight_a * b.cost()))
        } else {
            let effective = |waiter: &Waiter| {
                i128::from(waiter.arrival) - i128::from(waiter.jump) * 1_000_000_000
            };
            effective(a).cmp(&effective(b))
        };
        b.tier.cmp(&a.tier).then(score).then(a.id.cmp(&b.id))
    }
}
