//! Placement: the dominion in which each model is served.
//!
//! A request that names a model waits in the dominion of the model's workers, so they must all be in the
//! same one, or all in none.

use std::collections::HashMap;

use super::{Findings, dominions::Dominions, workers};
use crate::config::{names, path::Path};

/// The dominion of each model that a worker serves.
#[derive(Default)]
pub(super) struct Placement(HashMap<String, Placed>);

/// A model in a dominion, by the first worker that serves it there.
#[derive(Clone, Copy)]
struct Placed {
    binding: Binding,
    worker: usize,
    /// Its index in the worker's `models`; `None` if it is the worker's id.
    element: Option<usize>,
}

/// Where a worker is bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// To a dominion, or to none.
    To(Option<usize>),
    /// To an invalid one, which has been reported.
    Wrong,
}

/// A model that is served in two dominions.
pub(super) struct Clash<'a> {
    model: &'a str,
    new: Placed,
    old: Placed,
}

impl Binding {
    pub(super) fn dominion(self) -> Option<usize> {
        match self {
            Binding::To(dominion) => dominion,
            Binding::Wrong => None,
        }
    }
}

impl Placement {
    /// Records that `worker` serves `model` in the dominion that it is bound to.
    pub(super) fn place<'a>(
        &mut self,
        model: &'a str,
        binding: Binding,
        worker: usize,
        element: Option<usize>,
    ) -> Option<Clash<'a>> {
        let new = Placed {
            binding,
            worker,
            element,
        };
        let Some(&old) = self.0.get(model) else {
            self.0.insert(model.to_owned(), new);
            return None;
        };
        let unclear = old.binding == Binding::Wrong || binding == Binding::Wrong;
        (!unclear && old.binding != binding).then_some(Clash { model, new, old })
    }

    /// Whether any worker serves `model`.
    pub(super) fn serves(&self, model: &str) -> bool {
        self.0.contains_key(model)
    }
}

impl Clash<'_> {
    /// Reports the clash. The first `endpoints` workers are endpoints.
    pub(super) fn report(self, found: &mut Findings, dominions: &Dominions, endpoints: usize) {
        let Self { model, new, old } = self;
        let place = |placed: Placed| match placed.binding.dominion() {
            Some(dominion) => {
                let id = &dominions.list[dominion].dominion.id;
                format!("in the dominion {}", names::quote(id))
            }
            None => "in no dominion".to_owned(),
        };
        let (model, here, there) = (names::quote(model), place(new), place(old));
        let message = format!(
            "the model {model} must be in a single dominion: it is served {here} here and {there} by"
        );
        with_path(endpoints, new, |path| {
            with_path(endpoints, old, |other| found.clash(path, other, message));
        });
    }
}

/// Calls `use_path` with the path of the value that says that the worker serves the model.
fn with_path<T>(endpoints: usize, placed: Placed, use_path: impl FnOnce(Path<'_>) -> T) -> T {
    workers::with_path(endpoints, placed.worker, |worker| match placed.element {
        Some(element) => use_path(worker.key("models").index(element)),
        None => use_path(worker.key("id")),
    })
}
