//! The parts of a prompt.

/// A part of a [`Prompt`](super::Prompt), in the order in which a server lays it out.
///
/// ```
/// use tower_policy_queue::openai::Part;
///
/// /// A tokenizer that knows words.
/// fn tokens(part: Part<'_>) -> usize {
///     match part {
///         Part::Text(text) | Part::Json(text) => text.split_whitespace().count(),
///         Part::Image { .. } => 576,
///         Part::TokenId(_) => 1,
///         _ => 0,
///     }
/// }
/// assert_eq!(tokens(Part::Text("the quick brown fox")), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part<'a> {
    /// The beginning of a message by this role. In the responses API, `instructions` are a message by
    /// `system`, and an `input` that is one string is a message by `user`.
    #[non_exhaustive]
    Message {
        /// The role as sent.
        role: &'a str,
    },
    /// Text as the model sees it, without JSON escapes: a message's content or a piece of it, a
    /// refusal, a prompt, an input.
    Text(&'a str),
    /// JSON as it is written: tools, tool calls, and anything that this crate does not know.
    Json(&'a str),
    /// The id of a token, as it is written, from a prompt that is already tokenized.
    TokenId(&'a str),
    /// An image.
    #[non_exhaustive]
    Image {
        /// Its address, the whole image as a `data:` URL, or the id of a file.
        source: &'a str,
        /// The requested level of detail, if any: `low`, `high`, `auto`.
        detail: Option<&'a str>,
    },
    /// A piece of audio.
    #[non_exhaustive]
    Audio {
        /// The audio in base64.
        data: &'a str,
        /// `wav` or `mp3`, if the request says which.
        format: Option<&'a str>,
    },
}
