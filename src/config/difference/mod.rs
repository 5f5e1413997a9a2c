//! What changes from one policy to the next, for whoever replaces one by the other.
//!
//! Three steps: [`describe`] turns each of the two policies into [`thing`]s that have names and
//! fields, [`compare`] sets these against each other, and [`value`] shows what differs.

mod compare;
mod describe;
mod thing;
mod value;

use std::fmt;

use serde::Serialize;

use super::PolicyConfig;

/// What changes from one policy to the next: see [`PolicyConfig::changes_since`].
///
/// Displayed, it has one change a line, and is empty if there is none. Serialized, it is a list.
///
/// Section by section, changes come in the order of the newer policy; what is gone from a section
/// comes last in it, in the order of the older one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyChanges(Vec<PolicyChange>);

/// One change of a policy.
///
/// A thing that is new or gone, such as a class, is one change, whatever its fields are; a thing that
/// stays is one for each field that differs. Values are text, as the policy spells them, and long
/// ones are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyChange {
    kind: Kind,
    path: String,
    before: Option<String>,
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Added,
    Removed,
    Changed,
    Reordered,
}

/// The changes from the policy `before` to the policy `after`.
pub(crate) fn changes(before: &PolicyConfig, after: &PolicyConfig) -> PolicyChanges {
    let (before, after) = (describe::policy(before), describe::policy(after));
    PolicyChanges(compare::compare(&before, &after))
}

// ===== impl PolicyConfig =====

impl PolicyConfig {
    /// What changes if this policy takes the place of `older`.
    ///
    /// ```
    /// use tower_policy_queue::PolicyConfig;
    ///
    /// let old: PolicyConfig = "
    /// dominions:
    ///   - {id: gpu, max_concurrency: 4}
    ///   - {id: cpu, max_queue: 20}
    /// ".parse()?;
    /// let new: PolicyConfig = "
    /// dominions:
    ///   - {id: gpu, max_concurrency: 8, policy: queue}
    ///   - {id: tpu, max_concurrency: 2}
    /// headers: {strict_priority: x-tier}
    /// ".parse()?;
    ///
    /// let changes = new.changes_since(&old);
    /// assert_eq!(changes.to_string(), "\
    /// ~ headers.strict_priority: (not believed) -> x-tier
    /// ~ dominions.gpu.max_concurrency: 4 -> 8
    /// + dominions.tpu: max_concurrency 2, max_queue 100
    /// - dominions.cpu: max_queue 20");
    ///
    /// assert!(new.changes_since(&new).is_empty());
    /// # Ok::<(), tower_policy_queue::ConfigError>(())
    /// ```
    ///
    /// # What counts
    ///
    /// What the two policies mean, not how they are written: a default that is written out is no
    /// change, nor is another order of keys. A limit that the whole policy sets, such as
    /// `max_queue_wait_ms`, is compared in each class where it applies, and `default_dominion` is the
    /// dominion where requests go by default, be it named or the only one.
    ///
    /// Things are the same if their names are, and those of a model's policy if the model is too. The
    /// order of things is compared where it is that of the round robin, of workers that are equally
    /// loaded, or of what is shown: that of the classes, of the models that have classes, of
    /// dominions, endpoints and local models.
    ///
    /// # Secrets
    ///
    /// Of an endpoint's `api_key` and `base_url` it is only said that they changed.
    pub fn changes_since(&self, older: &PolicyConfig) -> PolicyChanges {
        changes(older, self)
    }
}

// ===== impl PolicyChanges =====

impl PolicyChanges {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The changes, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, PolicyChange> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a PolicyChanges {
    type Item = &'a PolicyChange;
    type IntoIter = std::slice::Iter<'a, PolicyChange>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for PolicyChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, change) in self.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            change.fmt(f)?;
        }
        Ok(())
    }
}

// ===== impl PolicyChange =====

impl PolicyChange {
    /// What sort of change it is: `added` or `removed` for a thing, `changed` for a field,
    /// `reordered` for a section.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Added => "added",
            Kind::Removed => "removed",
            Kind::Changed => "changed",
            Kind::Reordered => "reordered",
        }
    }

    /// Where in the policy, with the names of things: `policy_classes.premium.quantum`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value in the older policy, or what its thing was like.
    ///
    /// None if the thing is new, or if the value is a secret.
    pub fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }

    /// The value in the newer policy, or what its thing is like.
    ///
    /// None if the thing is gone, or if the value is a secret.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }
}

/// `+`, `-` or `~`, the path, and the values.
impl fmt::Display for PolicyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.kind {
            Kind::Added => '+',
            Kind::Removed => '-',
            Kind::Changed | Kind::Reordered => '~',
        };
        write!(f, "{sign} {}: ", self.path)?;
        if self.kind == Kind::Reordered {
            f.write_str("order ")?;
        }
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "{before} -> {after}"),
            (Some(value), None) | (None, Some(value)) => f.write_str(value),
            (None, None) => f.write_str("changed"),
        }
    }
}
