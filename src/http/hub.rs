//! What all clones of a layer, and all services made from them, share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::core::Core;
use crate::config::PolicyConfig;

/// What a layer keeps from one policy to the next.
#[derive(Debug)]
pub(super) struct Hub {
    current: RwLock<Arc<Core>>,
    /// Held while the policy is replaced. No task is woken under it.
    reloading: Mutex<Reloading>,
}

/// What a reload must know about earlier changes.
#[derive(Debug, Default)]
pub(super) struct Reloading {
    /// The profile in force, once one has been chosen.
    pub(super) profile: Option<String>,
    /// The layer has been shut down.
    pub(super) shut_down: bool,
}

/// The way in. It is dropped with the last layer or service, when no more requests can arrive; those
/// that still wait are then turned away.
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
    /// Closes all queues, including those that a later policy adds.
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

    /// Waits for a reload that is under way, and returns the policy then in force.
    pub(super) fn settled(&self) -> Arc<Core> {
        let _reloading = self.reloading();
        self.current()
    }

    pub(super) fn reloading(&self) -> MutexGuard<'_, Reloading> {
        self.reloading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another policy in force for the requests to come.
    pub(super) fn supersede(&self, next: Arc<Core>) {
        let current = self.current.write();
        let before = std::mem::replace(&mut *current.unwrap_or_else(PoisonError::into_inner), next);
        before.supersede();
    }
}
