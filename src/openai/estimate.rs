//! How many tokens a prompt has.

use std::num::NonZeroU32;

use super::{Part, Prompt};

/// Counts the tokens of a prompt, or guesses. Implemented for closures from `&Prompt` to `u64`.
///
/// It runs once for each request that is read, on the task that serves it, before the request
/// queues; not when a layer outside has said the number already. One that takes long, as
/// tokenizers do on long prompts, keeps a thread of the runtime busy.
///
/// ```
/// use tower_policy_queue::openai::{EstimateTokens, OpenAiHintsLayer, Part, Prompt};
///
/// fn words(prompt: &Prompt<'_>) -> u64 {
///     let mut words = 0;
///     prompt.for_each_part(|part| {
///         if let Part::Text(text) = part {
///             words += text.split_whitespace().count() as u64;
///         }
///     });
///     words
/// }
///
/// let layer = OpenAiHintsLayer::new().estimator(words);
/// # fn implements(_: impl EstimateTokens) {}
/// # implements(words);
/// # let _ = layer;
/// ```
pub trait EstimateTokens {
    /// The length of the prompt in tokens.
    fn estimate_tokens(&self, prompt: &Prompt<'_>) -> u64;
}

impl<F> EstimateTokens for F
where
    F: Fn(&Prompt<'_>) -> u64,
{
    fn estimate_tokens(&self, prompt: &Prompt<'_>) -> u64 {
        self(prompt)
    }
}

/// The estimator of a layer that was given none: as many bytes of text are a token, 4 by default,
/// and what is not text has a price of its own.
///
/// | part | tokens | why |
/// |---|---|---|
/// | text | bytes / 4, rounded up for each | what English is with common tokenizers; other languages and code have more tokens per letter, but also more bytes |
/// | a message | 4 | chat templates put its role and two or three delimiters around it |
/// | tools, calls, unknown JSON | bytes / 4 as written | templates print them as JSON |
/// | a token id | 1 | |
/// | an image | 765, or 85 with `detail: low` | 1024 × 1024 pixels as GPT-4o counts them; open models have 256 to 1600 for one image |
/// | sound | base64 bytes / 1024, of `wav` / 4096, rounded up | about 10 tokens a second of speech, at 64 kbit/s and as 16-bit samples at 16 kHz |
///
/// The bytes of an image do not matter: most of them are base64, which a server turns into pixels
/// before it turns those into tokens. Files and videos are unknown JSON, so their bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesPerToken {
    bytes: NonZeroU32,
}

const MESSAGE_TOKENS: u64 = 4;
const IMAGE_TOKENS: u64 = 765;
const LOW_DETAIL_IMAGE_TOKENS: u64 = 85;
const BASE64_BYTES_PER_AUDIO_TOKEN: u64 = 1024;
const BASE64_BYTES_PER_WAV_TOKEN: u64 = 4096;

impl BytesPerToken {
    /// As many bytes of text are a token: less than 4 for languages and code that the model's
    /// tokenizer does not know well.
    #[must_use]
    pub const fn new(bytes: NonZeroU32) -> Self {
        Self { bytes }
    }

    fn part(self, part: Part<'_>) -> u64 {
        match part {
            Part::Message { .. } => MESSAGE_TOKENS,
            Part::Text(text) | Part::Json(text) => {
                (text.len() as u64).div_ceil(self.bytes.get().into())
            }
            Part::TokenId(_) => 1,
            Part::Image {
                detail: Some("low"),
                ..
            } => LOW_DETAIL_IMAGE_TOKENS,
            Part::Image { .. } => IMAGE_TOKENS,
            Part::Audio { data, format } => (data.len() as u64).div_ceil(match format {
                Some("wav") => BASE64_BYTES_PER_WAV_TOKEN,
                _ => BASE64_BYTES_PER_AUDIO_TOKEN,
            }),
        }
    }
}

impl EstimateTokens for BytesPerToken {
    fn estimate_tokens(&self, prompt: &Prompt<'_>) -> u64 {
        let mut tokens: u64 = 0;
        prompt.for_each_part(|part| tokens = tokens.saturating_add(self.part(part)));
        tokens
    }
}

impl Default for BytesPerToken {
    fn default() -> Self {
        const FOUR: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);
        Self::new(FOUR)
    }
}
