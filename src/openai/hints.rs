//! What is handed on.

use http::Extensions;

use super::{EstimateTokens, Operation, Prompt, PromptBlocks, UnreadableBody};
use crate::QueueHints;

/// Reads a body, and adds what it says to what layers outside have said. Theirs is kept.
pub(super) fn attach<E: EstimateTokens>(
    extensions: &mut Extensions,
    operation: Operation,
    body: &[u8],
    estimator: &E,
) -> Result<(), UnreadableBody> {
    let prompt = Prompt::parse(operation, body)?;
    let hints = extensions.get_or_insert_with(QueueHints::default);
    if hints.model.is_none() {
        hints.model = prompt.model().map(str::to_owned);
    }
    let tokens = *hints
        .raw_isl_tokens
        .get_or_insert_with(|| estimator.estimate_tokens(&prompt));
    let blocks = PromptBlocks::of(&prompt, hints.model.as_deref(), tokens);
    extensions.get_or_insert(blocks);
    Ok(())
}
