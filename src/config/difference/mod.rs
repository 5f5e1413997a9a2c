//! What changes when one policy replaces another.
//!
//! Three steps: [`describe`] turns each policy into [`thing`]s with names and fields, [`compare`] finds what
//! differs between them, and [`value`] displays it.

mod compare;
mod describe;
mod thing;
mod value;

use std::fmt;

use serde::Serialize;

use super::PolicyConfig;

/// The changes from one policy to another: see [`PolicyConfig::changes_since`].
///
/// Displayed as one change per line; empty if there are none. Serialized as a list.
///
/// Within each section, changes are in the order of the newer policy, followed by what was removed, in the
/// order of the older one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyChanges(Vec<PolicyChange>);

/// One change of a policy.
///
/// A thing that was added or removed, such as a class, is a single change, whatever its fields are. A thing
/// that is in both policies has one change for each field that differs. Values are text, spelled as in the
/// policy; long ones are truncated.
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
    /// What changes if this policy replaces `older`.
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
    /// # What counts as a change
    ///
    /// The meaning of the two policies is compared, not how they are written: spelling out a default or
    /// reordering keys is no change. A limit for the whole policy, such as `max_queue_wait_ms`, is compared
    /// in each class where it applies, and `default_dominion` is the dominion where requests go by default,
    /// whether it is named or the only one.
    ///
    /// Things are matched by name, and those of a model's policy also by the model. Order is compared where
    /// it matters for the round robin, for workers that are equally loaded, or for display: that of classes,
    /// of models with their own classes, of dominions, endpoints and local models.
    ///
    /// # Secrets
    ///
    /// A change of an endpoint's `api_key` or `base_url` is reported without its values.
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
    /// The kind of change: `added` or `removed` for a thing, `changed` for a field, `reordered` for a
    /// section.
    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Added => "added",
            Kind::Removed => "removed",
            Kind::Changed => "changed",
            Kind::Reordered => "reordered",
        }
    }

    /// The path in the policy, by the names of things: `policy_classes.premium.quantum`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value in the older policy, or a summary of the thing.
    ///
    /// `None` if the thing was added, or if the value is a secret.
    pub fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }

    /// The value in the newer policy, or a summary of the thing.
    ///
    /// `None` if the thing was removed, or if the value is a secret.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }
}

/// Shows `+`, `-` or `~`, the path, and the values.
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
