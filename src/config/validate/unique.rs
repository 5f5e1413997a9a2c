//! Names that must be unique in a list.

use std::collections::HashMap;

use super::Findings;
use crate::config::{names, path::Path};

/// The names taken in a list so far, each with the index of the element that took it.
pub(super) struct Unique<'a> {
    list: Path<'a>,
    /// The key of the name in each element; `None` if the elements are the names.
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

    /// For each name, the index of the element that took it first.
    pub(super) fn by_name(self) -> HashMap<String, usize> {
        self.by_name
    }

    /// Checks the name of the element at `index`, and returns it if there is one.
    pub(super) fn require(
        &mut self,
        found: &mut Findings,
        index: usize,
        name: Option<String>,
    ) -> Option<String> {
        let name = self.at(index, |path| found.require_name(path, name))?;
        // An empty name is reported already.
        if !name.is_empty() {
            self.take(found, index, &name);
        }
        Some(name)
    }

    /// Takes the name if it is free, and reports a clash otherwise. Returns whether it was free.
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

    /// Calls `use_path` with the path of an element's name.
    fn at<T>(&self, index: usize, use_path: impl FnOnce(Path<'_>) -> T) -> T {
        let path = self.list.index(index);
        match self.key {
            Some(key) => use_path(path.key(key)),
            None => use_path(path),
        }
    }
}

/// The valid names in a list of models, each with its index.
///
/// A model's name is free text, as clients send it, but must not be blank.
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
            _ => found.report(list.index(index), "is empty; must be the name of a model"),
        }
    }
    named
}
