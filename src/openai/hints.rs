//! What is handed on.

use http::Extensions;

use super::{EstimateTokens, Operation, Prompt, PromptBlocks, UnreadableBody};
use crate::QueueHints;

/// What of the hints of a request a body said: a request that its handler sends on with its extensions
/// has a body of its own.
#[derive(Clone, Copy)]
struct Read {
    model: bool,
    tokens: bool,
}

/// Reads a body, and adds what it says to what layers outside have said. Theirs is kept.
pub(super) fn attach<E: EstimateTokens>(
    extensions: &mut Extensions,
    operation: Operation,
    body: &[u8],
    estimator: &E,
) -> Result<(), UnreadableBody> {
    let prompt = Prompt::parse(operation, body)?;
    let before = extensions.remove::<Read>();
    if before.is_some() {
        extensions.remove::<PromptBlocks>();
    }
    let hints = extensions.get_or_insert_with(QueueHints::default);
    let read = Read {
        model: hints.model.is_none() || before.is_some_and(|before| before.model),
        tokens: hints.raw_isl_tokens.is_none() || before.is_some_and(|before| before.tokens),
    };
    if read.model {
        hints.model = prompt.model().map(str::to_owned);
    }
    if read.tokens {
        hints.raw_isl_tokens = Some(estimator.estimate_tokens(&prompt));
    }
    let tokens = hints.raw_isl_tokens.unwrap_or_default();
    let blocks = PromptBlocks::of(&prompt, hints.model.as_deref(), tokens);
    extensions.get_or_insert(blocks);
    extensions.insert(read);
    Ok(())
}
