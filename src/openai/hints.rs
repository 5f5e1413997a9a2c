//! The hints that are attached to a request.

use http::Extensions;

use super::{EstimateTokens, Operation, Prompt, PromptBlocks, UnreadableBody};
use crate::QueueHints;

/// Which of a request's hints come from its body.
#[derive(Clone, Copy)]
struct Read {
    model: bool,
    tokens: bool,
}

/// Reads a body, and adds what it says to the hints. Those of layers outside are kept.
pub(super) fn attach<E: EstimateTokens>(
    extensions: &mut Extensions,
    operation: Operation,
    body: &[u8],
    estimator: &E,
) -> Result<(), UnreadableBody> {
    let prompt = Prompt::parse(operation, body)?;
    forget(extensions);
    let hints = extensions.get_or_insert_with(QueueHints::default);
    let read = Read {
        model: hints.model.is_none(),
        tokens: hints.raw_isl_tokens.is_none(),
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

/// Removes the hints of another body. A request that a handler sends with the extensions of its own
/// request has a different body.
pub(super) fn forget(extensions: &mut Extensions) {
    let Some(read) = extensions.remove::<Read>() else {
        return;
    };
    extensions.remove::<PromptBlocks>();
    if let Some(hints) = extensions.get_mut::<QueueHints>() {
        if read.model {
            hints.model = None;
        }
        if read.tokens {
            hints.raw_isl_tokens = None;
        }
    }
}
