//! Workers.

use std::{fmt, sync::Arc};

use super::DominionView;
use crate::config::{Endpoint, PolicyConfig, Worker, path::Path};

/// An endpoint or a local model.
#[derive(Clone, Copy)]
pub struct WorkerView<'a> {
    config: &'a PolicyConfig,
    index: usize,
}

impl<'a> WorkerView<'a> {
    pub(super) fn new(config: &'a PolicyConfig, index: usize) -> Self {
        Self { config, index }
    }

    pub(super) fn get(self) -> &'a Worker {
        &self.config.workers[self.index]
    }

    /// Its path in the policy, such as `endpoints[0]` or `local_models[2]`.
    pub fn path(self) -> String {
        let before = &self.config.workers[..self.index];
        let endpoint = self.get().endpoint.is_some();
        let alike = |worker: &&Arc<Worker>| worker.endpoint.is_some() == endpoint;
        let index = before.iter().filter(alike).count();
        let list = if endpoint {
            "endpoints"
        } else {
            "local_models"
        };
        Path::Root.key(list).index(index).steps().to_string()
    }

    /// Its id.
    pub fn id(self) -> &'a str {
        &self.get().id
    }

    /// The dominion whose slots its requests take; `None` means that they are unlimited.
    pub fn dominion(self) -> Option<DominionView<'a>> {
        let index = self.get().dominion?;
        Some(DominionView::new(self.config, index))
    }

    /// The models that it serves.
    pub fn models(self) -> impl ExactSizeIterator<Item = &'a str> {
        self.get().models.iter().map(String::as_str)
    }

    /// The number of tokens that `prefill_busy_threshold_frac` multiplies.
    pub fn max_num_batched_tokens(self) -> Option<u64> {
        self.get().max_num_batched_tokens
    }

    /// The endpoint's address, protocol and key; `None` for a local model.
    pub fn endpoint(self) -> Option<&'a Endpoint> {
        self.get().endpoint.as_deref()
    }
}

impl fmt::Debug for WorkerView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
