//! How many tokens a prompt has.

use std::num::NonZeroU32;

use super::{Part, Prompt};

/// Counts or estimates the tokens of a prompt. Implemented for closures from `&Prompt` to `u64`.
///
/// It runs once for each request that is read, on the request's task, before the request queues. It does
/// not run if a layer outside has already set the number. A slow one, such as a tokenizer on a long prompt,
/// blocks a thread of the runtime.
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
    /// Returns the length of the prompt in tokens.
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

/// Estimates tokens from the length of the text, 4 bytes a token by default. What is not text has a price
/// of its own. The default estimator of a layer.
///
/// | part | tokens | why |
/// |---|---|---|
/// | text | bytes / 4, each text rounded up | what common tokenizers need for English; other languages and code have more tokens per letter, but also more bytes |
/// | a message | 4 | chat templates put its role and two or three delimiters around it |
/// | tools, calls, unknown JSON | bytes / 4 as written | templates print them as JSON |
/// | a token id | 1 | |
/// | an image | 765, or 85 with `detail: low` | what GPT-4o counts for 1024 × 1024 pixels; open models need 256 to 1600 for an image |
/// | audio | base64 bytes / 1024, or / 4096 for `wav`, rounded up | about 10 tokens a second of speech, at 64 kbit/s or as 16-bit samples at 16 kHz |
///
/// The size of an image in bytes does not matter: the server decodes it to pixels before it turns those
/// into tokens. Files and videos count as unknown JSON, so their bytes do matter.
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
    /// Counts a token for every `bytes` bytes of text. Use less than 4 for languages and code that the
    /// model's tokenizer does not know well.
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
