//! The layer.

use std::{fmt, sync::Arc};

use tower_layer::Layer;

use super::{BytesPerToken, OpenAiHints};

/// The default of [`OpenAiHintsLayer::max_body_bytes`].
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// What a layer, its services and their responses share.
pub(super) struct Settings<E> {
    pub(super) estimator: Arc<E>,
    pub(super) max_body_bytes: usize,
}

/// Reads the model and the prompt's length from OpenAI requests, for a
/// [`PolicyQueueLayer`](crate::PolicyQueueLayer) inside: see the [module](crate::openai).
///
/// ```
/// use tower_policy_queue::openai::OpenAiHintsLayer;
///
/// let layer = OpenAiHintsLayer::new().max_body_bytes(1024 * 1024);
/// # let _ = layer;
/// ```
pub struct OpenAiHintsLayer<E = BytesPerToken> {
    settings: Settings<E>,
}

impl OpenAiHintsLayer {
    /// Creates a layer that reads bodies of up to 8 MiB, and estimates tokens by [`BytesPerToken`].
    #[must_use]
    pub fn new() -> Self {
        Self {
            settings: Settings {
                estimator: Arc::default(),
                max_body_bytes: MAX_BODY_BYTES,
            },
        }
    }
}

impl<E> OpenAiHintsLayer<E> {
    /// Sets the longest body that is read; a longer one is answered with 413. The default is 8 MiB.
    ///
    /// Each request may take that much memory from its arrival to its end, and twice that while its body
    /// is read.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_body_bytes = bytes;
        self
    }

    /// Counts tokens with `estimator`: see [`EstimateTokens`](super::EstimateTokens). All clones of the
    /// layer share it.
    #[must_use]
    pub fn estimator<T>(self, estimator: T) -> OpenAiHintsLayer<T> {
        OpenAiHintsLayer {
            settings: Settings {
                estimator: Arc::new(estimator),
                max_body_bytes: self.settings.max_body_bytes,
            },
        }
    }
}

impl<S, E> Layer<S> for OpenAiHintsLayer<E> {
    type Service = OpenAiHints<S, E>;

    fn layer(&self, inner: S) -> Self::Service {
        OpenAiHints::new(inner, self.settings.clone())
    }
}

impl Default for OpenAiHintsLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Clone for OpenAiHintsLayer<E> {
    fn clone(&self) -> Self {
        Self {
            settings: self.settings.clone(),
        }
    }
}

// Not derived: the estimator is shared, so it need not be `Clone`.
impl<E> Clone for Settings<E> {
    fn clone(&self) -> Self {
        Self {
            estimator: Arc::clone(&self.estimator),
            max_body_bytes: self.max_body_bytes,
        }
    }
}

impl<E> fmt::Debug for OpenAiHintsLayer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiHintsLayer")
            .field("max_body_bytes", &self.settings.max_body_bytes)
            .finish_non_exhaustive()
    }
}
