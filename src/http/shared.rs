//! What all clones of a layer, and all services made from them, have in common.

use std::sync::Arc;

use http::Request;

use super::{QueueHints, Rejection, facts::Facts};
use crate::{
    config::PolicyConfig,
    pool::{Arrival, Entrance, Permit, Pool, Refusal, Ticket},
};

/// A policy and its pools. Dropped with the last layer and the last service, when nobody can come
/// any more; those who still wait are turned away then.
#[derive(Debug)]
pub(super) struct Shared {
    policy: Arc<PolicyConfig>,
    /// By dominion.
    dominions: Vec<Arc<Pool>>,
    /// For requests without a dominion.
    unlimited: Arc<Pool>,
}

/// A request that was let in.
#[derive(Debug)]
pub(super) enum Entered {
    Admitted(Permit),
    Parked(Ticket),
}

impl Shared {
    pub(super) fn new(policy: PolicyConfig) -> Self {
        let policy = Arc::new(policy);
        let pool = |dominion| Pool::new(Arc::clone(&policy), dominion);
        Self {
            dominions: (0..policy.dominions.len())
                .map(|index| pool(Some(index)))
                .collect(),
            unlimited: pool(None),
            policy,
        }
    }

    /// The ids of the dominions; their order is that of the indexes.
    pub(super) fn dominion_ids(&self) -> impl Iterator<Item = &str> {
        self.policy.dominions.iter().map(|dominion| &*dominion.id)
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
        let facts = Facts::gather(request, said, &policy.headers)?;
        let known = |id: &str| policy.worker_by_id.get(id).copied();
        let worker = match facts.worker {
            Some(id) => Some(known(id).ok_or(Rejection::NoEligibleWorker)?),
            None => None,
        };
        let allowed_workers: Option<Vec<usize>> = facts
            .allowed_workers
            .map(|ids| ids.into_iter().filter_map(known).collect());

        let class = policy.class_of(facts.model, facts.policy, facts.snapshot.uncached());
        let dominion = policy.dominion_of(worker, facts.model, bound);
        let pool = dominion.map_or(&self.unlimited, |index| &self.dominions[index]);
        let entrance = pool.enter(&Arrival {
            class,
            snapshot: facts.snapshot,
            strict_priority: facts.strict_priority,
            priority_jump: facts.priority_jump,
            client: facts.client,
            model: facts.model,
            worker,
            allowed_workers: allowed_workers.as_deref(),
        });
        match entrance {
            Entrance::Admitted(permit) => Ok(Entered::Admitted(permit)),
            Entrance::Parked(ticket) => Ok(Entered::Parked(ticket)),
            Entrance::TurnedAway(refusal) => Err(self.explain(refusal, class, dominion)),
        }
    }

    /// A pool's refusal with the names that a client is told.
    fn explain(&self, refusal: Refusal, class: usize, dominion: Option<usize>) -> Rejection {
        let dominion = dominion.map(|index| Arc::clone(&self.policy.dominions[index].id));
        match refusal {
            Refusal::NoEligibleWorker => Rejection::NoEligibleWorker,
            Refusal::Rejected => Rejection::QueueRejected { dominion },
            Refusal::Full { max_queue } => Rejection::QueueFull {
                dominion,
                max_queue,
            },
            Refusal::Closed => Rejection::QueueUnavailable,
            Refusal::ClassLimit {
                kind,
                current,
                limit,
            } => Rejection::ClassLimit {
                policy_class: Arc::clone(&self.policy.classes[class].name),
                kind,
                current,
                limit,
            },
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let pools = self.dominions.iter().chain([&self.unlimited]);
        pools.for_each(|pool| pool.close());
    }
}
