//! What an admitted request knows of its admission.

use std::{sync::Arc, time::Duration};

use crate::{
    config::{Endpoint, Worker},
    pool::{Grant, Pool, Share},
};

/// How a request was admitted: in the extensions of the request that the inner service gets, and of
/// the response it gives.
///
/// A request that a handler sends through the same dominion, with these extensions, does not queue
/// again: it runs on its parent's slot, and on the worker of that slot too if it may go there; if
/// not, on another one that it may go to, busy or not, which counts it for as long as it runs. (Should
/// that be a local model that a change of profile unloads, it ends, and its parent does not.) So a
/// handler that calls back through the layer cannot wait for itself, through however many dominions
/// and layers it does so.
///
/// Requests that the key `bypass` lets past have none, nor have those without a class where nothing is
/// enforced: a handler of both takes an `Option` of it.
///
/// It names the slot without keeping it. To keep it past the end of the response body, as a
/// protocol upgrade or a spawned producer must, take a [`Hold`].
#[derive(Clone, Debug)]
pub struct Admission {
    grant: Arc<Grant>,
    /// What few have.
    nested: Option<Arc<Nested>>,
}

/// What a request has that was sent by the handler of another one.
#[derive(Clone, Debug, Default)]
struct Nested {
    /// The slot is that of the other one.
    shares: bool,
    /// Its worker, where that is not the one of the slot that it runs on.
    worker: Option<Arc<Worker>>,
    /// The slots, each of another dominion, that those have who wait for it.
    above: Vec<Arc<Grant>>,
}

impl Admission {
    pub(super) fn new(grant: Arc<Grant>) -> Self {
        Self {
            grant,
            nested: None,
        }
    }

    /// Of a request that runs on the slot of the one that sent it. `elsewhere` is its worker, where that
    /// is not the one of the slot.
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

    /// The same for a request that came with the admission of another one, whose slots it may go on
    /// to use: who has them waits for it.
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

    /// The request's own slot, and those above it.
    fn grants(&self) -> impl Iterator<Item = &Arc<Grant>> {
        let above = self.nested.iter().flat_map(|nested| &nested.above);
        [&self.grant].into_iter().chain(above)
    }

    /// A share of the slot that is one of this pool's, if it is still held.
    pub(super) fn share_in(&self, pool: &Arc<Pool>) -> Option<Share> {
        self.grants()
            .find(|grant| grant.pool().is_same(pool))?
            .share()
    }

    fn assigned(&self) -> Option<&Worker> {
        let elsewhere = self.nested.as_ref().and_then(|it| it.worker.as_deref());
        elsewhere.or_else(|| self.grant.worker())
    }

    /// The policy class.
    pub fn class(&self) -> &str {
        &self.grant.class().name
    }

    /// The model whose profile the class belongs to; none for the root profile.
    pub fn profile(&self) -> Option<&str> {
        self.grant.class().profile.as_deref()
    }

    /// The dominion that gave the slot; none if the request was not limited.
    pub fn dominion(&self) -> Option<&str> {
        self.grant.dominion().map(|id| &**id)
    }

    /// The worker the request was given to; none if the policy names no workers there.
    pub fn worker(&self) -> Option<&str> {
        self.assigned().map(|worker| &*worker.id)
    }

    /// That worker as the policy describes it; none for a local model.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.assigned()?.endpoint.as_deref()
    }

    /// How long it waited, from its arrival until it was granted a slot. One that runs on the slot of
    /// the request that sent it waited for nothing.
    pub fn queued_for(&self) -> Duration {
        if self.nested.as_ref().is_some_and(|nested| nested.shares) {
            return Duration::ZERO;
        }
        self.grant.queued_for()
    }

    /// Keeps the slot, beyond the response body, until the hold and all its clones are dropped.
    ///
    /// Take it before the response is returned: a slot that was given back already cannot be
    /// held, and the hold is then [empty](Hold::is_empty).
    pub fn hold(&self) -> Hold {
        Hold {
            share: self.grant.share(),
        }
    }
}

/// Keeps a slot taken past the end of its response: by an upgraded connection, or a task that goes
/// on producing.
///
/// Clones share the slot; it is given back when the response's body and all of them are gone. A slot
/// that may be taken back (`max_hold_ms`, or a change of profile) is taken from them too, and they are
/// not told. The request still counts as the worker's prefill until its first byte or its body's end,
/// whichever comes first.
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
    /// True if the slot had been given back before the hold was taken.
    pub fn is_empty(&self) -> bool {
        self.share.is_none()
    }
}
