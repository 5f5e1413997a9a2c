//! Slots that can be taken back: those with a longest hold, and those on local models, which a
//! change of profile may unload.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, Weak},
    task::{Context, Poll, Waker},
};

use slab::Slab;
use tokio::time::Instant;

use super::Grant;
use crate::sync::{
    Mutex,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

/// Why a slot was taken back from a request that still ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// Its class's `max_hold_ms` was over.
    HoldExpired,
    /// The profile in force does not have its local model.
    ProfileSwitch,
}

/// What a grant needs so that it can be revoked.
#[derive(Debug)]
pub(super) struct Revocation {
    pub(super) expires: Option<Instant>,
    /// 0 until it is revoked; then one more than the discriminant of [`Revoked`].
    reason: AtomicU8,
    /// Its key among the pool's [`Revocables`]; touched under the pool's lock only.
    key: AtomicUsize,
    /// Of whatever runs under the grant, which has to be told.
    waker: Mutex<Option<Waker>>,
}

/// No key: it is not registered yet, or no longer.
const NOWHERE: usize = usize::MAX;

impl Revocation {
    pub(super) fn new(expires: Option<Instant>) -> Self {
        Self {
            expires,
            reason: AtomicU8::new(0),
            key: AtomicUsize::new(NOWHERE),
            waker: Mutex::new(None),
        }
    }

    pub(super) fn reason(&self) -> Option<Revoked> {
        match self.reason.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Revoked::HoldExpired),
            _ => Some(Revoked::ProfileSwitch),
        }
    }

    /// Sets the reason, and returns the waker to wake once no lock is held.
    pub(super) fn revoke(&self, reason: Revoked) -> Option<Waker> {
        let code = match reason {
            Revoked::HoldExpired => 1,
            Revoked::ProfileSwitch => 2,
        };
        self.reason.store(code, Ordering::Release);
        self.waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Ready once it is revoked.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Revoked> {
        if self.reason().is_none() {
            drop(self.watch(cx.waker().clone()));
        }
        // Read after the waker is in place, so that a revocation in between is not missed.
        self.reason().map_or(Poll::Pending, Poll::Ready)
    }

    /// Has `waker` woken by a revocation that comes later, and returns the one it replaces.
    fn watch(&self, waker: Waker) -> Option<Waker> {
        self.waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(waker)
    }
}

/// The grants of a pool that can be revoked.
#[derive(Debug, Default)]
pub(super) struct Revocables {
    grants: Slab<Weak<Grant>>,
    by_expiry: BTreeSet<(Instant, usize)>,
}

impl Revocables {
    /// True if its hold is the next to expire.
    pub(super) fn insert(&mut self, grant: &Arc<Grant>, revocation: &Revocation) -> bool {
        let key = self.grants.insert(Arc::downgrade(grant));
        revocation.key.store(key, Ordering::Relaxed);
        let Some(expires) = revocation.expires else {
            return false;
        };
        self.by_expiry.insert((expires, key));
        self.next_expiry() == Some(expires)
    }

    pub(super) fn remove(&mut self, revocation: &Revocation) {
        let key = revocation.key.swap(NOWHERE, Ordering::Relaxed);
        if self.grants.try_remove(key).is_some() {
            if let Some(expires) = revocation.expires {
                self.by_expiry.remove(&(expires, key));
            }
        }
    }

    /// When the next hold expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.by_expiry.first().map(|&(expires, _)| expires)
    }

    /// The grants whose hold has expired.
    pub(super) fn expired(&self, now: Instant) -> Vec<Arc<Grant>> {
        let due = self
            .by_expiry
            .iter()
            .take_while(|&&(expires, _)| expires <= now);
        due.filter_map(|&(_, key)| self.grants.get(key)?.upgrade())
            .collect()
    }

    /// All grants that can be revoked.
    pub(super) fn all(&self) -> Vec<Arc<Grant>> {
        self.grants
            .iter()
            .filter_map(|(_, grant)| grant.upgrade())
            .collect()
    }
}
