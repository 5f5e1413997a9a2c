//! A dominion that is not enforced: what it would do if it were.
//!
//! Every request runs at once. Besides, the usual code makes the usual decisions about it on a separate
//! state, whose clock is set by hand: a request that would have had to wait gets its slot there when its turn
//! comes, and keeps it for as long as it really ran. It may really be over by then; what it did is played
//! back late. Nothing runs by itself: whatever changes the dominion, or looks at it, first plays the events
//! that have come due, in the order of their times.
//!
//! How long requests take is as measured, that is, under a load that nothing holds back. Left out are what
//! classes are charged for output, and the load of requests that run on another request's slot.

#[cfg(test)]
mod audit;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Arrival,
    meter::Meter,
    state::{Entered, State},
    tally::{Code, Stage},
    waiter::Status,
    wake::WakeList,
};
use crate::{config::PolicyConfig, schedule::Snapshot};

/// Identifies a request in the shadow. Ids are never reused, so that a request that is already over there is
/// not taken for another one. 0 stands for none.
pub(super) type ClaimId = u64;

/// What the dominion would be like if it were enforced.
#[derive(Debug)]
pub(super) struct Shadow {
    pub(super) state: State,
    claims: HashMap<ClaimId, Claim>,
    /// The claims that wait, by waiter.
    waiting: HashMap<usize, ClaimId>,
    /// The events that are still to come for the claims, and none for claims that are gone.
    due: BTreeSet<(Instant, ClaimId, Event)>,
}

/// A request that waits or runs in the shadow.
#[derive(Debug)]
struct Claim {
    arrived: Instant,
    snapshot: Snapshot,
    place: Place,
    /// The longest it may hold its slot, under the policy that was in force when it got it.
    max_hold: Option<Duration>,
    prefill: bool,
    /// How long after its arrival the head and the first byte of its response came, once they have.
    head: Option<Duration>,
    first_byte: Option<Duration>,
    /// How long it took, and how it ended, once it is over.
    over: Option<(Duration, Stage)>,
    /// When its events are due, by event, so that they are found among all when the claim goes.
    due: [Option<Instant>; Event::ALL.len()],
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Waiting(usize),
    Running {
        worker: u32,
        /// `None` if a reload has removed it.
        class: Option<usize>,
        since: Instant,
    },
}

/// What comes due in the shadow; for one request at the same moment, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    FirstByte,
    End,
    HoldExpires,
    WaitExpires,
}

impl Event {
    const ALL: [Self; 4] = [
        Self::FirstByte,
        Self::End,
        Self::HoldExpires,
        Self::WaitExpires,
    ];
}

impl Shadow {
    pub(super) fn new(policy: &Arc<PolicyConfig>, dominion: Option<usize>) -> Self {
        let mut state = State::enforced(policy, dominion);
        state.decided = Some(Vec::new());
        state.meter = Meter::imagined(policy, dominion);
        Self {
            state,
            claims: HashMap::new(),
            waiting: HashMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Decides about an arrival as if the decision counted. False if it would be turned away: there is then
    /// nothing to follow.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        epoch: Instant,
        arrival: &Arrival<'_>,
        id: ClaimId,
    ) -> bool {
        self.play(now);
        self.state.clock = Some(now);
        let generation = self.state.generation;
        let entered = self
            .state
            .enter(epoch, generation, arrival, &mut WakeList::default());
        let (place, wait_expires) = match entered {
            Err(_) => return false,
            Ok(Entered::Started { assigned, .. }) => {
                let running = Place::Running {
                    worker: assigned.index,
                    class: Some(arrival.class),
                    since: now,
                };
                (running, None)
            }
            Ok(Entered::Parked { waiter, deadline }) => {
                self.waiting.insert(waiter, id);
                (Place::Waiting(waiter), deadline)
            }
        };
        let class = &self.state.policy.classes[arrival.class];
        let max_hold = class.max_hold;
        self.claims.insert(
            id,
            Claim {
                arrived: now,
                snapshot: arrival.snapshot,
                place,
                max_hold,
                prefill: true,
                head: None,
                first_byte: None,
                over: None,
                due: Default::default(),
            },
        );
        self.plan(id, wait_expires, Event::WaitExpires);
        self.plan_expiry(id);
        self.settle(now);
        true
    }

    /// The head of a request's response has come.
    pub(super) fn head(&mut self, now: Instant, id: ClaimId) {
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.head = Some(now.saturating_duration_since(claim.arrived));
        }
    }

    /// The first byte of a request's response has come.
    pub(super) fn first_byte(&mut self, now: Instant, id: ClaimId) {
        if let Some(claim) = self.claims.get_mut(&id) {
            let after = now.saturating_duration_since(claim.arrived);
            claim.first_byte = Some(after);
            if let Place::Running { since, .. } = claim.place {
                self.plan(id, since.checked_add(after), Event::FirstByte);
            }
        }
        self.play(now);
    }

    /// A request is over, at this stage.
    pub(super) fn finish(&mut self, now: Instant, id: ClaimId, stage: Stage) {
        self.play(now);
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        let gone = stage < Stage::Completed;
        match claim.place {
            // Its client went away, and would have done so while it was queued.
            Place::Waiting(waiter) if gone => {
                self.forget(id);
                self.waiting.remove(&waiter);
                self.state.clock = Some(now);
                drop(self.state.leave(waiter, None, &mut WakeList::default()));
                self.settle(now);
            }
            Place::Running { .. } if gone => self.end(now, id, Ending::At(stage)),
            Place::Waiting(_) => {
                let took = now.saturating_duration_since(claim.arrived);
                claim.over = Some((took, stage));
            }
            Place::Running { since, .. } => {
                let took = now.saturating_duration_since(claim.arrived);
                claim.over = Some((took, stage));
                self.plan(id, since.checked_add(took), Event::End);
                self.play(now);
            }
        }
    }

    /// Changes the shadow's state, and settles what comes of it.
    pub(super) fn change<T>(
        &mut self,
        now: Instant,
        change: impl FnOnce(&mut State, &mut WakeList) -> T,
    ) -> T {
        self.play(now);
        self.state.clock = Some(now);
        let changed = change(&mut self.state, &mut WakeList::default());
        self.settle(now);
        changed
    }

    /// The classes have changed: `now_at` holds the new index of each.
    pub(super) fn move_classes(&mut self, now_at: &[Option<usize>]) {
        for claim in self.claims.values_mut() {
            if let Place::Running { class, .. } = &mut claim.place {
                *class = class.and_then(|class| now_at.get(class).copied().flatten());
            }
        }
    }

    /// Plays everything that has come due.
    pub(super) fn play(&mut self, now: Instant) {
        while let Some(&(at, id, event)) = self.due.first() {
            if at > now {
                return;
            }
            self.due.pop_first();
            match event {
                Event::FirstByte => self.end_prefill(at, id),
                Event::End => {
                    let over = self.claims.get(&id).and_then(|claim| claim.over);
                    if let Some((_, stage)) = over {
                        self.end(at, id, Ending::At(stage));
                    }
                }
                Event::HoldExpires => self.end(at, id, Ending::Revoked),
                Event::WaitExpires => self.expire_wait(at, id),
            }
        }
    }

    fn end_prefill(&mut self, at: Instant, id: ClaimId) {
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        let Place::Running { worker, .. } = claim.place else {
            return;
        };
        if std::mem::replace(&mut claim.prefill, false) {
            let uncached = claim.snapshot.uncached();
            self.state.clock = Some(at);
            self.state
                .end_prefill(worker, uncached, &mut WakeList::default());
            self.settle(at);
        }
    }

    fn end(&mut self, at: Instant, id: ClaimId, ending: Ending) {
        let Some(claim) = self.forget(id) else {
            return;
        };
        let Place::Running {
            worker,
            class,
            since,
        } = claim.place
        else {
            return;
        };
        let state = &mut self.state;
        state.clock = Some(at);
        let totals = match class {
            Some(class) => &mut state.totals[class],
            None => &mut state.former,
        };
        let head = claim.head.and_then(|after| since.checked_add(after));
        match ending {
            Ending::At(stage) => totals.end(stage),
            // Whether its head would have come by then decides what its client would have seen.
            Ending::Revoked if head.is_some_and(|head| head <= at) => totals.revoked += 1,
            Ending::Revoked => totals.rejected.add(Code::HoldTimeout),
        }
        let held = at.saturating_duration_since(since);
        state.drain.finished(claim.snapshot.cost(), held);
        state.note_imagined_hold(class, held);
        let prefill = if claim.prefill {
            claim.snapshot.uncached()
        } else {
            0
        };
        let mut wakes = WakeList::default();
        state.free(worker, prefill, &mut wakes);
        state.arbitrate(&mut wakes);
        self.settle(at);
    }

    fn expire_wait(&mut self, at: Instant, id: ClaimId) {
        let Some(Place::Waiting(waiter)) = self.claims.get(&id).map(|claim| claim.place) else {
            return;
        };
        self.state.clock = Some(at);
        drop(self.state.expire(waiter, &mut WakeList::default()));
        self.forget(id);
        self.waiting.remove(&waiter);
        self.settle(at);
    }

    /// Has the requests run that were given a slot, and forgets those that were turned away.
    fn settle(&mut self, at: Instant) {
        for waiter in self.state.decided() {
            let Some(id) = self.waiting.remove(&waiter) else {
                continue;
            };
            let status = self.state.waiters.try_remove(waiter).map(|it| it.status);
            let granted = match status {
                Some(Status::Granted { worker, class, .. }) => Some((worker, class)),
                _ => None,
            };
            let (Some((worker, class)), Some(claim)) = (granted, self.claims.get_mut(&id)) else {
                self.forget(id);
                continue;
            };
            claim.place = Place::Running {
                worker,
                class: Some(class),
                since: at,
            };
            claim.max_hold = self.state.policy.classes[class].max_hold;
            let (first_byte, over) = (claim.first_byte, claim.over);
            let since_then = |after| at.checked_add(after);
            self.plan(id, first_byte.and_then(since_then), Event::FirstByte);
            let over = over.and_then(|(after, _)| since_then(after));
            self.plan(id, over, Event::End);
            self.plan_expiry(id);
        }
    }

    fn plan_expiry(&mut self, id: ClaimId) {
        if let Some(&Claim {
            place: Place::Running { since, .. },
            max_hold: Some(hold),
            ..
        }) = self.claims.get(&id)
        {
            self.plan(id, since.checked_add(hold), Event::HoldExpires);
        }
    }

    /// Schedules an event for a claim, if there is a time for it.
    fn plan(&mut self, id: ClaimId, at: Option<Instant>, event: Event) {
        if let Some((claim, at)) = self.claims.get_mut(&id).zip(at) {
            claim.due[event as usize] = Some(at);
            self.due.insert((at, id, event));
        }
    }

    /// Forgets a claim and the events that were to come for it. O(log n).
    fn forget(&mut self, id: ClaimId) -> Option<Claim> {
        let claim = self.claims.remove(&id)?;
        for (event, at) in Event::ALL.into_iter().zip(claim.due) {
            if let Some(at) = at {
                self.due.remove(&(at, id, event));
            }
        }
        Some(claim)
    }
}

/// How a request ends in the shadow.
enum Ending {
    At(Stage),
    /// Its hold was as long as its class allows.
    Revoked,
}

impl State {
    /// The shadow, if the request with this id may be in it.
    pub(super) fn shadow_of(&mut self, claim: ClaimId) -> Option<&mut Shadow> {
        self.shadow.as_deref_mut().filter(|_| claim != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Entrance, Pool, fixtures};

    const POLICY: &str = "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: a, policy_family: a, cache_bucket: all, quantum: 1, max_hold_ms: 1000000, max_queue_wait_ms: 1000000}
dominions: [{id: pool, max_concurrency: 1, max_queue: 2, enforce: false}]
";

    fn enter(pool: &Arc<Pool>) -> Entrance {
        pool.enter(&fixtures::arrival(0, 1, 0))
    }

    /// How many requests are followed, and how many events are to come for them.
    fn sizes(pool: &Pool) -> (usize, usize) {
        let state = pool.lock();
        let shadow = state.shadow.as_ref().unwrap();
        assert!(shadow.waiting.len() <= shadow.claims.len());
        (shadow.claims.len(), shadow.due.len())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_comes_due_for_a_request_that_is_gone() {
        let policy: PolicyConfig = POLICY.parse().unwrap();
        let pool = Pool::new(Arc::new(policy), Some(0));
        for _ in 0..100 {
            drop(enter(&pool));
        }
        assert_eq!(sizes(&pool), (0, 0), "their holds would last on");
        let running = enter(&pool);
        for _ in 0..100 {
            drop([enter(&pool), enter(&pool)]);
        }
        assert_eq!(sizes(&pool), (1, 1), "and so would the waits of these");
        drop(running);
        assert_eq!(sizes(&pool), (0, 0));
    }
}
