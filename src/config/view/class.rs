//! Classes.

use std::{fmt, time::Duration};

use super::{BucketView, ProfileView};
use crate::config::{PolicyClass, PolicyConfig, path::Path};

/// A policy class.
#[derive(Clone, Copy)]
pub struct ClassView<'a> {
    config: &'a PolicyConfig,
    index: usize,
}

impl<'a> ClassView<'a> {
    pub(super) fn new(config: &'a PolicyConfig, index: usize) -> Self {
        Self { config, index }
    }

    fn get(self) -> &'a PolicyClass {
        &self.config.classes[self.index]
    }

    fn profile_of(self) -> ProfileView<'a> {
        let own = self
            .profile()
            .and_then(|model| self.config.profile_of_model.get(model));
        ProfileView::new(self.config, own.copied().unwrap_or(0))
    }

    /// Its family and the index of its bucket.
    fn cell(self) -> Option<(&'a str, usize)> {
        self.profile_of()
            .get()
            .families
            .iter()
            .find_map(|(name, cells)| {
                let bucket = cells.iter().position(|&class| class == self.index)?;
                Some((name.as_str(), bucket))
            })
    }

    /// Its index among [all classes](PolicyConfig::classes).
    pub fn index(self) -> usize {
        self.index
    }

    /// Its path in the policy, such as `policy_classes[1]`. Empty for the `default` class of a policy that
    /// defines none.
    pub fn path(self) -> String {
        let profile = self.profile_of().get();
        if profile.families.is_empty() && profile.explicit.is_empty() {
            return String::new();
        }
        let own = &self.get().profile;
        let before = self.config.classes[..self.index].iter().rev();
        let index = before.take_while(|class| class.profile == *own).count();
        let classes = |root: Path<'_>| {
            let list = root.key("policy_classes");
            list.index(index).steps().to_string()
        };
        match own {
            None => classes(Path::Root),
            Some(model) => classes(Path::Root.key("models").entry(model)),
        }
    }

    /// Its name, unique within its profile.
    pub fn name(self) -> &'a str {
        &self.get().name
    }

    /// The model whose profile it belongs to; `None` for the root profile.
    pub fn profile(self) -> Option<&'a str> {
        self.get().profile.as_deref()
    }

    /// Its family; `None` for an explicit class, which requests ask for by name.
    pub fn policy_family(self) -> Option<&'a str> {
        self.cell().map(|(family, _)| family)
    }

    /// The bucket of its requests; `None` for an explicit class.
    pub fn cache_bucket(self) -> Option<BucketView<'a>> {
        let (_, bucket) = self.cell()?;
        self.profile_of().buckets().nth(bucket)
    }

    /// Uncached tokens credited per round. Its share is its quantum in proportion to the others'.
    pub fn quantum(self) -> u64 {
        self.get().quantum.get()
    }

    /// The order of its requests: `fcfs` or `wspt`.
    pub fn queue_policy(self) -> &'static str {
        self.get().order.as_str()
    }

    /// The number of active prefill tokens above which a worker is busy for it.
    pub fn prefill_busy_threshold(self) -> Option<u64> {
        self.get().busy.tokens
    }

    /// The same threshold, as a multiple of the worker's `max_num_batched_tokens`.
    pub fn prefill_busy_threshold_frac(self) -> Option<f64> {
        self.get().busy.fraction
    }

    /// The share of busy workers, above 0 and at most 1, at or above which all count as busy; `None` means
    /// 1.
    pub fn busy_worker_ratio(self) -> Option<f64> {
        self.get().busy.ratio
    }

    /// How many requests may be queued in it, per worker of the dominion.
    pub fn request_queue_limit_per_worker(self) -> Option<u64> {
        self.get().limits.requests
    }

    /// How many input tokens, including cached ones, may be queued in it, per worker of the dominion.
    pub fn raw_isl_token_queue_limit_per_worker(self) -> Option<u64> {
        self.get().limits.raw_isl_tokens
    }

    /// How many cached input tokens may be queued in it, per worker of the dominion.
    pub fn cached_token_queue_limit_per_worker(self) -> Option<u64> {
        self.get().limits.cached_tokens
    }

    /// How long a request may wait: the class's own limit, or else the policy's.
    pub fn max_queue_wait(self) -> Option<Duration> {
        self.get().max_queue_wait
    }

    /// When a request releases its slot: `headers`, `first_byte` or `body_end`.
    pub fn hold_until(self) -> &'static str {
        self.get().hold_until.as_str()
    }

    /// How long a slot may be held, from its grant.
    pub fn max_hold(self) -> Option<Duration> {
        self.get().max_hold
    }

    /// When a request stops counting toward its worker's prefill load: `headers` or `first_byte`.
    pub fn prefill_until(self) -> &'static str {
        self.get().prefill_until.as_str()
    }

    /// The cost of an output token, in input tokens.
    pub fn output_token_weight(self) -> f64 {
        self.get().output_token_weight
    }
}

impl fmt::Debug for ClassView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
