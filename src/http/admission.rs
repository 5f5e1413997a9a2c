//! What an admitted request knows of its admission.

use std::{sync::Arc, time::Duration};

use crate::{
    config::Endpoint,
    pool::{Grant, Pool, Share},
};

/// How a request was admitted: in the extensions of the request that the inner service gets, and of
/// the response it gives.
///
/// A request that a handler sends through the same dominion, with these extensions, does not queue
/// again: it runs on its parent's slot. So a handler that calls back through the layer cannot wait
/// for itself.
///
/// It names the slot without keeping it. To keep it past the end of the response body, as a
/// protocol upgrade or a spawned producer must, take a [`Hold`].
#[derive(Clone, Debug)]
pub struct Admission {
    grant: Arc<Grant>,
}

impl Admission {
    pub(super) fn new(grant: Arc<Grant>) -> Self {
        Self { grant }
    }

    /// A share of the slot if it is one of this pool's, and still held.
    pub(super) fn share_in(&self, pool: &Arc<Pool>) -> Option<Share> {
        self.grant
            .pool()
            .is_same(pool)
            .then(|| self.grant.share())?
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
        self.grant.dominion()
    }

    /// The worker the request was given to; none if the policy names no workers there.
    pub fn worker(&self) -> Option<&str> {
        self.grant.worker().map(|worker| &*worker.id)
    }

    /// That worker as the policy describes it; none for a local model.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.grant.worker()?.endpoint.as_deref()
    }

    /// How long it waited, from its arrival until it was granted a slot.
    pub fn queued_for(&self) -> Duration {
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
/// Clones share the slot; it is given back when the response's body and all of them are gone. The
/// request still counts as the worker's prefill until its first byte or its body's end, whichever
/// comes first.
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
