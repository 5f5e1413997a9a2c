//! The parts of a request's body that the policy needs.

mod json;
mod part;
mod walk;

pub use self::part::Part;

use std::{borrow::Cow, fmt};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use self::{json::Kind, walk::Walk};
use super::{Operation, UnreadableBody};

/// Longer than the name of any model, and small enough to keep while a request waits.
const MAX_MODEL_BYTES: usize = 1024;

/// The model and the prompt of a request, for an [`EstimateTokens`](super::EstimateTokens) to count.
///
/// Nothing is copied out of the body until it is asked for. Anything of an unknown shape appears as
/// [`Part::Json`].
pub struct Prompt<'a> {
    operation: Operation,
    model: Option<Cow<'a, str>>,
    fields: Fields<'a>,
}

/// The fields that are read. `null` counts as absent. A repeated field is an error, as the server behind
/// might use the other one.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    functions: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    suffix: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    // Known to some servers only.
    #[serde(borrow)]
    documents: Option<&'a RawValue>,
    #[serde(borrow)]
    prediction: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_embeds: Option<&'a RawValue>,
    // Either a mere switch, or a whole schema.
    #[serde(borrow)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

/// A longer format is a schema, which is part of what the model reads.
const MAX_SWITCH_BYTES: usize = 128;

impl<'a> Prompt<'a> {
    pub(super) fn parse(operation: Operation, body: &'a [u8]) -> Result<Self, UnreadableBody> {
        let text = std::str::from_utf8(body).map_err(not_json)?;
        // Serde also reads structs from arrays, so check first that it is an object.
        let start = text.trim_start_matches([' ', '\t', '\n', '\r']);
        if !start.starts_with('{') {
            serde_json::from_str::<IgnoredAny>(text).map_err(not_json)?;
            return Err(UnreadableBody::NotAnObject);
        }
        let fields: Fields<'a> = serde_json::from_str(text).map_err(not_json)?;
        let model = fields
            .model
            .filter(|model| json::kind(model) == Kind::String)
            .map(json::text)
            .filter(|model| (1..=MAX_MODEL_BYTES).contains(&model.len()));
        Ok(Self {
            operation,
            model,
            fields,
        })
    }

    /// The requested model, if its name has 1 to 1024 bytes.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Calls `visit` for each part of the prompt: first tools, as servers lay them out, then messages and
    /// texts, in order.
    pub fn for_each_part(&self, mut visit: impl FnMut(Part<'_>)) {
        let mut walk = Walk(&mut visit);
        let fields = &self.fields;
        match self.operation {
            Operation::ChatCompletions => {
                walk.json(fields.tools);
                walk.json(fields.functions);
                walk.json(fields.documents);
                walk.messages(fields.messages);
                walk.json(fields.prediction);
            }
            Operation::Completions => {
                walk.prompt(fields.prompt);
                walk.prompt(fields.suffix);
                walk.json(fields.prompt_embeds);
            }
            // Some servers embed whole chats.
            Operation::Embeddings => match fields.input {
                None => walk.messages(fields.messages),
                input => walk.prompt(input),
            },
            Operation::Responses => {
                // A prompt stored on the server, with the variables to fill in.
                let kept = |prompt: &&RawValue| json::kind(prompt) == Kind::Object;
                walk.json(fields.prompt.filter(kept));
                walk.message("system", fields.instructions);
                walk.json(fields.tools);
                match fields.input {
                    Some(text) if json::kind(text) == Kind::String => {
                        walk.message("user", fields.input);
                    }
                    items => walk.messages(items),
                }
            }
        }
        let schema = |format: &&RawValue| format.get().len() > MAX_SWITCH_BYTES;
        walk.json(fields.response_format.filter(schema));
        walk.json(fields.text.filter(schema));
    }
}

/// Prompts are private: they are not printed.
impl fmt::Debug for Prompt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("operation", &self.operation)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

fn not_json(error: impl fmt::Display) -> UnreadableBody {
    UnreadableBody::NotJson {
        what: error.to_string(),
    }
}
