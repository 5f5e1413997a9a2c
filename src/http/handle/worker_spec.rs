//! A worker to be added while the layer runs.

use std::{collections::HashSet, fmt, sync::Arc};

use super::ChangeError;
use crate::config::{Endpoint, Worker, is_name};

/// A remote worker to be added while the layer runs, with what an entry of `endpoints:` can say.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    id: String,
    dominion: Option<String>,
    models: Option<Vec<String>>,
    max_num_batched_tokens: Option<u64>,
    protocol: Option<String>,
    base_url: Option<Secret>,
    api_key: Option<Secret>,
}

/// A key, or an address that may contain one. `Debug` does not print it.
#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl WorkerSpec {
    /// Creates a worker without a dominion that serves the model of its own name. Unless a
    /// [`dominion`](Self::dominion) is given, its requests are unlimited.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            dominion: None,
            models: None,
            max_num_batched_tokens: None,
            protocol: None,
            base_url: None,
            api_key: None,
        }
    }

    /// Sets the dominion whose slots its requests take.
    #[must_use]
    pub fn dominion(self, id: impl Into<String>) -> Self {
        Self {
            dominion: Some(id.into()),
            ..self
        }
    }

    /// Sets the models that it serves.
    #[must_use]
    pub fn models<M: Into<String>>(self, models: impl IntoIterator<Item = M>) -> Self {
        Self {
            models: Some(models.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// Sets what `prefill_busy_threshold_frac` is a multiple of, in tokens.
    #[must_use]
    pub fn max_num_batched_tokens(self, tokens: u64) -> Self {
        Self {
            max_num_batched_tokens: Some(tokens),
            ..self
        }
    }

    /// Sets the protocol that it speaks, which is carried to the inner service.
    #[must_use]
    pub fn protocol(self, protocol: impl Into<String>) -> Self {
        Self {
            protocol: Some(protocol.into()),
            ..self
        }
    }

    /// Sets the address where it listens, which is carried to the inner service as it is: unlike in a
    /// policy, `${NAME}` is not expanded.
    #[must_use]
    pub fn base_url(self, base_url: impl Into<String>) -> Self {
        Self {
            base_url: Some(Secret(base_url.into())),
            ..self
        }
    }

    /// Sets its key, which is carried to the inner service as it is.
    #[must_use]
    pub fn api_key(self, api_key: impl Into<String>) -> Self {
        Self {
            api_key: Some(Secret(api_key.into())),
            ..self
        }
    }

    /// The worker, without a dominion yet, and the id of its dominion, which only the policy in force can
    /// resolve.
    pub(super) fn into_worker(self) -> Result<(Worker, Option<String>), ChangeError> {
        let id = self.id;
        if !is_name(&id) {
            return Err(ChangeError::InvalidWorker { id });
        }
        let models = self.models.unwrap_or_else(|| vec![id.clone()]);
        let mut named = HashSet::new();
        for model in &models {
            if model.trim().is_empty() || !named.insert(model) {
                let model = model.clone();
                return Err(ChangeError::InvalidModel { model });
            }
        }
        let id: Arc<str> = id.into();
        let endpoint = Endpoint {
            id: Arc::clone(&id),
            protocol: self.protocol,
            base_url: self.base_url.map(|Secret(address)| address),
            api_key: self.api_key.map(|Secret(key)| key),
        };
        let worker = Worker {
            models,
            dominion: None,
            max_num_batched_tokens: self.max_num_batched_tokens,
            endpoint: Some(Arc::new(endpoint)),
            id,
        };
        Ok((worker, self.dominion))
    }
}
