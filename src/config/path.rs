//! The path of a value in the policy: `policy_classes[1].quantum`.
//!
//! A [`Path`] is built on the stack while the policy is walked, and allocates nothing until a mistake is
//! found; [`Path::steps`] is the owned form that a mistake keeps.

use std::{
    fmt::{self, Write},
    sync::Arc,
};

use super::names;

/// A path in the policy, as a chain of borrowed steps back to the root.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Step(&'a Path<'a>, StepRef<'a>),
}

/// One step of a [`Path`].
#[derive(Clone, Copy)]
pub(super) enum StepRef<'a> {
    Key(&'static str),
    Entry(&'a Arc<str>),
    Index(usize),
}

/// One step of a path, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A key of the schema.
    Key(&'static str),
    /// A key that the user chose, such as a model's name.
    Entry(Arc<str>),
    /// An index into a list.
    Index(usize),
}

/// An owned path, displayed for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps(pub(super) Vec<Step>);

// ===== impl Path =====

impl Path<'_> {
    /// The path of the field `key`.
    pub(super) fn key(&self, key: &'static str) -> Path<'_> {
        Path::Step(self, StepRef::Key(key))
    }

    /// The path of this map's entry `key`, a name that the user chose.
    pub(super) fn entry<'a>(&'a self, key: &'a Arc<str>) -> Path<'a> {
        Path::Step(self, StepRef::Entry(key))
    }

    /// The path of this list's element `index`.
    pub(super) fn index(&self, index: usize) -> Path<'_> {
        Path::Step(self, StepRef::Index(index))
    }

    /// The steps from the root to this path's end.
    pub(super) fn steps(&self) -> Steps {
        let mut steps = Vec::new();
        let mut at = self;
        while let Path::Step(parent, step) = at {
            steps.push(match step {
                StepRef::Key(key) => Step::Key(key),
                StepRef::Entry(key) => Step::Entry(Arc::clone(key)),
                StepRef::Index(index) => Step::Index(*index),
            });
            at = parent;
        }
        steps.reverse();
        Steps(steps)
    }
}

// ===== impl Steps =====

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            if place > 0 && !matches!(step, Step::Index(_)) {
                f.write_char('.')?;
            }
            match step {
                Step::Key(key) => f.write_str(key)?,
                Step::Entry(key) if is_bare(key) => f.write_str(key)?,
                Step::Entry(key) => f.write_str(&names::quote(key))?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Whether a key can be shown without quotes. One with a dot would read as two steps.
///
/// Checking the length first avoids scanning a long key again for each mistake below it.
fn is_bare(key: &str) -> bool {
    key.len() <= names::SHOWN_CHARS && names::is_name(key) && !key.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_like_the_code_that_would_reach_the_value() {
        let model = Arc::from("some/large-model");
        let plain = Arc::from("gpt-4o");
        let models = Path::Root.key("models");
        let classes = models.entry(&model);
        let classes = classes.key("policy_classes");

        assert_eq!(Path::Root.steps().to_string(), "");
        assert_eq!(
            classes.index(0).key("name").steps().to_string(),
            r#"models."some/large-model".policy_classes[0].name"#
        );
        assert_eq!(models.entry(&plain).steps().to_string(), "models.gpt-4o");
    }

    #[test]
    fn a_dot_in_a_name_does_not_read_as_a_step() {
        let model = Arc::from("qwen.2.5");
        assert_eq!(
            Path::Root.key("models").entry(&model).steps().to_string(),
            r#"models."qwen.2.5""#
        );
    }

    #[test]
    fn a_key_of_any_length_is_shown_cut() {
        let model = Arc::from("m".repeat(500_000));
        assert!(Path::Root.entry(&model).steps().to_string().len() < 200);
    }
}
