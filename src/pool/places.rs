//! Which dominion a request belongs to.

use std::collections::HashMap;

use crate::config::{PolicyConfig, Worker};

/// Where the workers sit, by the names that requests give.
#[derive(Debug)]
pub(crate) struct Places {
    /// The dominion of each worker; none: it is unlimited.
    workers: HashMap<String, Option<usize>>,
    /// The dominion of the workers that serve a model, and how many they are.
    models: HashMap<String, (Option<usize>, usize)>,
    fallback: Option<usize>,
}

impl Places {
    pub(crate) fn new(policy: &PolicyConfig) -> Self {
        let mut this = Self {
            workers: HashMap::new(),
            models: HashMap::new(),
            fallback: policy.fallback_dominion(),
        };
        for worker in &policy.workers {
            this.add(worker);
        }
        this
    }

    /// The dominion of a request, which is none if it is unlimited; nothing if there is no such
    /// worker. `bound` is the dominion of the route, if the layer was bound to one.
    pub(crate) fn dominion_of(
        &self,
        worker: Option<&str>,
        model: Option<&str>,
        bound: Option<usize>,
    ) -> Option<Option<usize>> {
        if let Some(worker) = worker {
            return self.workers.get(worker).copied();
        }
        if let Some(&(dominion, _)) = model.and_then(|model| self.models.get(model)) {
            return Some(dominion);
        }
        Some(bound.or(self.fallback))
    }

    /// The dominion of a worker, if there is such a worker.
    pub(crate) fn of_worker(&self, id: &str) -> Option<Option<usize>> {
        self.workers.get(id).copied()
    }

    /// A model of the worker that is served in another dominion.
    pub(crate) fn model_elsewhere<'a>(&self, worker: &'a Worker) -> Option<&'a str> {
        let elsewhere = |model: &&String| {
            self.models
                .get(*model)
                .is_some_and(|&(dominion, _)| dominion != worker.dominion)
        };
        worker.models.iter().find(elsewhere).map(String::as_str)
    }

    pub(crate) fn add(&mut self, worker: &Worker) {
        self.workers.insert(worker.id.to_string(), worker.dominion);
        for model in &worker.models {
            self.models
                .entry(model.clone())
                .or_insert((worker.dominion, 0))
                .1 += 1;
        }
    }

    /// `models` are those of the worker.
    pub(crate) fn remove(&mut self, id: &str, models: &[String]) {
        if self.workers.remove(id).is_none() {
            return;
        }
        for model in models {
            if let Some((_, workers)) = self.models.get_mut(model) {
                *workers -= 1;
                if *workers == 0 {
                    self.models.remove(model);
                }
            }
        }
    }
}
