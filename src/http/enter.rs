//! How a request enters: its dominion, its cost, and its pool's decision.

use std::sync::Arc;

use http::Request;

use super::{
    Admission, CachedTokens, QueueHints, Reason, Rejection,
    core::{Core, Route},
    facts::Facts,
    future::Entered,
    slot::Slot,
};
use crate::{
    pool::{Arrival, Entrance, Place, Refusal, Wanted},
    schedule::Snapshot,
    trace,
};

/// Why a request was not let in.
#[derive(Debug)]
pub(super) enum NotEntered {
    Rejected(Rejection),
    /// The policy was replaced in the meantime; the request must be tried again under the next one.
    Superseded,
}

impl From<Rejection> for NotEntered {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl Core {
    /// Gathers the facts about a request and decides about it. `said` comes from the classifier.
    pub(super) fn enter<B, K: CachedTokens>(
        &self,
        request: &Request<B>,
        said: &QueueHints,
        cache: &K,
        route: Route,
    ) -> Result<Entered, NotEntered> {
        let told = request.extensions().get();
        let (sent, names) = (request.headers(), &self.policy().headers);
        match Facts::gather(said, told, sent, names) {
            Ok(ref facts) => self.decide(request, facts, cache, route),
            // Its class is unknown, but its dominion may still be known.
            Err(reason) => match Facts::destination(said, told, sent, names) {
                Ok((worker, model)) => {
                    let dominion = self.dominion_of(worker, model, route);
                    let dominion = dominion.unwrap_or_else(|_| self.dominion_beside(model, route));
                    self.unplaced_in(reason, dominion)
                }
                Err(_) => self.turn_away(reason, self.policy().enforces_any()),
            },
        }
    }

    /// Decides about a request by the facts.
    fn decide<B, K: CachedTokens>(
        &self,
        request: &Request<B>,
        facts: &Facts<'_>,
        cache: &K,
        route: Route,
    ) -> Result<Entered, NotEntered> {
        let policy = self.policy();
        let dominion = match self.dominion_of(facts.worker, facts.model, route) {
            Ok(dominion) => dominion,
            Err(reason) => {
                let dominion = self.dominion_beside(facts.model, route);
                return self.unplaced_in(reason, dominion);
            }
        };
        let pool = self.pool(dominion);
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

        let parent: Option<&Admission> = request.extensions().get();
        if let Some(share) = parent.and_then(|parent| parent.share_in(pool)) {
            let Some(visit) = share.visit(&wanted, snapshot) else {
                return self.unplaced_in(Reason::NoEligibleWorker, dominion);
            };
            self.elsewhere().nested();
            return Ok(Entered::Go(Slot::Parents(visit, share)));
        }

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
            // Dominions that the next policy does not have are closed by the reload.
            Entrance::TurnedAway(Refusal::Closed) if self.is_superseded() => {
                Err(NotEntered::Superseded)
            }
            Entrance::TurnedAway(Refusal::Reloaded) => Err(NotEntered::Superseded),
            Entrance::TurnedAway(refusal) => {
                let rejection = self.reject(refusal, class, dominion, snapshot.cost());
                Err(rejection.into())
            }
        }
    }

    /// The rejection of a request of this class and cost, in tokens, that its pool refused.
    fn reject(
        &self,
        refusal: Refusal,
        class: usize,
        dominion: Option<usize>,
        cost: u64,
    ) -> Rejection {
        let reason = self.explain(refusal, class, dominion);
        let pool = self.pool(dominion);
        let name = &self.policy().classes[class].name;
        let soon = || Some(pool.retry_after(class, cost));
        Rejection::of(self.policy(), reason, name, pool.id(), soon)
    }

    /// The dominion of a request; `None` if the request is unlimited.
    fn dominion_of(
        &self,
        worker: Option<&str>,
        model: Option<&str>,
        route: Route,
    ) -> Result<Option<usize>, Reason> {
        // Without workers in the policy most requests name neither, and so take no lock.
        if worker.is_some() || model.is_some() {
            match self.places().dominion_of(worker, model) {
                Place::In(dominion) => return Ok(dominion),
                Place::Nowhere => return Err(Reason::NoEligibleWorker),
                Place::Anywhere => {}
            }
        }
        match route {
            Route::Any => Ok(self.policy().fallback_dominion()),
            Route::Dominion(index) => Ok(Some(index)),
            Route::Gone => Err(Reason::QueueUnavailable),
        }
    }

    /// The dominion of a request whose worker does not exist.
    fn dominion_beside(&self, model: Option<&str>, route: Route) -> Option<usize> {
        self.dominion_of(None, model, route).unwrap_or_default()
    }

    /// Adds to a pool's refusal the names that a client is told.
    fn explain(&self, refusal: Refusal, class: usize, dominion: Option<usize>) -> Reason {
        let dominion = dominion.map(|index| Arc::clone(&self.policy().dominions[index].id));
        match refusal {
            Refusal::NoEligibleWorker => Reason::NoEligibleWorker,
            Refusal::Rejected => Reason::QueueRejected { dominion },
            Refusal::Full { max_queue } => Reason::QueueFull {
                dominion,
                max_queue,
            },
            Refusal::ClientLimit {
                max_queue_per_client,
            } => Reason::ClientLimit {
                dominion,
                max_queue_per_client,
            },
            Refusal::Closed | Refusal::Reloaded => Reason::QueueUnavailable,
            Refusal::ClassLimit {
                kind,
                current,
                limit,
            } => Reason::ClassLimit {
                policy_class: Arc::clone(&self.policy().classes[class].name),
                kind,
                current,
                limit,
            },
        }
    }

    /// Handles a request of this dominion whose class cannot be determined. It is turned away, or, if the
    /// dominion is not enforced, goes on without a class.
    fn unplaced_in(&self, reason: Reason, dominion: Option<usize>) -> Result<Entered, NotEntered> {
        self.turn_away(reason, self.policy().enforces(dominion))
    }

    fn turn_away(&self, reason: Reason, enforced: bool) -> Result<Entered, NotEntered> {
        if self.is_superseded() {
            // The next policy may have a place for it.
            return Err(NotEntered::Superseded);
        }
        let rejection = Rejection::unplaced(self.policy(), reason);
        self.elsewhere().rejected(&rejection);
        if !enforced {
            return Ok(Entered::Go(Slot::None));
        }
        trace::rejected(rejection.code(), None, None);
        Err(rejection.into())
    }
}

/// The worker with the most cached tokens, the first of several, and their number.
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
