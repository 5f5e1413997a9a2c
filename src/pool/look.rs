//! Takes snapshots: what is copied under the lock, and what is computed from it afterwards.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    ClassSnapshot, ClientSnapshot, DominionSnapshot, Pool, WaitReason, WaiterSnapshot,
    WorkerSnapshot,
    state::{Queues, State},
    workers::{Busy, Parked},
};
use crate::schedule::{ClientId, Entry, LaneId, Preview, Seen};

/// What is copied about a waiting request.
#[derive(Debug)]
pub(super) struct Shown {
    arrived: Instant,
    worker: Option<Arc<str>>,
    /// Why the gate does not let it through, if it is the blocked head of its lane.
    blocked: Option<WaitReason>,
}

/// All that was copied under the lock.
struct Copied {
    now: Instant,
    snapshot: DominionSnapshot,
    workers: Vec<(u32, WorkerSnapshot)>,
    busy: Busy,
    /// The labels of the clients, by id.
    labels: Vec<(ClientId, Box<str>)>,
    waiters: Preview<Shown>,
}

/// What is computed once for all classes.
struct Common {
    /// Tokens that were served in the window, by class and in total.
    served: Vec<u64>,
    tokens: u64,
    window: Duration,
    queues: Queues,
}

impl Pool {
    /// The dominion as it is now, with at most `limit` of the requests that wait for a slot, and at most as
    /// many of those that are blocked.
    pub(crate) fn snapshot(&self, limit: usize) -> DominionSnapshot {
        // The lock is only held while copying; the rest is computed once it is released.
        let mut state = self.lock();
        let copied = state.copy(limit);
        let shadow = state.shadow.as_mut().map(|shadow| {
            shadow.play(copied.now);
            shadow.state.clock = Some(copied.now);
            shadow.state.copy(limit)
        });
        drop(state);
        let mut snapshot = copied.finish();
        if let Some(shadow) = shadow {
            snapshot.enforced = false;
            snapshot.would_be = Some(Box::new(shadow.finish()));
        }
        snapshot
    }

    /// Takes a snapshot, and returns for how long it held the lock, and how long it took in all.
    #[cfg(feature = "internals")]
    pub(crate) fn time_snapshot(&self, limit: usize) -> [Duration; 2] {
        let mut state = self.lock();
        let start = std::time::Instant::now();
        let copied = state.copy(limit);
        drop(state);
        let locked = start.elapsed();
        drop(copied.finish());
        [locked, start.elapsed()]
    }
}

impl State {
    fn copy(&mut self, limit: usize) -> Copied {
        let now = self.now();
        let (window, served) = self.shares.served(now, &self.totals);
        self.shares.look(now, &self.totals);
        let common = Common {
            tokens: sum(&served),
            served,
            window,
            queues: self.queues(),
        };
        let oldest = self.seniority.oldest();
        let oldest = oldest.and_then(|waiter| self.waiters.get(waiter));
        let snapshot = DominionSnapshot {
            id: self.id(),
            enforced: true,
            would_be: None,
            closed: self.closed,
            slots: self.max_concurrency,
            in_use: self.in_use,
            waiting: self.schedule.len(),
            max_queue: self.max_queue,
            max_queue_per_client: self.max_queue_per_client,
            oldest_wait_ms: oldest.map(|oldest| milliseconds(now, oldest.arrived)),
            burst: self.schedule.burst(),
            cursor: self.schedule.cursor(),
            idle_beside_waiter_ms: whole_milliseconds(self.idling.total()),
            window_ms: whole_milliseconds(window),
            tokens_per_second: per_second(common.tokens, window),
            classes: (0..self.totals.len())
                .map(|class| self.class(class, &common))
                .collect(),
            former_classes: self.former.clone(),
            workers: Vec::new(),
            clients: self
                .labels()
                .map(|(label, _, waiting, served)| ClientSnapshot {
                    label: label.into(),
                    waiting,
                    served,
                })
                .collect(),
            waiters: Vec::new(),
            waiters_omitted: 0,
        };
        let (workers, busy) = self.workers.snapshot();
        Copied {
            now,
            snapshot,
            workers,
            busy,
            labels: self
                .labels()
                .map(|(label, id, ..)| (id, label.into()))
                .collect(),
            waiters: self
                .schedule
                .preview(limit, &self.workers, |entry, blocks| {
                    self.show(entry, blocks, now)
                }),
        }
    }

    /// The clients, each with its label and its counts. The shared one may be known from a policy under
    /// which clients took turns: it is nobody's label where they do not.
    fn labels(&self) -> impl Iterator<Item = (&str, ClientId, usize, u64)> {
        self.clients.iter().filter(|_| self.fair)
    }

    fn id(&self) -> Option<Arc<str>> {
        self.dominion
            .map(|index| Arc::clone(&self.policy.dominions[index].id))
    }

    fn class(&self, index: usize, common: &Common) -> ClassSnapshot {
        let class = &self.policy.classes[index];
        let backlog = self.schedule.backlog(index);
        let quantum = self.classes[index].quantum;
        let own = if backlog.requests > 0 { quantum } else { 0 };
        let others = common.queues.quanta() - u128::from(own);
        let served = common.served[index];
        ClassSnapshot {
            name: Arc::clone(&class.name),
            profile: class.profile.clone(),
            quantum: class.quantum.get(),
            deficit: saturated(self.schedule.deficit(index)),
            queued: backlog.requests,
            queued_tokens: backlog.raw_tokens,
            queued_cached_tokens: backlog.cached_tokens,
            share: served as f64 / common.tokens.max(1) as f64,
            promised_share: quantum as f64 / (quantum as f64 + others as f64),
            tokens_per_second: per_second(served, common.window),
            estimated_wait_ms: self
                .estimated_wait(index, &common.queues)
                .map(whole_milliseconds),
            totals: self.totals[index].clone(),
        }
    }

    fn show(&self, entry: &Entry<Parked>, blocks: bool, now: Instant) -> Shown {
        let Parked { waiter, eligible } = &entry.payload;
        Shown {
            arrived: self.waiters.get(*waiter).map_or(now, |it| it.arrived),
            worker: match entry.lane {
                LaneId::Shared => None,
                LaneId::Worker(worker) => self.workers.id(worker),
            },
            blocked: blocks
                .then(|| self.workers.blocked(entry.class, eligible))
                .flatten(),
        }
    }
}

impl Copied {
    fn finish(self) -> DominionSnapshot {
        let Self {
            now,
            mut snapshot,
            workers,
            busy,
            labels,
            waiters,
        } = self;
        let workers = workers.into_iter().map(|(index, worker)| WorkerSnapshot {
            busy_for: busy.classes(index),
            ..worker
        });
        snapshot.workers = workers.collect();
        let (next, blocked) = waiters.into_order();
        let show = |seen: Seen<Shown>, position, why| {
            let label = labels.iter().find(|(id, _)| *id == seen.client);
            WaiterSnapshot {
                position,
                class: seen.class,
                class_name: Arc::clone(&snapshot.classes[seen.class].name),
                worker: seen.shown.worker,
                client: label.map(|(_, label)| label.clone()),
                cost: seen.snapshot.cost(),
                tier: seen.strict_priority,
                age_ms: milliseconds(now, seen.shown.arrived),
                why,
            }
        };
        let mut before = Before::default();
        let next = next.into_iter().enumerate().map(|(index, seen)| {
            let why = match index {
                0 => WaitReason::Slot {
                    in_use: snapshot.in_use,
                    slots: snapshot.slots,
                },
                _ => before.turn(&seen, &snapshot.classes),
            };
            before.pass(&seen);
            show(seen, Some(index + 1), why)
        });
        let mut listed: Vec<WaiterSnapshot> = next.collect();
        listed.extend(blocked.into_iter().map(|mut seen| {
            let own = seen.shown.blocked.take();
            show(seen, None, own.unwrap_or(WaitReason::Blocked))
        }));
        snapshot.waiters_omitted = snapshot.waiting.saturating_sub(listed.len());
        snapshot.waiters = listed;
        // They come in no particular order.
        snapshot.clients.sort_by(|a, b| a.label.cmp(&b.label));
        snapshot
    }
}

/// The requests that come before in the order of service.
#[derive(Default)]
struct Before {
    /// How many, by class.
    classes: HashMap<usize, usize>,
    /// The tiers of lanes, and the clients in them.
    tiers: BTreeSet<Tier>,
    clients: BTreeSet<(Tier, ClientId)>,
}

impl Before {
    fn pass<P>(&mut self, seen: &Seen<P>) {
        let tier = (seen.class, seen.lane, seen.strict_priority);
        *self.classes.entry(seen.class).or_default() += 1;
        self.tiers.insert(tier);
        self.clients.insert((tier, seen.client));
    }

    /// Why a request waits that is neither blocked nor the next one.
    fn turn<P>(&self, seen: &Seen<P>, classes: &[ClassSnapshot]) -> WaitReason {
        let Some(&ahead) = self.classes.get(&seen.class) else {
            return WaitReason::Class {
                deficit: classes[seen.class].deficit,
                cost: seen.snapshot.cost(),
            };
        };
        let tier = (seen.class, seen.lane, seen.strict_priority);
        if self.tiers.contains(&tier) && !self.clients.contains(&(tier, seen.client)) {
            return WaitReason::Client;
        }
        WaitReason::Order { ahead }
    }
}

/// A class's index, a lane of it, and a strict priority.
type Tier = (usize, LaneId, u32);

fn sum(served: &[u64]) -> u64 {
    served.iter().copied().fold(0, u64::saturating_add)
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
