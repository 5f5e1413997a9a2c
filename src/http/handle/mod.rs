//! Changes to a layer while it runs, and its end.

mod error;
mod worker_spec;

use std::{fmt, sync::Arc};

pub use self::{error::ChangeError, worker_spec::WorkerSpec};

use super::{
    core::Core,
    hub::Hub,
    reload,
    snapshot::{Snapshot, Usage, WAITERS},
};
use crate::{
    config::{PolicyChanges, PolicyConfig, Worker},
    pool::{Condition, Places, Pool, Switched},
};

/// A handle on the queues of a layer: to change them while they run, and to end them.
///
/// Each change takes effect at once: whoever may go after it goes. Nobody who is queued is evicted
/// by a change of limits, and nobody's response is cut off, except by
/// [`switch_profile`](Self::switch_profile).
///
/// ```
/// use tower_policy_queue::{PolicyConfig, PolicyQueueLayer};
///
/// let config: PolicyConfig = "dominions: [{id: gpu, kind: remote, max_concurrency: 4}]".parse()?;
/// let layer = PolicyQueueLayer::new(config);
/// let handle = layer.handle();
/// handle.set_max_concurrency("gpu", Some(8))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PolicyQueueHandle {
    hub: Arc<Hub>,
}

impl PolicyQueueHandle {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self { hub }
    }

    /// Changes where the workers are, under the policy in force.
    fn change_places<T>(&self, change: impl FnOnce(&Core, &mut Places) -> T) -> T {
        loop {
            let core = self.hub.settled();
            let mut places = core.places_mut();
            // A reload takes over what was changed before it.
            if !core.is_superseded() {
                return change(&core, &mut places);
            }
        }
    }

    /// Adds a worker. Requests that wait already may go to it like those that come, if it serves their
    /// model and is on their allow-lists (of which 1024 bytes are kept). One that was removed and comes
    /// back has those on it that it still serves.
    ///
    /// # Errors
    ///
    /// If its id is not a name or is taken, if its dominion does not exist or is a local one, or if
    /// one of its models has no name, is named twice or is served in another dominion.
    pub fn add_worker(&self, spec: WorkerSpec) -> Result<(), ChangeError> {
        let (worker, dominion) = spec.into_worker()?;
        let wakes = self.change_places(|core, places| {
            let dominion = match dominion {
                Some(id) => {
                    let index = dominion_index(core, &id)?;
                    if core.policy().dominions[index].local {
                        return Err(ChangeError::LocalDominion { id });
                    }
                    Some(index)
                }
                None => None,
            };
            let worker = Arc::new(Worker { dominion, ..worker });
            if places.of_worker(&worker.id).is_some() {
                return Err(ChangeError::WorkerExists {
                    id: worker.id.to_string(),
                });
            }
            if let Some(model) = places.model_elsewhere(&worker) {
                return Err(ChangeError::ModelElsewhere {
                    model: model.to_owned(),
                });
            }
            places.add(&worker);
            // Under the same lock, so that a request that finds the place finds the worker.
            Ok(core.pool(dominion).add_worker(worker))
        })?;
        wakes.wake_all();
        Ok(())
    }

    /// Takes a worker out of service for good. Requests that could go to no other are answered with
    /// `no_eligible_worker`; those that it has finish.
    ///
    /// # Errors
    ///
    /// If there is no such worker.
    pub fn remove_worker(&self, id: &str) -> Result<(), ChangeError> {
        let wakes = self.change_places(|core, places| {
            let dominion = places.of_worker(id).ok_or_else(|| unknown_worker(id))?;
            let (models, wakes) = core.pool(dominion).remove_worker(id);
            places.remove(id, &models);
            Ok(wakes)
        })?;
        wakes.wake_all();
        Ok(())
    }

    /// Stops giving a worker requests, or goes on with it. Those that it has finish; those that
    /// wait for it alone go on waiting, and others like them are answered with
    /// `no_eligible_worker`.
    ///
    /// # Errors
    ///
    /// If there is no such worker.
    pub fn drain_worker(&self, id: &str, draining: bool) -> Result<(), ChangeError> {
        self.set_condition(id, |condition| condition.draining = draining)
    }

    /// Stops giving a worker requests while it is overloaded, or goes on with it. Requests that wait go
    /// on waiting; those that come, and that no other worker may serve, are answered with
    /// `no_eligible_worker`.
    ///
    /// # Errors
    ///
    /// If there is no such worker.
    pub fn set_overloaded(&self, id: &str, overloaded: bool) -> Result<(), ChangeError> {
        self.set_condition(id, |condition| condition.overloaded = overloaded)
    }

    /// Keeps those requests away from a worker that do not tolerate `taint`, or lets them come again:
    /// see [`QueueHints::tolerations`](crate::QueueHints::tolerations).
    ///
    /// # Errors
    ///
    /// If there is no such worker.
    pub fn set_taint(&self, id: &str, taint: &str, tainted: bool) -> Result<(), ChangeError> {
        self.set_condition(id, |condition| {
            if tainted {
                condition.taints.insert(taint.into());
            } else {
                condition.taints.remove(taint);
            }
        })
    }

    /// Changes how many slots a dominion has; `None` is unlimited. If there are fewer than are
    /// taken, none is handed out until enough are back.
    ///
    /// # Errors
    ///
    /// If there is no such dominion, or for a limit of 0.
    pub fn set_max_concurrency(
        &self,
        dominion: &str,
        slots: Option<usize>,
    ) -> Result<(), ChangeError> {
        if slots == Some(0) {
            return Err(ChangeError::Zero);
        }
        self.pool(dominion)?.set_max_concurrency(slots);
        Ok(())
    }

    /// Changes how many requests may wait in a dominion.
    ///
    /// # Errors
    ///
    /// If there is no such dominion, or for a limit of 0.
    pub fn set_max_queue(&self, dominion: &str, max_queue: usize) -> Result<(), ChangeError> {
        if max_queue == 0 {
            return Err(ChangeError::Zero);
        }
        self.pool(dominion)?.set_max_queue(max_queue);
        Ok(())
    }

    /// Loads the local models of a profile and no others, as far as the layer knows: requests that
    /// wait for other local models, or run on them, are answered with `profile_switch`, and a
    /// response that is under way ends with a [`SlotRevoked`](crate::SlotRevoked). The rest is not
    /// touched. Until the first switch, all local models are taken to be loaded.
    ///
    /// # Errors
    ///
    /// If the policy has no such profile.
    pub fn switch_profile(&self, name: &str) -> Result<(), ChangeError> {
        let changed = {
            // A reload has the profile in force apply to the models it brings.
            let mut reloading = self.hub.reloading();
            let core = self.hub.current();
            let changed = reload::select(&core, &reload::selection(core.policy(), name)?);
            reloading.profile = Some(name.to_owned());
            changed
        };
        changed.into_iter().for_each(Switched::settle);
        Ok(())
    }

    /// Puts the layer under another policy, while requests wait and run.
    ///
    /// Dominions, classes and workers are matched by their names. Dominions and classes keep their
    /// waiters, deficits, slots and counts, workers what they have in hand. Requests that wait in a
    /// class that is gone come to the class that the new policy gives them, in the place of their
    /// arrival; those of a dominion that is gone are answered with `queue_unavailable`, and those that
    /// could go to no worker any more with `no_eligible_worker`. Requests in flight keep their slots,
    /// by the rules they were given them by; a lower `max_concurrency` takes none back. Whoever may go
    /// under the new policy goes at once.
    ///
    /// What was set by [`set_max_concurrency`](Self::set_max_concurrency) and
    /// [`set_max_queue`](Self::set_max_queue) is forgotten for what the new policy says, and a worker that was
    /// removed is back if the policy has it. Workers that were [added](Self::add_worker) stay, unless
    /// the policy has their id, serves one of their models in another dominion or has not got their
    /// dominion. A dominion that was closed stays closed, a profile in force stays so. Where several
    /// workers are equally loaded, those that a reload brought come last, unless so many were removed that
    /// they come in the places of forgotten ones.
    ///
    /// The answer is what is different from the policy before.
    ///
    /// ```
    /// use tower_policy_queue::{PolicyConfig, PolicyQueueLayer};
    ///
    /// let config: PolicyConfig = "dominions: [{id: gpu, max_concurrency: 4}]".parse()?;
    /// let handle = PolicyQueueLayer::new(config).handle();
    /// // On SIGHUP, say, from `PolicyConfig::from_path`: a bad file is an error before anything changes.
    /// let config: PolicyConfig = "dominions: [{id: gpu, max_concurrency: 8}]".parse()?;
    /// let changes = handle.reload(config)?;
    /// assert_eq!(changes.to_string(), "~ dominions.gpu.max_concurrency: 4 -> 8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the profile in force is not one of the new policy's. Nothing is changed then.
    pub fn reload(&self, config: PolicyConfig) -> Result<PolicyChanges, ChangeError> {
        reload::reload(&self.hub, config)
    }

    /// Ends the queue of a dominion: whoever waits in it, and whoever comes, is answered with
    /// `queue_unavailable`. Those who have a slot finish. It stays closed as long as each policy that
    /// the layer is [put under](Self::reload) has it.
    ///
    /// # Errors
    ///
    /// If there is no such dominion.
    pub fn close_dominion(&self, id: &str) -> Result<(), ChangeError> {
        self.pool(id)?.close().wake_all();
        Ok(())
    }

    /// Ends all queues for good, that of the requests without a dominion too: a later
    /// [`reload`](Self::reload) opens none of them, and none of its own.
    pub fn shutdown(&self) {
        self.hub.shut_down();
    }

    /// What the layer has in hand right now, all dominions together.
    pub fn usage(&self) -> Usage {
        let core = self.hub.current();
        let mut usage = Usage {
            read_ahead_bytes: core.read_ahead_bytes(),
            ..Usage::default()
        };
        for pool in core.all_pools() {
            let counts = pool.counts();
            usage.slots_in_use += counts.in_use;
            usage.waiting += counts.waiting;
            usage.prefill_tokens = usage.prefill_tokens.saturating_add(counts.prefill);
        }
        usage
    }

    /// What the layer looks like right now, and why each of those waits who wait: the next 100 of
    /// each dominion, and 100 of those that are blocked.
    ///
    /// Dominions are looked at one after the other; what is said of one is of one moment. Its lock is
    /// held while it is copied, no longer.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(WAITERS)
    }

    /// A [`snapshot`](Self::snapshot) with as many of those that wait as `waiters` says.
    pub fn snapshot_of(&self, waiters: usize) -> Snapshot {
        let core = self.hub.current();
        Snapshot {
            dominions: core.pools().map(|pool| pool.snapshot(waiters)).collect(),
            usage: self.usage(),
            unplaced: core.unplaced(),
        }
    }

    /// Waits until no request has a slot. New ones may come meanwhile, unless the queues are
    /// [shut down](Self::shutdown).
    pub async fn drained(&self) {
        // Others may come while the last ones go, and another policy.
        loop {
            let core = self.hub.current();
            if core.all_pools().all(|pool| pool.is_idle()) {
                return;
            }
            for pool in core.all_pools() {
                pool.idle().await;
            }
        }
    }

    fn set_condition(&self, id: &str, change: impl Fn(&mut Condition)) -> Result<(), ChangeError> {
        // Whoever it wakes may look for a place.
        let core = self.hub.settled();
        let dominion = core.places().of_worker(id);
        let dominion = dominion.ok_or_else(|| unknown_worker(id))?;
        core.pool(dominion).set_condition(id, change);
        Ok(())
    }

    fn pool(&self, dominion: &str) -> Result<Arc<Pool>, ChangeError> {
        let core = self.hub.settled();
        let index = dominion_index(&core, dominion)?;
        Ok(Arc::clone(core.pool(Some(index))))
    }
}

fn dominion_index(core: &Core, id: &str) -> Result<usize, ChangeError> {
    let index = core.dominion_ids().position(|known| known == id);
    index.ok_or_else(|| ChangeError::UnknownDominion { id: id.to_owned() })
}

impl fmt::Debug for PolicyQueueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = self.hub.current();
        let dominions: Vec<_> = core.dominion_ids().collect();
        f.debug_struct("PolicyQueueHandle")
            .field("dominions", &dominions)
            .finish_non_exhaustive()
    }
}

fn unknown_worker(id: &str) -> ChangeError {
    ChangeError::UnknownWorker { id: id.to_owned() }
}
