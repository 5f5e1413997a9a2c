//! What an admitted request knows of its admission.

use std::{sync::Arc, time::Duration};

use crate::{
    config::{Endpoint, Worker},
    pool::{Grant, Pool, Share},
};

/// How a request was admitted. It is in the extensions of the request that the inner service receives,
/// and of the response that it returns.
///
/// Requests that bypass the policy (the key `bypass`) have none. Nor do those whose class could not be
/// determined and which were let through because nothing is enforced. A handler that may see either
/// extracts an `Option` of it.
///
/// # Nested requests
///
/// A request that a handler sends through the same dominion with these extensions does not queue again:
/// it runs on its parent's slot. So a handler that calls back through the layer cannot wait for itself,
/// however many dominions and layers are in between.
///
/// The nested request goes to its parent's worker if that is eligible. Otherwise it goes to another
/// eligible worker, busy or not, and counts toward that worker's load for as long as it runs. (If that
/// worker is a local model that a profile switch unloads, the nested request ends; its parent does not.)
///
/// # Keeping the slot
///
/// An `Admission` names the slot but does not keep it. To keep it past the end of the response body, as a
/// protocol upgrade or a spawned producer must, take a [`Hold`].
#[derive(Clone, Debug)]
pub struct Admission {
    grant: Arc<Grant>,
    /// Behind a pointer, as few requests have it.
    nested: Option<Arc<Nested>>,
}

/// What is particular to a request that another one's handler sent.
#[derive(Clone, Debug, Default)]
struct Nested {
    /// It runs on its parent's slot.
    shares: bool,
    /// Its worker, if that is not the slot's worker.
    worker: Option<Arc<Worker>>,
    /// The slots of its ancestors, which wait for it; each is in another dominion.
    above: Vec<Arc<Grant>>,
}

impl Admission {
    pub(super) fn new(grant: Arc<Grant>) -> Self {
        Self {
            grant,
            nested: None,
        }
    }

    /// The admission of a request that runs on its parent's slot. `elsewhere` is its worker, if that is
    /// not the slot's worker.
    pub(super) fn shared(grant: Arc<Grant>, elsewhere: Option<Arc<Worker>>) -> Self {
        let nested = Nested {
            shares: true,
            worker: elsewhere,
            above: Vec::new(),
        };
        Self {
            grant,
            nested: Some(Arc::new(nested)),
        }
    }

    /// Adds the slots of the request that sent this one. Requests that this one sends may run on them,
    /// as their owners wait for it.
    pub(super) fn below(mut self, other: &Self) -> Self {
        let above: Vec<_> = other
            .grants()
            .filter(|grant| !grant.pool().is_same(self.grant.pool()))
            .cloned()
            .collect();
        if !above.is_empty() {
            Arc::make_mut(self.nested.get_or_insert_default()).above = above;
        }
        self
    }

    /// The request's own slot, and those of its ancestors.
    fn grants(&self) -> impl Iterator<Item = &Arc<Grant>> {
        let above = self.nested.iter().flat_map(|nested| &nested.above);
        [&self.grant].into_iter().chain(above)
    }

    /// A share of the slot that belongs to this pool, if there is one and it is still held.
    pub(super) fn share_in(&self, pool: &Arc<Pool>) -> Option<Share> {
        self.grants()
            .find(|grant| grant.pool().is_same(pool))?
            .share()
    }

    fn assigned(&self) -> Option<&Worker> {
        let elsewhere = self.nested.as_ref().and_then(|it| it.worker.as_deref());
        elsewhere.or_else(|| self.grant.worker())
    }

    /// The name of the policy class.
    pub fn class(&self) -> &str {
        &self.grant.class().name
    }

    /// The model whose profile the class belongs to; `None` for the root profile.
    pub fn profile(&self) -> Option<&str> {
        self.grant.class().profile.as_deref()
    }

    /// The id of the dominion that granted the slot; `None` if the request was not limited.
    pub fn dominion(&self) -> Option<&str> {
        self.grant.dominion().map(|id| &**id)
    }

    /// The id of the worker that the request was dispatched to; `None` if the policy names no workers there.
    pub fn worker(&self) -> Option<&str> {
        self.assigned().map(|worker| &*worker.id)
    }

    /// That worker as the policy describes it; `None` for a local model.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.assigned()?.endpoint.as_deref()
    }

    /// How long the request waited, from its arrival until it was granted a slot. Zero for a request that
    /// runs on its parent's slot.
    pub fn queued_for(&self) -> Duration {
        if self.nested.as_ref().is_some_and(|nested| nested.shares) {
            return Duration::ZERO;
        }
        self.grant.queued_for()
    }

    /// Keeps the slot past the end of the response body, until the hold and all its clones are dropped.
    ///
    /// Take the hold before returning the response. A slot that has already been released cannot be held;
    /// the hold is then [empty](Hold::is_empty).
    pub fn hold(&self) -> Hold {
        Hold {
            share: self.grant.share(),
        }
    }
}

/// Keeps a slot past the end of its response, for an upgraded connection or a task that goes on
/// producing.
///
/// Clones share the slot; it is released when the response body and all of them are gone. A hold does not
/// keep the slot from being revoked (by `max_hold_ms` or a profile switch), and is not notified of it.
///
/// The request's prefill does not count toward its worker's load for longer because of a hold: it ends
/// with the first byte or the end of the body, whichever comes first.
///
/// ```
/// use http::Request;
/// use tower_policy_queue::Admission;
///
/// fn serve_websocket<B>(request: Request<B>) {
///     let hold = request.extensions().get().map(Admission::hold);
///     // In the task that runs the upgraded connection:
///     let session = move || {
///         let _slot = hold;
///         // ... until the socket closes.
///     };
///     # session();
/// }
/// # serve_websocket(Request::new(()));
/// ```
#[derive(Clone, Debug)]
#[must_use = "the slot is given back when the hold is dropped"]
pub struct Hold {
    share: Option<Share>,
}

impl Hold {
    /// True if the slot had already been released when the hold was taken.
    pub fn is_empty(&self) -> bool {
        self.share.is_none()
    }
}
