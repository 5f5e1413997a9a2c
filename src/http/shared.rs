//! What all clones of a layer, and all services made from them, have in common.

use std::{
    ops::Deref,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use http::Request;
use http_body::Body;

use super::{
    Admission, CachedTokens, QueueHints, Reason, Rejection, RequestBody,
    facts::Facts,
    future::Entered,
    read_ahead::Budget,
    slot::Slot,
    snapshot::{Elsewhere, Unplaced},
};
use crate::{
    config::PolicyConfig,
    pool::{Arrival, Entrance, Places, Pool, Refusal, Refused, Revoked, Ticket, Wanted},
    schedule::Snapshot,
};

/// When to come again if nobody knows better.
const SOON: Duration = Duration::from_secs(1);

/// A policy and its pools.
#[derive(Debug)]
pub(super) struct Core {
    policy: Arc<PolicyConfig>,
    /// By dominion.
    dominions: Vec<Arc<Pool>>,
    /// For requests without a dominion.
    unlimited: Arc<Pool>,
    places: RwLock<Places>,
    read_ahead: Arc<Budget>,
    elsewhere: Elsewhere,
}

/// The way in. Dropped with the last layer and the last service, when nobody can come any more:
/// those who still wait are turned away then.
#[derive(Debug)]
pub(super) struct Door(Arc<Core>);

impl Door {
    pub(super) fn new(policy: PolicyConfig) -> Arc<Self> {
        Arc::new(Self(Arc::new(Core::new(policy))))
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.pools().for_each(|pool| pool.close());
    }
}

impl Core {
    fn new(policy: PolicyConfig) -> Self {
        let policy = Arc::new(policy);
        let pool = |dominion| Pool::new(Arc::clone(&policy), dominion);
        Self {
            dominions: (0..policy.dominions.len())
                .map(|index| pool(Some(index)))
                .collect(),
            unlimited: pool(None),
            places: RwLock::new(Places::new(&policy)),
            read_ahead: Arc::new(Budget::new(policy.read_ahead.total)),
            elsewhere: Elsewhere::default(),
            policy,
        }
    }

    pub(super) fn policy(&self) -> &PolicyConfig {
        &self.policy
    }

    /// The ids of the dominions; their order is that of the indexes.
    pub(super) fn dominion_ids(&self) -> impl Iterator<Item = &str> {
        self.policy.dominions.iter().map(|dominion| &*dominion.id)
    }

    /// The pool of a dominion, or that of no dominion.
    pub(super) fn pool(&self, dominion: Option<usize>) -> &Arc<Pool> {
        dominion.map_or(&self.unlimited, |index| &self.dominions[index])
    }

    pub(super) fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.dominions.iter().chain([&self.unlimited])
    }

    pub(super) fn places(&self) -> RwLockReadGuard<'_, Places> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn places_mut(&self) -> RwLockWriteGuard<'_, Places> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body that is read while its request is parked.
    pub(super) fn read_ahead<B: Body>(&self, body: B) -> RequestBody<B> {
        RequestBody::ahead(body, self.policy.read_ahead.request, &self.read_ahead)
    }

    /// Bytes that are read ahead now.
    pub(super) fn read_ahead_bytes(&self) -> usize {
        self.read_ahead.used()
    }

    /// True if the policy does not concern the request.
    pub(super) fn bypasses<B>(&self, request: &Request<B>) -> bool {
        let bypass = &self.policy.bypass;
        let path = request.uri().path();
        let bypasses = bypass.methods.contains(request.method())
            || bypass
                .path_prefixes
                .iter()
                .any(|prefix| path.starts_with(prefix));
        if bypasses {
            self.elsewhere.bypassed();
        }
        bypasses
    }

    /// What became of the requests that are not counted in a class.
    pub(super) fn unplaced(&self) -> Unplaced {
        self.elsewhere.read()
    }

    /// Takes a request's measure and decides about it. `said` is the classifier's word, `bound`
    /// the dominion of the route.
    pub(super) fn enter<B, K: CachedTokens>(
        &self,
        request: &Request<B>,
        said: &QueueHints,
        cache: &K,
        bound: Option<usize>,
    ) -> Result<Entered, Rejection> {
        let policy = &*self.policy;
        let facts = Facts::gather(request, said, &policy.headers);
        let facts = facts.map_err(|reason| self.reject_unplaced(reason))?;
        let dominion = self.dominion_of(&facts, bound);
        let dominion = dominion.ok_or_else(|| self.reject_unplaced(Reason::NoEligibleWorker))?;
        let pool = self.pool(dominion);
        if let Some(share) = request
            .extensions()
            .get()
            .and_then(|parent: &Admission| parent.share_in(pool))
        {
            self.elsewhere.nested();
            return Ok(Entered::Go(Slot::Parents(share)));
        }
        let mut wanted = Wanted {
            model: facts.model,
            worker: facts.worker,
            allowed_workers: facts.allowed_workers.as_deref(),
            tolerations: facts.tolerations,
            preferred: None,
        };
        let workers = if K::ASKED {
            pool.worker_ids(&wanted)
        } else {
            Vec::new()
        };
        let found = most_cached(cache, request, &workers);
        wanted.preferred = found.map(|(worker, _)| worker);
        let cached = facts.cached_tokens.or(found.map(|(_, tokens)| tokens));
        let snapshot = Snapshot::new(facts.raw_tokens, cached.unwrap_or(0));

        let class = policy.class_of(facts.model, facts.policy, snapshot.uncached());
        let entrance = pool.enter(&Arrival {
            class,
            snapshot,
            strict_priority: facts.strict_priority,
            priority_jump: facts.priority_jump,
            client: facts.client,
            hint: facts.policy,
            wanted,
            max_queue_wait: facts.max_queue_wait,
        });
        match entrance {
            Entrance::Admitted(permit) => Ok(Entered::Go(Slot::Own(permit))),
            Entrance::Parked(ticket) => Ok(Entered::Wait(ticket)),
            Entrance::TurnedAway(refusal) => {
                let reason = self.explain(refusal, class, dominion);
                let cost = snapshot.cost();
                let retry_after = reason
                    .worth_retrying()
                    .then(|| pool.retry_after(class, cost));
                Err(Rejection::new(policy, reason, retry_after))
            }
        }
    }

    /// The dominion of a request, which is none if it is unlimited; nothing if the worker that it asks
    /// for does not exist.
    fn dominion_of(&self, facts: &Facts<'_>, bound: Option<usize>) -> Option<Option<usize>> {
        if facts.worker.is_none() && facts.model.is_none() {
            // Most requests of a policy without workers: no lock is taken for them.
            return Some(bound.or(self.policy.fallback_dominion()));
        }
        self.places().dominion_of(facts.worker, facts.model, bound)
    }

    /// A pool's refusal with the names that a client is told.
    fn explain(&self, refusal: Refusal, class: usize, dominion: Option<usize>) -> Reason {
        let dominion = dominion.map(|index| Arc::clone(&self.policy.dominions[index].id));
        match refusal {
            Refusal::NoEligibleWorker => Reason::NoEligibleWorker,
            Refusal::Rejected => Reason::QueueRejected { dominion },
            Refusal::Full { max_queue } => Reason::QueueFull {
                dominion,
                max_queue,
            },
            Refusal::Closed | Refusal::Reloaded => Reason::QueueUnavailable,
            Refusal::ClassLimit {
                kind,
                current,
                limit,
            } => Reason::ClassLimit {
                policy_class: Arc::clone(&self.policy.classes[class].name),
                kind,
                current,
                limit,
            },
        }
    }

    /// A parked request was refused.
    pub(super) fn refused(&self, refused: Refused, ticket: &Ticket) -> Rejection {
        let reason = match refused {
            Refused::Closed => Reason::QueueUnavailable,
            Refused::TimedOut => Reason::QueueTimeout,
            Refused::NoEligibleWorker => Reason::NoEligibleWorker,
            Refused::ProfileSwitch => Reason::ProfileSwitch,
        };
        let retry_after = reason.worth_retrying().then(|| ticket.retry_after());
        Rejection::new(&self.policy, reason, retry_after)
    }

    /// A running request lost its slot before the head of its response came.
    pub(super) fn revoked(&self, revoked: Revoked) -> Rejection {
        self.reject(match revoked {
            Revoked::HoldExpired => Reason::HoldTimeout,
            Revoked::ProfileSwitch => Reason::ProfileSwitch,
        })
    }

    /// A request is turned away before its class is known.
    fn reject_unplaced(&self, reason: Reason) -> Rejection {
        let rejection = self.reject(reason);
        self.elsewhere.rejected(&rejection);
        rejection
    }

    /// A request is turned away for a reason that the length of no queue tells about.
    pub(super) fn reject(&self, reason: Reason) -> Rejection {
        Rejection::new(&self.policy, reason, Some(SOON))
    }
}

/// The worker that has most of the prompt, the first of several, and how many tokens that is.
fn most_cached<'a, B>(
    cache: &impl CachedTokens,
    request: &Request<B>,
    workers: &'a [Arc<str>],
) -> Option<(&'a str, u64)> {
    let cached = workers
        .iter()
        .map(|worker| (&**worker, cache.cached_tokens(request, worker)));
    let some = cached.filter(|&(_, tokens)| tokens > 0);
    some.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

impl Deref for Door {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.0
    }
}
