//! Workers: endpoints and local models, with their dominions and models.

use std::{collections::HashMap, sync::Arc};

use super::{
    Findings,
    dominions::{Dominions, Kind},
    numbers,
    placement::{Binding, Placement},
    unique,
};
use crate::config::{
    Endpoint, Worker, env, names,
    path::Path,
    schema::{RawEndpoint, RawLocalModel},
    value::Number,
};

/// All workers.
#[derive(Default)]
pub(super) struct Workers {
    /// Endpoints, then local models.
    pub(super) list: Vec<Worker>,
    pub(super) by_id: HashMap<String, usize>,
    pub(super) placement: Placement,
    /// How many of `list` are endpoints.
    pub(super) endpoints: usize,
    /// The memory estimates of the local models, in their order.
    pub(super) estimates: Vec<Estimate>,
}

/// How much VRAM a local model takes.
#[derive(Clone, Copy)]
pub(super) enum Estimate {
    Gigabytes(f64),
    /// Wrong, and already reported.
    Wrong,
    Missing,
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
    /// The estimates of the local models that have one, by id.
    pub(super) fn estimates(&self) -> impl Iterator<Item = (Arc<str>, f64)> {
        let local_models = self.list.iter().skip(self.endpoints);
        local_models
            .zip(&self.estimates)
            .filter_map(|(worker, estimate)| match *estimate {
                Estimate::Gigabytes(gigabytes) => Some((Arc::clone(&worker.id), gigabytes)),
                Estimate::Wrong | Estimate::Missing => None,
            })
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
        let binding = binding(
            found,
            path,
            dominions,
            raw.dominion.as_deref(),
            Kind::Remote,
        );
        let models = raw
            .models
            .map(|models| unique::models(found, path.key("models"), models));
        let tokens = path.key("max_num_batched_tokens");
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
        let worker = Worker {
            id,
            dominion: binding.dominion(),
            models: Vec::new(),
            max_num_batched_tokens: numbers::count(found, tokens, raw.max_num_batched_tokens),
            endpoint: Some(Arc::new(endpoint)),
        };
        self.add(found, dominions, binding, models, worker);
    }

    fn add_local_model(
        &mut self,
        found: &mut Findings,
        path: Path<'_>,
        dominions: &Dominions,
        raw: RawLocalModel,
    ) {
        let id = self.id(found, path, raw.id);
        let binding = binding(found, path, dominions, raw.dominion.as_deref(), Kind::Local);
        self.estimates.push(estimate(found, path, raw.vram_gb));
        let tokens = path.key("max_num_batched_tokens");
        let worker = Worker {
            id,
            dominion: binding.dominion(),
            models: Vec::new(),
            max_num_batched_tokens: numbers::count(found, tokens, raw.max_num_batched_tokens),
            endpoint: None,
        };
        self.add(found, dominions, binding, None, worker);
    }

    /// Checks the id of the next worker, and returns it; empty if it has none.
    fn id(&mut self, found: &mut Findings, path: Path<'_>, id: Option<String>) -> Arc<str> {
        let id = found.require_name(path.key("id"), id).unwrap_or_default();
        match self.by_id.get(&id) {
            // An empty id is reported already.
            _ if id.is_empty() => {}
            Some(&other) => {
                let message = format!("{} is already taken by", names::quote(&id));
                with_path(self.endpoints, other, |other| {
                    found.clash(path.key("id"), other.key("id"), message);
                });
            }
            None => {
                self.by_id.insert(id.clone(), self.list.len());
            }
        }
        id.into()
    }

    /// Adds a worker that serves `models`, each with its index, or if there is no such list, its id.
    fn add(
        &mut self,
        found: &mut Findings,
        dominions: &Dominions,
        binding: Binding,
        models: Option<Vec<(usize, String)>>,
        mut worker: Worker,
    ) {
        let index = self.list.len();
        let models = match models {
            Some(models) => models
                .into_iter()
                .map(|(at, model)| (Some(at), model))
                .collect(),
            None if worker.id.is_empty() => Vec::new(),
            None => vec![(None, worker.id.to_string())],
        };
        for (element, model) in models {
            if let Some(clash) = self.placement.place(&model, binding, index, element) {
                clash.report(found, dominions, self.endpoints);
            }
            worker.models.push(model);
        }
        self.list.push(worker);
    }
}

/// Calls `use_path` with the path of the worker at `index`. The first `endpoints` workers are endpoints.
pub(super) fn with_path<T>(
    endpoints: usize,
    index: usize,
    use_path: impl FnOnce(Path<'_>) -> T,
) -> T {
    let root = Path::Root;
    match index.checked_sub(endpoints) {
        None => use_path(root.key("endpoints").index(index)),
        Some(index) => use_path(root.key("local_models").index(index)),
    }
}

fn estimate(found: &mut Findings, path: Path<'_>, vram_gb: Option<Number>) -> Estimate {
    if vram_gb.is_none() {
        return Estimate::Missing;
    }
    match numbers::gigabytes(found, path.key("vram_gb"), vram_gb) {
        Some(gigabytes) => Estimate::Gigabytes(gigabytes),
        None => Estimate::Wrong,
    }
}

fn binding(
    found: &mut Findings,
    path: Path<'_>,
    dominions: &Dominions,
    id: Option<&str>,
    kind: Kind,
) -> Binding {
    let path = path.key("dominion");
    let Some(id) = id else {
        return Binding::To(None);
    };
    let Some(&index) = dominions.by_id.get(id) else {
        found.unknown(path, "dominion", id, &dominions.listed());
        return Binding::Wrong;
    };
    match dominions.list[index].kind {
        Some(other) if other != kind => {
            let what = match kind {
                Kind::Remote => "an endpoint",
                Kind::Local => "a local model",
            };
            let id = names::quote(id);
            let message = format!("{what} needs a {kind} dominion, but {id} is {other}; see");
            let root = Path::Root;
            found.clash(path, root.key("dominions").index(index), message);
            Binding::Wrong
        }
        _ => Binding::To(Some(index)),
    }
}
