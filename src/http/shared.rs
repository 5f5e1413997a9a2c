//! What all clones of a layer, and all services made from them, have in common.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, Ordering},
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
    pool::{Arrival, Entrance, Place, Places, Pool, Refusal, Wanted},
    schedule::Snapshot,
    trace,
};

/// What a layer keeps from one policy to the next.
#[derive(Debug)]
pub(super) struct Hub {
    current: RwLock<Arc<Core>>,
    /// Held while the policy is replaced. Nobody is woken under it.
    reloading: Mutex<Reloading>,
}

/// What a reload has to know of the changes before it.
#[derive(Debug, Default)]
pub(super) struct Reloading {
    /// The profile in force, once one was chosen.
    pub(super) profile: Option<String>,
    /// The layer was shut down.
    pub(super) shut_down: bool,
}

/// A policy and its pools.
#[derive(Debug)]
pub(super) struct Core {
    policy: Arc<PolicyConfig>,
    /// By dominion.
    dominions: Vec<Arc<Pool>>,
    /// For requests without a dominion.
    unlimited: Arc<Pool>,
    places: RwLock<Places>,
    /// Dominions that there are no more, as long as somebody has a slot of theirs.
    retiring: Vec<Arc<Pool>>,
    /// Another policy is in force.
    superseded: AtomicBool,
    common: Arc<Common>,
}

/// What all policies of a layer have in common.
#[derive(Debug)]
struct Common {
    read_ahead: Arc<Budget>,
    elsewhere: Elsewhere,
}

/// The dominion that a route is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// To none.
    Any,
    /// By index.
    Dominion(usize),
    /// To one that a reload has removed.
    Gone,
}

/// Why a request was not let in.
#[derive(Debug)]
pub(super) enum NotEntered {
    Rejected(Rejection),
    /// The policy was replaced meanwhile; it is to be tried again with the next one.
    Superseded,
}

impl From<Rejection> for NotEntered {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// The way in. Dropped with the last layer and the last service, when nobody can come any more:
/// those who still wait are turned away then.
#[derive(Debug)]
pub(super) struct Door(Arc<Hub>);

impl Door {
    pub(super) fn new(policy: PolicyConfig) -> Arc<Self> {
        let core = Arc::new(Core::new(policy));
        Arc::new(Self(Arc::new(Hub {
            current: RwLock::new(core),
            reloading: Mutex::default(),
        })))
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.0
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

impl Hub {
    /// Ends all queues, and those that a later policy brings.
    pub(super) fn shut_down(&self) {
        let core = {
            let mut reloading = self.reloading();
            reloading.shut_down = true;
            self.current()
        };
        core.pools().for_each(|pool| pool.close().wake_all());
    }

    /// The policy in force.
    pub(super) fn current(&self) -> Arc<Core> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// The policy in force once no reload is under way.
    pub(super) fn settled(&self) -> Arc<Core> {
        let _reloading = self.reloading();
        self.current()
    }

    pub(super) fn reloading(&self) -> MutexGuard<'_, Reloading> {
        self.reloading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Has requests come under another policy from now on.
    pub(super) fn supersede(&self, next: Arc<Core>) {
        let current = self.current.write();
        let before = std::mem::replace(&mut *current.unwrap_or_else(PoisonError::into_inner), next);
        before.superseded.store(true, Ordering::Release);
    }
}

impl Core {
    fn new(policy: PolicyConfig) -> Self {
        let policy = Arc::new(policy);
        let pool = |dominion| Pool::new(Arc::clone(&policy), dominion);
        let common = Common {
            read_ahead: Arc::new(Budget::new(policy.read_ahead.total)),
            elsewhere: Elsewhere::default(),
        };
        Self {
            dominions: (0..policy.dominions.len())
                .map(|index| pool(Some(index)))
                .collect(),
            unlimited: pool(None),
            places: RwLock::new(Places::new(&policy)),
            retiring: Vec::new(),
            superseded: AtomicBool::new(false),
            common: Arc::new(common),
            policy,
        }
    }

    /// The same layer under another policy, with pools that were put under it already.
    pub(super) fn next(
        &self,
        policy: Arc<PolicyConfig>,
        dominions: Vec<Arc<Pool>>,
        unlimited: Arc<Pool>,
        places: Places,
    ) -> Arc<Self> {
        let mut next = Self {
            policy,
            dominions,
            unlimited,
            places: RwLock::new(places),
            retiring: Vec::new(),
            superseded: AtomicBool::new(false),
            common: Arc::clone(&self.common),
        };
        let retiring = self.retiring.iter().filter(|pool| !pool.is_idle());
        next.retiring = retiring.cloned().chain(self.gone_in(&next)).collect();
        Arc::new(next)
    }

    /// The dominions that the next policy does not have.
    pub(super) fn gone_in(&self, next: &Self) -> Vec<Arc<Pool>> {
        let known = |id: &str| next.dominion_ids().any(|known| known == id);
        let gone = self.dominion_ids().zip(&self.dominions);
        gone.filter(|(id, _)| !known(id))
            .map(|(_, pool)| Arc::clone(pool))
            .collect()
    }

    /// True once another policy is in force.
    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
    }

    /// The dominion of a route by the id that it is bound to.
    pub(super) fn route(&self, bound: Option<&str>) -> Route {
        match bound {
            None => Route::Any,
            Some(id) => {
                let index = self.dominion_ids().position(|known| known == id);
                index.map_or(Route::Gone, Route::Dominion)
            }
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

    /// Those of the policies before, too, that somebody still has a slot of.
    pub(super) fn all_pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.pools().chain(&self.retiring)
    }

    pub(super) fn places(&self) -> RwLockReadGuard<'_, Places> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn places_mut(&self) -> RwLockWriteGuard<'_, Places> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body that is read while its request is parked.
    pub(super) fn read_ahead<B: Body>(&self, body: B) -> RequestBody<B> {
        RequestBody::ahead(
            body,
            self.policy.read_ahead.request,
            &self.common.read_ahead,
        )
    }

    /// Bytes that are read ahead now.
    pub(super) fn read_ahead_bytes(&self) -> usize {
        self.common.read_ahead.used()
    }

    /// Has the policy's limit hold for what is read ahead. It wakes whoever waits for room.
    pub(super) fn apply_read_ahead(&self) {
        self.common
            .read_ahead
            .set_limit(self.policy.read_ahead.total);
    }

    /// True if the policy does not concern the request.
    pub(super) fn bypasses<B>(&self, request: &Request<B>) -> bool {
        let bypass = &self.policy.bypass;
        let path = request.uri().path();
        let prefixes = &bypass.path_prefixes;
        let bypasses = bypass.methods.contains(request.method())
            || prefixes.iter().any(|prefix| path.starts_with(prefix)) && !climbs(path);
        if bypasses {
            self.common.elsewhere.bypassed();
        }
        bypasses
    }

    /// What became of the requests that are not counted in a class.
    pub(super) fn unplaced(&self) -> Unplaced {
        self.common.elsewhere.read()
    }

    /// Takes a request's measure and decides about it. `said` is the classifier's word.
    pub(super) fn enter<B, K: CachedTokens>(
        &self,
        request: &Request<B>,
        said: &QueueHints,
        cache: &K,
        route: Route,
    ) -> Result<Entered, NotEntered> {
        let told = request.extensions().get();
        let (sent, names) = (request.headers(), &self.policy.headers);
        match Facts::gather(said, told, sent, names) {
            Ok(facts) => self.decide(request, &facts, cache, route),
            // Its class is unknown, but where it belongs may be known.
            Err(reason) => match Facts::destination(said, told, sent, names) {
                Ok((worker, model)) => {
                    let dominion = self.dominion_of(worker, model, route);
                    let dominion = dominion.unwrap_or_else(|_| self.dominion_beside(model, route));
                    self.unplaced_in(reason, dominion)
                }
                Err(_) => {
                    let mut dominions = self.policy.dominions.iter();
                    let enforced = dominions.any(|dominion| dominion.enforce);
                    self.turn_away(reason, enforced)
                }
            },
        }
    }

    /// Decides about a request by what is known of it.
    fn decide<B, K: CachedTokens>(
        &self,
        request: &Request<B>,
        facts: &Facts<'_>,
        cache: &K,
        route: Route,
    ) -> Result<Entered, NotEntered> {
        let policy = &*self.policy;
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
            self.common.elsewhere.nested();
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
            // A dominion that the next policy does not have was closed with this one.
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

    /// The answer to a request of this class and cost, in tokens, that its pool refused.
    fn reject(
        &self,
        refusal: Refusal,
        class: usize,
        dominion: Option<usize>,
        cost: u64,
    ) -> Rejection {
        let reason = self.explain(refusal, class, dominion);
        let pool = self.pool(dominion);
        let name = &self.policy.classes[class].name;
        let soon = || Some(pool.retry_after(class, cost));
        Rejection::of(&self.policy, reason, name, pool.id(), soon)
    }

    /// The dominion of a request, which is none if it is unlimited.
    fn dominion_of(
        &self,
        worker: Option<&str>,
        model: Option<&str>,
        route: Route,
    ) -> Result<Option<usize>, Reason> {
        // Most requests of a policy without workers: no lock is taken for them.
        if worker.is_some() || model.is_some() {
            match self.places().dominion_of(worker, model) {
                Place::In(dominion) => return Ok(dominion),
                Place::Nowhere => return Err(Reason::NoEligibleWorker),
                Place::Anywhere => {}
            }
        }
        match route {
            Route::Any => Ok(self.policy.fallback_dominion()),
            Route::Dominion(index) => Ok(Some(index)),
            Route::Gone => Err(Reason::QueueUnavailable),
        }
    }

    /// The dominion of a request whose worker there is not.
    fn dominion_beside(&self, model: Option<&str>, route: Route) -> Option<usize> {
        self.dominion_of(None, model, route).unwrap_or_default()
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
                policy_class: Arc::clone(&self.policy.classes[class].name),
                kind,
                current,
                limit,
            },
        }
    }

    /// A request of this dominion whose class cannot be known: it is turned away, or, where the dominion
    /// is not enforced, goes its way without one.
    fn unplaced_in(&self, reason: Reason, dominion: Option<usize>) -> Result<Entered, NotEntered> {
        self.turn_away(reason, self.policy.enforces(dominion))
    }

    fn turn_away(&self, reason: Reason, enforced: bool) -> Result<Entered, NotEntered> {
        if self.is_superseded() {
            // The next policy may have a place for it.
            return Err(NotEntered::Superseded);
        }
        let rejection = Rejection::unplaced(&self.policy, reason);
        self.common.elsewhere.rejected(&rejection);
        if !enforced {
            return Ok(Entered::Go(Slot::None));
        }
        trace::rejected(rejection.code(), None, None);
        Err(rejection.into())
    }
}

/// True of a path that whoever resolves its `.` and `..` may take for another one, which the policy
/// concerns, whether they are escaped once or more than once, or have parameters.
fn climbs(path: &str) -> bool {
    let plain = path.to_ascii_lowercase();
    if plain.contains("%25") {
        return true;
    }
    let plain = plain.replace("%2e", ".").replace("%2f", "/");
    let plain = plain.replace("%5c", "/").replace('\\', "/");
    plain.split('/').any(|segment| {
        let name = segment.split([';', '%']).next();
        matches!(name, Some("." | ".."))
    })
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
