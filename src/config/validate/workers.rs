//! Workers: endpoints and local models, the dominion of each, the models of each.

use std::{collections::HashMap, sync::Arc};

use super::{
    Findings,
    dominions::{Dominions, Kind},
    numbers,
};
use crate::config::{
    Endpoint, Worker, env, names,
    path::Path,
    schema::{RawEndpoint, RawLocalModel},
};

/// All workers.
#[derive(Default)]
pub(super) struct Workers {
    /// Endpoints, then local models.
    pub(super) list: Vec<Worker>,
    pub(super) by_id: HashMap<String, usize>,
    pub(super) dominion_of_model: HashMap<String, Option<usize>>,
    /// How many of `list` are endpoints.
    pub(super) endpoints: usize,
    /// The VRAM estimates of the local models, in order: none, or one that is wrong.
    pub(super) estimates: Vec<Option<Option<f64>>>,
    /// Which worker placed a model first, and at which element of its `models` if it has some.
    placed_by: HashMap<String, (usize, Option<usize>)>,
}

pub(super) fn resolve(
    found: &mut Findings,
    dominions: &Dominions,
    endpoints: Vec<RawEndpoint>,
    local_models: Vec<RawLocalModel>,
    lookup: env::Lookup<'_>,
) -> Workers {
    let mut workers = Workers {
        endpoints: endpoints.len(),
        ..Workers::default()
    };
    let root = Path::Root;
    let list = root.key("endpoints");
    for (index, raw) in endpoints.into_iter().enumerate() {
        workers.add_endpoint(found, list.index(index), dominions, raw, lookup);
    }
    let list = root.key("local_models");
    for (index, raw) in local_models.into_iter().enumerate() {
        workers.add_local_model(found, list.index(index), dominions, raw);
    }
    workers
}

impl Workers {
    /// Calls `use_path` with the path of the worker at `index`.
    pub(super) fn with_path<T>(&self, index: usize, use_path: impl FnOnce(Path<'_>) -> T) -> T {
        let root = Path::Root;
        match index.checked_sub(self.endpoints) {
            None => use_path(root.key("endpoints").index(index)),
            Some(index) => use_path(root.key("local_models").index(index)),
        }
    }

    fn add_endpoint(
        &mut self,
        found: &mut Findings,
        path: Path<'_>,
        dominions: &Dominions,
        raw: RawEndpoint,
        lookup: env::Lookup<'_>,
    ) {
        let id = self.id(found, path, raw.id);
        let mut expand = |key, text: Option<String>| {
            let expanded = env::expand(&text?, lookup);
            expanded
                .map_err(|message| found.report(path.key(key), message))
                .ok()
        };
        let endpoint = Endpoint {
            id: Arc::clone(&id),
            protocol: raw.protocol,
            base_url: expand("base_url", raw.base_url),
            api_key: expand("api_key", raw.api_key),
        };
        let max_num_batched_tokens = batched(found, path, raw.max_num_batched_tokens);
        let models = match raw.models {
            Some(models) => Some(model_names(found, path.key("models"), models)),
            None => None,
        };
        let binding = binding(
            found,
            path,
            dominions,
            raw.dominion.as_deref(),
            Kind::Remote,
        );
        self.add(
            found,
            path,
            binding,
            models,
            Worker {
                id,
                dominion: None,
                models: Vec::new(),
                max_num_batched_tokens,
                endpoint: Some(Arc::new(endpoint)),
            },
        );
    }

    fn add_local_model(
        &mut self,
        found: &mut Findings,
        path: Path<'_>,
        dominions: &Dominions,
        raw: RawLocalModel,
    ) {
        let id = self.id(found, path, raw.id);
        let max_num_batched_tokens = batched(found, path, raw.max_num_batched_tokens);
        let estimate = raw
            .vram_gb
            .map(|_| numbers::gigabytes(found, path.key("vram_gb"), raw.vram_gb));
        self.estimates.push(estimate);
        let binding = binding(found, path, dominions, raw.dominion.as_deref(), Kind::Local);
        self.add(
            found,
            path,
            binding,
            None,
            Worker {
                id,
                dominion: None,
                models: Vec::new(),
                max_num_batched_tokens,
                endpoint: None,
            },
        );
    }

    /// Checks the id of the next worker; empty if there is none.
    fn id(&mut self, found: &mut Findings, path: Path<'_>, id: Option<String>) -> Arc<str> {
        let Some(id) = found.require_name(path.key("id"), id) else {
            return "".into();
        };
        if let Some(&other) = self.by_id.get(&id) {
            let message = format!("the id {} is already taken by", names::quote(&id));
            self.with_path(other, |other| {
                found.clash(path.key("id"), other.key("id"), message)
            });
        } else {
            self.by_id.insert(id.clone(), self.list.len());
        }
        id.into()
    }

    /// Adds a worker and the places of its models, which are its id if `models` is none.
    fn add(
        &mut self,
        found: &mut Findings,
        path: Path<'_>,
        binding: Binding,
        models: Option<Vec<(usize, String)>>,
        mut worker: Worker,
    ) {
        let models: Vec<(Option<usize>, String)> = match models {
            Some(models) => models
                .into_iter()
                .map(|(index, model)| (Some(index), model))
                .collect(),
            None if worker.id.is_empty() => Vec::new(),
            None => vec![(None, worker.id.to_string())],
        };
        if let Binding::Known(dominion) = binding {
            worker.dominion = dominion;
            for (element, model) in &models {
                self.place(found, path, dominion, *element, model);
            }
        }
        worker.models = models.into_iter().map(|(_, model)| model).collect();
        self.list.push(worker);
    }

    /// Notes that the next worker serves `model` in `dominion`, and reports it if another
    /// serves it elsewhere.
    fn place(
        &mut self,
        found: &mut Findings,
        path: Path<'_>,
        dominion: Option<usize>,
        element: Option<usize>,
        model: &str,
    ) {
        let Some(&elsewhere) = self.dominion_of_model.get(model) else {
            self.dominion_of_model.insert(model.to_owned(), dominion);
            self.placed_by
                .insert(model.to_owned(), (self.list.len(), element));
            return;
        };
        let Some(&(other, other_element)) = self.placed_by.get(model) else {
            return;
        };
        if elsewhere == dominion {
            return;
        }
        let message = format!(
            "the model {} would be served from two dominions: it is in another one by",
            names::quote(model)
        );
        self.with_path(other, |other| {
            at_model(path, element, |path| {
                at_model(other, other_element, |other| {
                    found.clash(path, other, message)
                });
            });
        });
    }
}

/// Calls `use_path` with the path that makes the worker at `path` serve a model.
fn at_model<T>(path: Path<'_>, element: Option<usize>, use_path: impl FnOnce(Path<'_>) -> T) -> T {
    match element {
        Some(element) => use_path(path.key("models").index(element)),
        None => use_path(path.key("id")),
    }
}

fn batched(
    found: &mut Findings,
    path: Path<'_>,
    tokens: Option<crate::config::value::Whole>,
) -> Option<u64> {
    numbers::count(found, path.key("max_num_batched_tokens"), tokens)
}

/// The names that are right, each with its index.
fn model_names(
    found: &mut Findings,
    path: Path<'_>,
    models: Vec<Option<String>>,
) -> Vec<(usize, String)> {
    let mut first_of_name = HashMap::new();
    let mut named = Vec::with_capacity(models.len());
    for (index, model) in models.into_iter().enumerate() {
        let Some(model) = model.filter(|model| !model.trim().is_empty()) else {
            found.report(
                path.index(index),
                "is empty; it should be the name of a model",
            );
            continue;
        };
        if let Some(&other) = first_of_name.get(&model) {
            let message = format!("the model {} is already named by", names::quote(&model));
            found.clash(path.index(index), path.index(other), message);
            continue;
        }
        first_of_name.insert(model.clone(), index);
        named.push((index, model));
    }
    named
}

/// Where a worker is bound.
enum Binding {
    /// To this dominion, or to none.
    Known(Option<usize>),
    /// To one that cannot be.
    Wrong,
}

fn binding(
    found: &mut Findings,
    path: Path<'_>,
    dominions: &Dominions,
    id: Option<&str>,
    kind: Kind,
) -> Binding {
    let Some(id) = id else {
        return Binding::Known(None);
    };
    let path = path.key("dominion");
    let Some(&index) = dominions.by_id.get(id) else {
        let there_are = names::list(dominions.ids());
        let message = format!(
            "there is no dominion {}; there are: {there_are}",
            names::quote(id)
        );
        found.report(path, message);
        return Binding::Wrong;
    };
    match dominions.list[index].kind {
        Some(other) if other != kind => {
            let what = match kind {
                Kind::Remote => "an endpoint",
                Kind::Local => "a local model",
            };
            let root = Path::Root;
            let message = format!(
                "the dominion {} is {other}; {what} needs a {kind} one, but see",
                names::quote(id)
            );
            found.clash(path, root.key("dominions").index(index), message);
            Binding::Wrong
        }
        _ => Binding::Known(Some(index)),
    }
}
