//! A policy for reading: what it resolved to, through views that borrow from it.
//!
//! Made for tools that explain a policy, draw it or check it. The names of the accessors are those of
//! the YAML's keys, and what a key says by default they say too. Words (`fcfs`, `remote`) are given
//! as the YAML spells them.

mod class;
mod dominion;
mod profile;
mod worker;

use super::PolicyConfig;

pub use self::{
    class::ClassView,
    dominion::DominionView,
    profile::{BucketView, ProfileView},
    worker::WorkerView,
};

/// Reading a policy.
///
/// ```
/// use tower_policy_queue::PolicyConfig;
///
/// let config: PolicyConfig = "
/// default_policy_family: regular
/// uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 2048, bucket: long}]
/// policy_classes:
///   - {name: regular-short, policy_family: regular, cache_bucket: short, quantum: 1024}
///   - {name: regular-long, policy_family: regular, cache_bucket: long, quantum: 512}
/// dominions:
///   - {id: gpu, kind: remote, max_concurrency: 4}
/// ".parse()?;
///
/// let class = config.class_for(None, Some("regular"), 3000);
/// assert_eq!(class.name(), "regular-long");
/// assert_eq!(class.path(), "policy_classes[1]");
///
/// let quanta: u64 = config.classes().map(|class| class.quantum()).sum();
/// assert_eq!(quanta, 1536);
/// let gpu = config.dominions().next();
/// assert_eq!(gpu.map(|gpu| gpu.max_queue()), Some(100));
/// # Ok::<(), tower_policy_queue::ConfigError>(())
/// ```
impl PolicyConfig {
    /// The root profile, then that of each model that has one, in the order of the file.
    pub fn profiles(&self) -> impl ExactSizeIterator<Item = ProfileView<'_>> {
        (0..self.profiles.len()).map(|index| ProfileView::new(self, index))
    }

    /// The classes of all profiles, in the order of [`profiles`](Self::profiles) and, within one, of
    /// the file: the order in which every dominion goes round them.
    ///
    /// A policy that defines no classes at its root has one there all the same, `default`.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = ClassView<'_>> {
        (0..self.classes.len()).map(|index| ClassView::new(self, index))
    }

    /// The dominions, in the order of the file.
    pub fn dominions(&self) -> impl ExactSizeIterator<Item = DominionView<'_>> {
        (0..self.dominions.len()).map(|index| DominionView::new(self, index))
    }

    /// The endpoints, then the local models, each in the order of the file.
    pub fn workers(&self) -> impl ExactSizeIterator<Item = WorkerView<'_>> {
        (0..self.workers.len()).map(|index| WorkerView::new(self, index))
    }

    /// The class of a request, as the layer decides it.
    ///
    /// `model` is the model that it asks for, `policy` the family or explicit class, and
    /// `uncached_tokens` its input tokens less those that are cached.
    pub fn class_for(
        &self,
        model: Option<&str>,
        policy: Option<&str>,
        uncached_tokens: u64,
    ) -> ClassView<'_> {
        ClassView::new(self, self.class_of(model, policy, uncached_tokens))
    }

    /// The dominion of requests that nothing else decides: the one named by `default_dominion`, or
    /// else the only one there is.
    pub fn default_dominion(&self) -> Option<DominionView<'_>> {
        self.fallback_dominion()
            .map(|index| DominionView::new(self, index))
    }

    /// The most that is read of the body of one parked request, in bytes.
    pub fn read_ahead_bytes(&self) -> usize {
        self.read_ahead.request
    }

    /// The most that is read of the bodies of all parked requests of a layer, in bytes.
    pub fn read_ahead_total_bytes(&self) -> usize {
        self.read_ahead.total
    }
}
