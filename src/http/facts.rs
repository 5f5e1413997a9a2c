//! What is known about a request, each fact from the first source that has it.

use std::time::Duration;

use http::{HeaderMap, HeaderName, header::CONTENT_LENGTH};

use super::{QueueHints, Reason, headers};
use crate::config::Headers;

/// Bytes of a request body that count as one token if no source knows the number of tokens.
const BYTES_PER_TOKEN: u64 = 4;

/// The most tokens that are estimated from a length; no prompt is longer. Anyone can claim any length
/// without sending a byte, and a claim that no class can ever pay for would block all behind it.
const MAX_ESTIMATE: u64 = 1 << 21;

/// The facts the policy decides by.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) policy: Option<&'a str>,
    pub(super) client: Option<&'a str>,
    pub(super) model: Option<&'a str>,
    pub(super) raw_tokens: u64,
    /// `None` if no source says.
    pub(super) cached_tokens: Option<u64>,
    pub(super) strict_priority: u32,
    pub(super) priority_jump: f64,
    pub(super) worker: Option<&'a str>,
    pub(super) allowed_workers: Option<Vec<&'a str>>,
    pub(super) tolerations: &'a [String],
    pub(super) max_queue_wait: Option<Duration>,
}

impl<'a> Facts<'a> {
    /// Asks the classifier's hints (`said`), then those in the request's extensions (`told`), then its
    /// headers (`sent`). A header that is not needed is not parsed, so it cannot be an error.
    pub(super) fn gather(
        said: &'a QueueHints,
        told: Option<&'a QueueHints>,
        sent: &'a HeaderMap,
        names: &Headers,
    ) -> Result<Self, Reason> {
        let sources = Sources { said, told };

        let raw = sources.or(
            |hints| hints.raw_isl_tokens,
            &names.raw_isl_tokens,
            |name| headers::integer(sent, name),
        )?;
        let cached = sources.or(
            |hints| hints.cached_tokens,
            &names.cached_tokens,
            |name| headers::integer(sent, name),
        )?;
        let tier = sources.or(
            |hints| hints.strict_priority,
            &names.strict_priority,
            |name| headers::tier(sent, name),
        )?;
        let jump = sources.or(
            |hints| hints.priority_jump,
            &names.priority_jump,
            |name| headers::jump(sent, name),
        )?;
        let allowed_workers = sources.or(
            |hints| {
                Some(
                    hints
                        .allowed_workers
                        .as_ref()?
                        .iter()
                        .map(String::as_str)
                        .collect(),
                )
            },
            &names.allowed_workers,
            |name| headers::list(sent, name),
        )?;
        let max_queue_wait = sources.or(
            |hints| hints.max_queue_wait_ms,
            &names.max_queue_wait_ms,
            |name| headers::integer(sent, name),
        )?;
        Ok(Self {
            policy: sources
                .hint(|hints| hints.policy.as_deref())
                .or_else(|| headers::hint(sent, &names.policy)),
            client: sources
                .hint(|hints| hints.client.as_deref())
                .or_else(|| headers::hint(sent, &names.client)),
            model: sources.model(sent, names)?,
            raw_tokens: raw.unwrap_or_else(|| estimated_tokens(sent)),
            cached_tokens: cached,
            strict_priority: tier.unwrap_or(0),
            priority_jump: jump.unwrap_or(0.0),
            worker: sources.worker(sent, names)?,
            allowed_workers,
            tolerations: sources
                .hint(|hints| hints.tolerations.as_deref())
                .unwrap_or_default(),
            max_queue_wait: max_queue_wait.map(Duration::from_millis),
        })
    }

    /// The worker and the model alone, for a request with another header that cannot be read.
    pub(super) fn destination(
        said: &'a QueueHints,
        told: Option<&'a QueueHints>,
        sent: &'a HeaderMap,
        names: &Headers,
    ) -> Result<(Option<&'a str>, Option<&'a str>), Reason> {
        let sources = Sources { said, told };
        Ok((sources.worker(sent, names)?, sources.model(sent, names)?))
    }
}

/// Hints in order of precedence.
struct Sources<'a> {
    said: &'a QueueHints,
    told: Option<&'a QueueHints>,
}

impl<'a> Sources<'a> {
    fn model(&self, sent: &'a HeaderMap, names: &Headers) -> Result<Option<&'a str>, Reason> {
        let read = |name: &HeaderName| headers::name(sent, name);
        self.or(|hints| hints.model.as_deref(), &names.model, read)
    }

    fn worker(&self, sent: &'a HeaderMap, names: &Headers) -> Result<Option<&'a str>, Reason> {
        let read = |name: &HeaderName| headers::name(sent, name);
        self.or(|hints| hints.worker.as_deref(), &names.worker, read)
    }

    fn hint<T>(&self, field: impl Fn(&'a QueueHints) -> Option<T>) -> Option<T> {
        field(self.said).or_else(|| self.told.and_then(&field))
    }

    fn or<T>(
        &self,
        field: impl Fn(&'a QueueHints) -> Option<T>,
        header: &Option<HeaderName>,
        read: impl FnOnce(&HeaderName) -> Result<Option<T>, Reason>,
    ) -> Result<Option<T>, Reason> {
        match (self.hint(field), header) {
            (None, Some(header)) => read(header),
            (known, _) => Ok(known),
        }
    }
}

fn estimated_tokens(sent: &HeaderMap) -> u64 {
    let length = sent.get(CONTENT_LENGTH);
    let bytes: Option<u64> = length.and_then(|length| length.to_str().ok()?.parse().ok());
    bytes.map_or(0, |bytes| bytes.div_ceil(BYTES_PER_TOKEN).min(MAX_ESTIMATE))
}
