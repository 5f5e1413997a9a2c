//! Profiles and their buckets.

use std::{fmt, sync::Arc};

use super::ClassView;
use crate::config::{
    PolicyConfig,
    path::Path,
    policy::{Family, Profile},
};

/// A set of families, buckets and classes: the root profile, or that of one model.
#[derive(Clone, Copy)]
pub struct ProfileView<'a> {
    config: &'a PolicyConfig,
    index: usize,
}

/// A range of uncached input tokens, which determines the class of a request within its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketView<'a> {
    name: &'a str,
    min_tokens: u64,
    max_tokens: Option<u64>,
}

// ===== impl ProfileView =====

impl<'a> ProfileView<'a> {
    pub(super) fn new(config: &'a PolicyConfig, index: usize) -> Self {
        Self { config, index }
    }

    pub(super) fn get(self) -> &'a Profile {
        &self.config.profiles[self.index]
    }

    /// The model that it is for; `None` for the root profile.
    pub fn model(self) -> Option<&'a str> {
        // Every profile has a class, and each class knows its model.
        let class = *self.get().default_family.first()?;
        self.config.classes[class].profile.as_deref()
    }

    /// Its path in the policy, such as `models."some/model"`. Empty for the root profile.
    pub fn path(self) -> String {
        let class = self.get().default_family.first();
        match class.and_then(|&class| self.config.classes[class].profile.as_ref()) {
            None => String::new(),
            Some(model) => Path::Root.key("models").entry(model).steps().to_string(),
        }
    }

    /// The families, in the order in which the file first names them. Empty if the policy defines no
    /// classes.
    pub fn families(self) -> impl Iterator<Item = &'a str> {
        let mut families: Vec<_> = self.get().families.iter().collect();
        families.sort_unstable_by_key(|(_, classes)| classes.iter().min());
        families.into_iter().map(|(name, _)| name.as_str())
    }

    /// The family of requests that name no family, or an unknown one. `None` if the policy defines no
    /// classes.
    pub fn default_family(self) -> Option<&'a str> {
        let Profile {
            families,
            default_family,
            ..
        } = self.get();
        let is_default = |classes: &Family| Arc::ptr_eq(classes, default_family);
        let family = families.iter().find(|(_, classes)| is_default(classes));
        family.map(|(name, _)| name.as_str())
    }

    /// The buckets, in ascending order. Empty if the policy defines no classes.
    pub fn buckets(self) -> impl ExactSizeIterator<Item = BucketView<'a>> {
        let Profile {
            buckets,
            bucket_names,
            ..
        } = self.get();
        bucket_names
            .iter()
            .enumerate()
            .map(|(index, name)| BucketView {
                name,
                min_tokens: buckets[index],
                // The floors increase, so the next one is not 0.
                max_tokens: buckets.get(index + 1).map(|next| next - 1),
            })
    }

    /// Its classes, in the order of the file.
    pub fn classes(self) -> impl Iterator<Item = ClassView<'a>> {
        let model = self.model();
        self.config
            .classes()
            .filter(move |class| class.profile() == model)
    }
}

impl fmt::Debug for ProfileView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileView")
            .field("model", &self.model())
            .finish_non_exhaustive()
    }
}

// ===== impl BucketView =====

impl<'a> BucketView<'a> {
    /// Its name.
    pub fn name(self) -> &'a str {
        self.name
    }

    /// The least number of uncached input tokens of a request in it.
    pub fn min_tokens(self) -> u64 {
        self.min_tokens
    }

    /// The greatest number of uncached input tokens of a request in it; `None` for the last bucket.
    pub fn max_tokens(self) -> Option<u64> {
        self.max_tokens
    }
}
