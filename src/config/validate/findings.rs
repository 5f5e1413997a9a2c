//! The mistakes that validation has found so far.

use crate::config::{
    env,
    error::{ConfigMistake, Place},
    names,
    path::{Path, Steps},
};

/// The mistakes of a policy, in the order in which they were found.
#[derive(Default)]
pub(in crate::config) struct Findings(Vec<Finding>);

struct Finding {
    path: Steps,
    message: String,
    /// The other path of a clash, which is appended to the message.
    other: Option<Steps>,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports that the value at `path` is wrong.
    pub(super) fn report(&mut self, path: Path<'_>, message: impl Into<String>) {
        self.report_at(path.steps(), message);
    }

    /// Does the same for an owned path.
    pub(super) fn report_at(&mut self, path: Steps, message: impl Into<String>) {
        self.0.push(Finding {
            path,
            message: message.into(),
            other: None,
        });
    }

    /// Reports that `path` clashes with `other`, whose path and line are appended to the message.
    pub(super) fn clash(&mut self, path: Path<'_>, other: Path<'_>, message: impl Into<String>) {
        let other = Some(other.steps());
        self.0.push(Finding {
            path: path.steps(),
            message: message.into(),
            other,
        });
    }

    /// Reports an invalid name.
    pub(super) fn check_name(&mut self, path: Path<'_>, name: &str) {
        if name.is_empty() {
            self.report(path, "is empty");
        } else if !names::is_name(name) {
            let message = format!(
                "{} is not a valid name; a name may contain only the characters [A-Za-z0-9_.-]{}",
                names::quote(name),
                env::hint_elsewhere(name).unwrap_or_default()
            );
            self.report(path, message);
        }
    }

    /// Reports that there is no `what` of this name; `defined` lists those that there are.
    pub(super) fn unknown(&mut self, path: Path<'_>, what: &str, name: &str, defined: &str) {
        let message = format!(
            "there is no {what} {}; the policy defines {defined}{}",
            names::quote(name),
            env::hint_elsewhere(name).unwrap_or_default()
        );
        self.report(path, message);
    }

    /// Reports a name that is missing or invalid.
    pub(super) fn require_name(&mut self, path: Path<'_>, name: Option<String>) -> Option<String> {
        match &name {
            Some(name) => self.check_name(path, name),
            None => self.report(path, "is missing"),
        }
        name
    }

    /// The elements of a list, which must not be missing or empty; `why` tells the user the reason.
    pub(super) fn require_some<T>(
        &mut self,
        path: Path<'_>,
        list: Option<Vec<T>>,
        why: &str,
    ) -> Vec<T> {
        match &list {
            None => self.report(path, format!("is missing; {why}")),
            Some(list) if list.is_empty() => self.report(path, format!("is empty; {why}")),
            Some(_) => {}
        }
        list.unwrap_or_default()
    }

    /// The mistakes, with the positions that `locate` finds.
    pub(in crate::config) fn into_mistakes(
        self,
        mut locate: impl FnMut(&Steps) -> Option<Place>,
    ) -> Vec<ConfigMistake> {
        self.0
            .into_iter()
            .map(
                |Finding {
                     path,
                     mut message,
                     other,
                 }| {
                    let place = locate(&path);
                    if let Some(other) = other {
                        message.push_str(&format!(" {other}"));
                        if let Some(Place { line, .. }) = locate(&other) {
                            message.push_str(&format!(" on line {line}"));
                        }
                    }
                    ConfigMistake::new(path, message, place)
                },
            )
            .collect()
    }
}
