//! Read-only views of a resolved policy, which borrow from it.
//!
//! They are for tools that explain, draw or check a policy. Accessors are named after the YAML's keys and
//! return the default where the YAML leaves a key out. Enumerated values (`fcfs`, `remote`) are spelled as in
//! the YAML.

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

/// Read-only access to a policy.
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
    /// The root profile, then the profile of each model that has one, in the order of the file.
    pub fn profiles(&self) -> impl ExactSizeIterator<Item = ProfileView<'_>> {
        (0..self.profiles.len()).map(|index| ProfileView::new(self, index))
    }

    /// The classes of all profiles, in the order of [`profiles`](Self::profiles) and, within each, of the
    /// file. This is also the order of every dominion's round robin.
    ///
    /// A policy that defines no classes at its root has a single one there, named `default`.
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

    /// The class that the layer chooses for a request.
    ///
    /// `model` is the requested model, `policy` the requested family or explicit class, and
    /// `uncached_tokens` the number of input tokens that are not cached.
    pub fn class_for(
        &self,
        model: Option<&str>,
        policy: Option<&str>,
        uncached_tokens: u64,
    ) -> ClassView<'_> {
        ClassView::new(self, self.class_of(model, policy, uncached_tokens))
    }

    /// The dominion of requests for which nothing else determines one: the one named by `default_dominion`,
    /// or else the only one if there is just one.
    pub fn default_dominion(&self) -> Option<DominionView<'_>> {
        self.fallback_dominion()
            .map(|index| DominionView::new(self, index))
    }

    /// How much of the body of each waiting request is read ahead at most, in bytes.
    pub fn read_ahead_bytes(&self) -> usize {
        self.read_ahead.request
    }

    /// How much of the bodies of all waiting requests of a layer is read ahead at most, in bytes.
    pub fn read_ahead_total_bytes(&self) -> usize {
        self.read_ahead.total
    }
}
