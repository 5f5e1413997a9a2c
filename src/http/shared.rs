//! What all clones of a layer, and all services made from them, have in common.

use std::{
    ops::Deref,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use http::Request;
use http_body::Body;

use super::{
    Admission, QueueHints, Reason, Rejection, RequestBody, facts::Facts, future::Entered,
    read_ahead::Budget, slot::Slot,
};
use crate::{
    config::PolicyConfig,
    pool::{Arrival, Entrance, Places, Pool, Refusal, Refused, Revoked, Ticket, Wanted},
};

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
        bypass.methods.contains(request.method())
            || bypass
                .path_prefixes
                .iter()
                .any(|prefix| path.starts_with(prefix))
    }

    /// Takes a request's measure and decides about it. `said` is the classifier's word, `bound`
    /// the dominion of the route.
    pub(super) fn enter<B>(
        &self,
        request: &Request<B>,
        said: &QueueHints,
        bound: Option<usize>,
    ) -> Result<Entered, Rejection> {
        let policy = &*self.policy;
        let facts =
            Facts::gather(request, said, &policy.headers).map_err(|reason| self.reject(reason))?;
        let dominion = if facts.worker.is_none() && facts.model.is_none() {
            // Most requests of a policy without workers: no lock is taken for them.
            bound.or(self.policy.fallback_dominion())
        } else {
            let place = self.places().dominion_of(facts.worker, facts.model, bound);
            place.ok_or_else(|| self.reject(Reason::NoEligibleWorker))?
        };
        let pool = self.pool(dominion);
        if let Some(share) = request
            .extensions()
            .get()
            .and_then(|parent: &Admission| parent.share_in(pool))
        {
            return Ok(Entered::Go(Slot::Parents(share)));
        }
        let class = policy.class_of(facts.model, facts.policy, facts.snapshot.uncached());
        let entrance = pool.enter(&Arrival {
            class,
            snapshot: facts.snapshot,
            strict_priority: facts.strict_priority,
            priority_jump: facts.priority_jump,
            client: facts.client,
            wanted: Wanted {
                model: facts.model,
                worker: facts.worker,
                allowed_workers: facts.allowed_workers.as_deref(),
                tolerations: facts.tolerations,
            },
            max_queue_wait: facts.max_queue_wait,
        });
        match entrance {
            Entrance::Admitted(permit) => Ok(Entered::Go(Slot::Own(permit))),
            Entrance::Parked(ticket) => Ok(Entered::Wait(ticket)),
            Entrance::TurnedAway(refusal) => {
                let reason = self.explain(refusal, class, dominion);
                let cost = facts.snapshot.cost();
                let retry_after = reason
                    .worth_retrying()
                    .then(|| pool.retry_after(class, cost));
                Err(Rejection::new(policy, reason, retry_after))
            }
        }
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
            Refusal::Closed => Reason::QueueUnavailable,
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

    /// A request is turned away that no time makes welcome, as far as is known.
    pub(super) fn reject(&self, reason: Reason) -> Rejection {
        let soon = std::time::Duration::from_secs(1);
        Rejection::new(&self.policy, reason, Some(soon))
    }
}

impl Deref for Door {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.0
    }
}
