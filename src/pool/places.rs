//! Which dominion a request belongs to.

use std::{collections::HashMap, sync::Arc};

use crate::config::{PolicyConfig, Worker};

/// Where the workers are, by the names that requests use.
#[derive(Debug)]
pub(crate) struct Places {
    /// The dominion of each worker; `None` if it is unlimited.
    workers: HashMap<String, Option<usize>>,
    /// The dominion of the workers that serve a model, and how many there are.
    models: HashMap<String, (Option<usize>, usize)>,
    /// The workers that the policy does not name, as they were added at run time.
    added: Vec<Arc<Worker>>,
}

/// Where a request belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this dominion, or in none, where it is unlimited.
    In(Option<usize>),
    /// Wherever its route says.
    Anywhere,
    /// There is no such worker.
    Nowhere,
}

impl Places {
    pub(crate) fn new(policy: &PolicyConfig) -> Self {
        let mut this = Self {
            workers: HashMap::new(),
            models: HashMap::new(),
            added: Vec::new(),
        };
        for worker in &policy.workers {
            this.place(worker);
        }
        this
    }

    /// Where a request belongs, by its worker or its model.
    pub(crate) fn dominion_of(&self, worker: Option<&str>, model: Option<&str>) -> Place {
        if let Some(worker) = worker {
            let place = self.workers.get(worker);
            return place.map_or(Place::Nowhere, |&dominion| Place::In(dominion));
        }
        let place = model.and_then(|model| self.models.get(model));
        place.map_or(Place::Anywhere, |&(dominion, _)| Place::In(dominion))
    }

    /// The dominion of a worker, if there is such a worker.
    pub(crate) fn of_worker(&self, id: &str) -> Option<Option<usize>> {
        self.workers.get(id).copied()
    }

    /// A model of the worker that is already served in another dominion.
    pub(crate) fn model_elsewhere<'a>(&self, worker: &'a Worker) -> Option<&'a str> {
        let elsewhere = |model: &&String| {
            self.models
                .get(*model)
                .is_some_and(|&(dominion, _)| dominion != worker.dominion)
        };
        worker.models.iter().find(elsewhere).map(String::as_str)
    }

    /// Adds a worker that the policy does not name.
    pub(crate) fn add(&mut self, worker: &Arc<Worker>) {
        self.added.push(Arc::clone(worker));
        self.place(worker);
    }

    /// The workers that the policy does not name.
    pub(crate) fn added(&self) -> &[Arc<Worker>] {
        &self.added
    }

    fn place(&mut self, worker: &Worker) {
        self.workers.insert(worker.id.to_string(), worker.dominion);
        for model in &worker.models {
            self.models
                .entry(model.clone())
                .or_insert((worker.dominion, 0))
                .1 += 1;
        }
    }

    /// Removes a worker, which serves these models.
    pub(crate) fn remove(&mut self, id: &str, models: &[String]) {
        if self.workers.remove(id).is_none() {
            return;
        }
        self.added.retain(|worker| &*worker.id != id);
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
