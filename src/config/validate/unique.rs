//! Names that may be taken once in a list.

use std::collections::HashMap;

use super::Findings;
use crate::config::{names, path::Path};

/// The names taken in a list so far, each with the element that took it.
pub(super) struct Unique<'a> {
    list: Path<'a>,
    /// The field of the elements that holds the name; none if they are names themselves.
    key: Option<&'static str>,
    by_name: HashMap<String, usize>,
}

impl<'a> Unique<'a> {
    /// For a list of maps, each with a name at `key`.
    pub(super) fn at_key(list: Path<'a>, key: &'static str) -> Self {
        Self {
            list,
            key: Some(key),
            by_name: HashMap::new(),
        }
    }

    /// The element that took a name first.
    pub(super) fn by_name(self) -> HashMap<String, usize> {
        self.by_name
    }

    /// Checks the name of the element at `index` and gives it back if there is one.
    pub(super) fn require(
        &mut self,
        found: &mut Findings,
        index: usize,
        name: Option<String>,
    ) -> Option<String> {
        let name = self.at(index, |path| found.require_name(path, name))?;
        // Two empty names are two mistakes already.
        if !name.is_empty() {
            self.take(found, index, &name);
        }
        Some(name)
    }

    /// Whether no other element took the name before; reported if one did.
    fn take(&mut self, found: &mut Findings, index: usize, name: &str) -> bool {
        let Some(&other) = self.by_name.get(name) else {
            self.by_name.insert(name.to_owned(), index);
            return true;
        };
        let message = format!("{} is already taken by", names::quote(name));
        self.at(index, |path| {
            self.at(other, |other| found.clash(path, other, message))
        });
        false
    }

    /// Calls `use_path` with the path of the name of an element.
    fn at<T>(&self, index: usize, use_path: impl FnOnce(Path<'_>) -> T) -> T {
        let path = self.list.index(index);
        match self.key {
            Some(key) => use_path(path.key(key)),
            None => use_path(path),
        }
    }
}

/// The names of a list of models that are right, each with its index.
///
/// A model's name is free text, as the clients send it, but it is something.
pub(super) fn models(
    found: &mut Findings,
    list: Path<'_>,
    models: Vec<Option<String>>,
) -> Vec<(usize, String)> {
    let mut unique = Unique {
        list,
        key: None,
        by_name: HashMap::new(),
    };
    let mut named = Vec::with_capacity(models.len());
    for (index, model) in models.into_iter().enumerate() {
        match model {
            Some(model) if !model.trim().is_empty() => {
                if unique.take(found, index, &model) {
                    named.push((index, model));
                }
            }
            _ => found.report(
                list.index(index),
                "is empty; it should be the name of a model",
            ),
        }
    }
    named
}
