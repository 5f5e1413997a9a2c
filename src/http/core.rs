//! A policy in force, with the pools of its dominions.

use std::sync::{
    Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicBool, Ordering},
};

use http::Request;
use http_body::Body;

use super::{
    RequestBody,
    read_ahead::Budget,
    snapshot::{Elsewhere, Unplaced},
};
use crate::{
    config::PolicyConfig,
    pool::{Places, Pool},
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
    /// Removed dominions, for as long as a request holds one of their slots.
    retiring: Vec<Arc<Pool>>,
    /// Another policy is in force.
    superseded: AtomicBool,
    common: Arc<Common>,
}

/// What a layer keeps across reloads.
#[derive(Debug)]
struct Common {
    read_ahead: Arc<Budget>,
    elsewhere: Elsewhere,
}

/// The dominion that a route is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Bound to none.
    Any,
    /// By index.
    Dominion(usize),
    /// Bound to one that a reload has removed.
    Gone,
}

impl Core {
    pub(super) fn new(policy: PolicyConfig) -> Self {
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

    /// The same layer under another policy, which the given pools already follow.
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
        // The reload that removed one closes it last: until then a request may enter it that came under
        // the policy before.
        let retiring = self.retiring.iter().filter(|pool| !pool.is_over());
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

    /// Marks that another policy is in force.
    pub(super) fn supersede(&self) {
        self.superseded.store(true, Ordering::Release);
    }

    /// True once another policy is in force.
    pub(super) fn is_superseded(&self) -> bool {
        self.superseded.load(Ordering::Acquire)
    }

    /// Looks up the dominion id that a route is bound to.
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

    /// The ids of the dominions, in the order of their indexes.
    pub(super) fn dominion_ids(&self) -> impl Iterator<Item = &str> {
        self.policy.dominions.iter().map(|dominion| &*dominion.id)
    }

    /// The pool of a dominion, or of requests without one.
    pub(super) fn pool(&self, dominion: Option<usize>) -> &Arc<Pool> {
        dominion.map_or(&self.unlimited, |index| &self.dominions[index])
    }

    pub(super) fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.dominions.iter().chain([&self.unlimited])
    }

    /// Includes removed dominions that still have a slot in use.
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

    /// Bytes currently read ahead.
    pub(super) fn read_ahead_bytes(&self) -> usize {
        self.common.read_ahead.used()
    }

    /// Applies the policy's limit on what is read ahead. Wakes the readers that wait for room.
    pub(super) fn apply_read_ahead(&self) {
        self.common
            .read_ahead
            .set_limit(self.policy.read_ahead.total);
    }

    /// True if the request bypasses the policy; it is then counted as such.
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

    /// The counters of requests that are not counted in any class.
    pub(super) fn elsewhere(&self) -> &Elsewhere {
        &self.common.elsewhere
    }

    /// What became of requests that are not counted in any class.
    pub(super) fn unplaced(&self) -> Unplaced {
        self.common.elsewhere.read()
    }
}

/// True if the path has a `.` or `..` segment, escaped any number of times or with parameters. A server
/// that resolves it may serve another path, one that does not bypass the policy.
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
