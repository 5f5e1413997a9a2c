//! Taking a snapshot: what is copied under the lock, and what is made of it afterwards.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    ClassSnapshot, ClientSnapshot, DominionSnapshot, Pool, WaitReason, WaiterSnapshot,
    state::State, workers::Parked,
};
use crate::schedule::{ClientId, Entry, LaneId, Schedule, Seen};

/// What is copied of a waiting request.
#[derive(Debug)]
pub(super) struct Shown {
    arrived: Instant,
    worker: Option<Arc<str>>,
    /// Why the gate would not let it through, if it would not.
    blocked: Option<WaitReason>,
}

/// All that was copied under the lock.
struct Copied {
    now: Instant,
    snapshot: DominionSnapshot,
    /// The labels of the clients, by id.
    labels: Vec<(ClientId, Box<str>)>,
    waiters: Schedule<Seen<Shown>>,
}

impl Pool {
    /// The dominion as it is now, with at most `limit` of the requests that wait for a slot, and of
    /// those that are blocked.
    pub(crate) fn snapshot(&self, limit: usize) -> DominionSnapshot {
        // Worked out after the lock was given back.
        let mut state = self.lock();
        let copied = state.copy(limit);
        let shadow = state.shadow.as_mut().map(|shadow| {
            shadow.play(copied.now);
            shadow.state.clock = Some(copied.now);
            shadow.state.copy(limit)
        });
        drop(state);
        let mut snapshot = copied.finish(limit);
        if let Some(shadow) = shadow {
            snapshot.enforced = false;
            snapshot.would_be = Some(Box::new(shadow.finish(limit)));
        }
        snapshot
    }
}

impl State {
    fn copy(&self, limit: usize) -> Copied {
        let now = self.now();
        let (window, served) = self.shares.served(now, &self.totals);
        let oldest = self
            .schedule
            .entries()
            .filter_map(|entry| self.waiters.get(entry.payload.waiter))
            .map(|waiter| waiter.arrived)
            .min();
        let snapshot = DominionSnapshot {
            id: self.id(),
            enforced: true,
            would_be: None,
            closed: self.closed,
            slots: self.max_concurrency,
            in_use: self.in_use,
            waiting: self.schedule.len(),
            max_queue: self.max_queue,
            oldest_wait_ms: oldest.map(|oldest| milliseconds(now, oldest)),
            burst: self.schedule.burst(),
            cursor: self.schedule.cursor(),
            idle_beside_waiter_ms: whole_milliseconds(self.idling.total()),
            window_ms: whole_milliseconds(window),
            tokens_per_second: per_second(served.iter().sum(), window),
            classes: (0..self.totals.len())
                .map(|class| self.class(class, &served, window))
                .collect(),
            former_classes: self.former.clone(),
            workers: self.workers.snapshot(),
            clients: self
                .clients
                .iter()
                .map(|(label, _, waiting, served)| ClientSnapshot {
                    label: label.into(),
                    waiting,
                    served,
                })
                .collect(),
            waiters: Vec::new(),
            waiters_omitted: 0,
        };
        Copied {
            now,
            snapshot,
            labels: self
                .clients
                .iter()
                .map(|(label, id, ..)| (id, label.into()))
                .collect(),
            waiters: self
                .schedule
                .preview(limit, &self.workers, |entry| self.show(entry, now)),
        }
    }

    fn id(&self) -> Option<Arc<str>> {
        self.dominion
            .map(|index| Arc::clone(&self.policy.dominions[index].id))
    }

    fn class(&self, index: usize, served: &[u64], window: Duration) -> ClassSnapshot {
        let class = &self.policy.classes[index];
        let backlog = self.schedule.backlog(index);
        let quantum = |class: usize| self.classes[class].quantum as f64;
        let working = self.schedule.backlogged().filter(|&other| other != index);
        let working: f64 = working.map(quantum).sum();
        let all: u64 = served.iter().sum();
        ClassSnapshot {
            name: Arc::clone(&class.name),
            profile: class.profile.clone(),
            quantum: class.quantum.get(),
            deficit: saturated(self.schedule.deficit(index)),
            queued: backlog.requests,
            queued_tokens: backlog.raw_tokens,
            queued_cached_tokens: backlog.cached_tokens,
            share: served[index] as f64 / all.max(1) as f64,
            promised_share: quantum(index) / (quantum(index) + working),
            tokens_per_second: per_second(served[index], window),
            estimated_wait_ms: self.estimated_wait(index).map(whole_milliseconds),
            totals: self.totals[index].clone(),
        }
    }

    fn show(&self, entry: &Entry<Parked>, now: Instant) -> Shown {
        let Parked { waiter, eligible } = &entry.payload;
        Shown {
            arrived: self.waiters.get(*waiter).map_or(now, |it| it.arrived),
            worker: match entry.lane {
                LaneId::Shared => None,
                LaneId::Worker(worker) => self.workers.id(worker),
            },
            blocked: self.workers.blocked(entry.class, eligible),
        }
    }
}

impl Copied {
    fn finish(self, limit: usize) -> DominionSnapshot {
        let Self {
            now,
            mut snapshot,
            labels,
            waiters,
        } = self;
        let (order, open) = waiters.into_order();
        let (next, blocked) = order.split_at(open.min(order.len()));
        let show = |entry: &Entry<Seen<Shown>>, position, why| {
            let shown = &entry.payload.shown;
            let label = labels.iter().find(|(id, _)| *id == entry.client);
            WaiterSnapshot {
                position,
                class: entry.class,
                class_name: Arc::clone(&snapshot.classes[entry.class].name),
                worker: shown.worker.clone(),
                client: label.map(|(_, label)| label.clone()),
                cost: entry.snapshot.cost(),
                tier: entry.rank.strict_priority(),
                age_ms: milliseconds(now, shown.arrived),
                why,
            }
        };
        let mut before = Before::default();
        let next = next.iter().take(limit).enumerate().map(|(index, entry)| {
            let why = match index {
                0 => WaitReason::Slot {
                    in_use: snapshot.in_use,
                    slots: snapshot.slots,
                },
                _ => before.turn(entry, &snapshot.classes),
            };
            before.pass(entry);
            show(entry, Some(index + 1), why)
        });
        let mut listed: Vec<WaiterSnapshot> = next.collect();
        let mut heads = BTreeSet::new();
        listed.extend(blocked.iter().take(limit).map(|entry| {
            let is_head = heads.insert((entry.class, entry.lane));
            let own = entry.payload.shown.blocked.clone().filter(|_| is_head);
            show(entry, None, own.unwrap_or(WaitReason::Blocked))
        }));
        snapshot.waiters_omitted = snapshot.waiting.saturating_sub(listed.len());
        snapshot.waiters = listed;
        snapshot
    }
}

/// Who comes before in the order of service.
#[derive(Default)]
struct Before {
    /// How many, by class.
    classes: HashMap<usize, usize>,
    /// The tiers of lanes, and the clients in them.
    tiers: BTreeSet<(usize, LaneId, u32)>,
    clients: BTreeSet<(usize, LaneId, u32, ClientId)>,
}

impl Before {
    fn pass<P>(&mut self, entry: &Entry<P>) {
        let tier = entry.rank.strict_priority();
        *self.classes.entry(entry.class).or_default() += 1;
        self.tiers.insert((entry.class, entry.lane, tier));
        self.clients
            .insert((entry.class, entry.lane, tier, entry.client));
    }

    /// Why a request waits that is not blocked, but not the next one either.
    fn turn<P>(&self, entry: &Entry<P>, classes: &[ClassSnapshot]) -> WaitReason {
        let Entry {
            class,
            lane,
            client,
            ..
        } = *entry;
        let Some(&ahead) = self.classes.get(&class) else {
            return WaitReason::Class {
                deficit: classes[class].deficit,
                cost: entry.snapshot.cost(),
            };
        };
        let tier = entry.rank.strict_priority();
        let others = self.tiers.contains(&(class, lane, tier));
        if others && !self.clients.contains(&(class, lane, tier, client)) {
            return WaitReason::Client;
        }
        WaitReason::Order { ahead }
    }
}

fn milliseconds(now: Instant, then: Instant) -> u64 {
    whole_milliseconds(now.saturating_duration_since(then))
}

fn whole_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn per_second(tokens: u64, window: Duration) -> f64 {
    if window.is_zero() {
        return 0.0;
    }
    tokens as f64 / window.as_secs_f64()
}

fn saturated(deficit: i128) -> i64 {
    deficit.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}
