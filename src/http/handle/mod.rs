//! Inspects, changes and shuts down a layer while it runs.

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

/// A handle to the queues of a layer, to inspect them, change them while they run, and shut them down.
///
/// Each change takes effect at once: requests that may start after it start. No change of a limit evicts
/// a waiting request, and no change cuts off a response, except [`switch_profile`](Self::switch_profile).
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

    /// Changes which workers there are, under the policy in force.
    fn change_places<T>(&self, change: impl FnOnce(&Core, &mut Places) -> T) -> T {
        loop {
            let core = self.hub.settled();
            let mut places = core.places_mut();
            // If superseded, a reload has already taken over the places: a change would be lost.
            if !core.is_superseded() {
                return change(&core, &mut places);
            }
        }
    }

    /// Adds a worker.
    ///
    /// Waiting requests may go to it just like new ones, if it serves their model and is on their allow-list
    /// (of which 1024 bytes are kept while a request waits). A worker that was removed and is added again
    /// still has the requests that it has not finished.
    ///
    /// # Errors
    ///
    /// If its id is not a valid name or is taken, if its dominion does not exist or is a local one, or if
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

    /// Removes a worker. Waiting requests that could go to no other worker are answered with
    /// `no_eligible_worker`; requests that it already has finish.
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

    /// Starts or stops draining a worker. A draining worker gets no requests.
    ///
    /// Requests that it already has finish. Requests that wait for it alone go on waiting; new ones that
    /// only it may serve are answered with `no_eligible_worker`.
    ///
    /// # Errors
    ///
    /// If there is no such worker.
    pub fn drain_worker(&self, id: &str, draining: bool) -> Result<(), ChangeError> {
        self.set_condition(id, |condition| condition.draining = draining)
    }

    /// Marks a worker as overloaded, or no longer so. An overloaded worker gets no requests.
    ///
    /// Requests that wait go on waiting; new ones that no other worker may serve are answered with
    /// `no_eligible_worker`.
    ///
    /// # Errors
    ///
    /// If there is no such worker.
    pub fn set_overloaded(&self, id: &str, overloaded: bool) -> Result<(), ChangeError> {
        self.set_condition(id, |condition| condition.overloaded = overloaded)
    }

    /// Adds a taint to a worker, or removes it. Requests that do not tolerate `taint` do not go to a tainted
    /// worker: see [`QueueHints::tolerations`](crate::QueueHints::tolerations).
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

    /// Sets how many slots a dominion has; `None` is unlimited. If more than that are in use, none is
    /// granted until enough have been released.
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

    /// Sets how many requests may wait in a dominion.
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

    /// Puts a profile in force: from here on, the layer treats its local models, and no others, as loaded.
    ///
    /// Requests that wait for other local models, or run on them, are answered with `profile_switch`; a
    /// response that is under way ends with a [`SlotRevoked`](crate::SlotRevoked). Other requests are not
    /// affected. Until the first switch, all local models count as loaded.
    ///
    /// # Errors
    ///
    /// If the policy has no such profile.
    pub fn switch_profile(&self, name: &str) -> Result<(), ChangeError> {
        let changed = {
            // A reload applies the profile in force to the models that it adds, so it must wait.
            let mut reloading = self.hub.reloading();
            let core = self.hub.current();
            let changed = reload::select(&core, &reload::selection(core.policy(), name)?);
            reloading.profile = Some(name.to_owned());
            changed
        };
        changed.into_iter().for_each(Switched::settle);
        Ok(())
    }

    /// Replaces the policy, while requests wait and run, and returns what changed.
    ///
    /// Dominions, classes and workers are matched by name. Dominions and classes keep their waiting
    /// requests, deficits, slots and counts; workers keep the requests that they have. Requests that may
    /// start under the new policy start at once.
    ///
    /// - A request that waits in a removed class moves to the class that the new policy gives it, in order of
    ///   arrival.
    /// - A request that waits in a removed dominion is answered with `queue_unavailable`; one that no worker
    ///   may serve any more, with `no_eligible_worker`.
    /// - A request in flight keeps its slot, under the rules by which it was granted. A lower
    ///   `max_concurrency` revokes no slot.
    ///
    /// As for changes made through a handle:
    ///
    /// - The new policy overrides [`set_max_concurrency`](Self::set_max_concurrency) and
    ///   [`set_max_queue`](Self::set_max_queue).
    /// - A removed worker comes back if the new policy has it.
    /// - An [added](Self::add_worker) worker stays, unless the new policy has its id, serves one of its
    ///   models in another dominion, or lacks its dominion.
    /// - A closed dominion stays closed, and the profile in force stays in force.
    ///
    /// Among equally loaded workers, those that a reload added come last, unless they took the places of
    /// removed workers.
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
    /// If the new policy does not have the profile in force. Nothing is changed then.
    pub fn reload(&self, config: PolicyConfig) -> Result<PolicyChanges, ChangeError> {
        reload::reload(&self.hub, config)
    }

    /// Closes the queue of a dominion. Requests that wait in it, and new ones, are answered with
    /// `queue_unavailable`; those that have a slot finish.
    ///
    /// A [`reload`](Self::reload) does not reopen it, unless a policy in between does not have the dominion.
    ///
    /// # Errors
    ///
    /// If there is no such dominion.
    pub fn close_dominion(&self, id: &str) -> Result<(), ChangeError> {
        self.pool(id)?.close().wake_all();
        Ok(())
    }

    /// Closes all queues for good, including that of requests without a dominion. A later
    /// [`reload`](Self::reload) does not reopen them; dominions that it adds are closed, too.
    pub fn shutdown(&self) {
        self.hub.shut_down();
    }

    /// The resources that the layer has in use right now, in all dominions together.
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

    /// The state of the layer right now, with the reason why each request waits. For each dominion, it lists
    /// the next 100 waiting requests and up to 100 blocked ones.
    ///
    /// Dominions are read one after the other, so each is consistent only in itself. A dominion's lock is
    /// held only while its state is copied.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(WAITERS)
    }

    /// A [`snapshot`](Self::snapshot) that lists up to `waiters` requests in place of 100.
    pub fn snapshot_of(&self, waiters: usize) -> Snapshot {
        let core = self.hub.current();
        Snapshot {
            dominions: core.pools().map(|pool| pool.snapshot(waiters)).collect(),
            usage: self.usage(),
            unplaced: core.unplaced(),
        }
    }

    /// Waits until no request has a slot. New requests may start meanwhile, unless the queues are
    /// [shut down](Self::shutdown).
    pub async fn drained(&self) {
        // Requests may start while the last ones end, and the policy may be replaced.
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
        // The lock of the places is released first, as tasks woken by this may take it.
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
