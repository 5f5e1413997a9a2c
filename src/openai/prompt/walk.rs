//! Walks through a prompt. Anything of an unknown shape is visited as JSON, never left out: an unusual
//! shape does not make a request cheaper.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Part,
    json::{self, Kind},
};

type Raw<'a> = Option<&'a RawValue>;

/// A message of a chat, or an item of the responses API's input.
#[derive(Clone, Copy, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Raw<'a>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    reasoning_content: Raw<'a>,
    #[serde(borrow)]
    reasoning: Raw<'a>,
    #[serde(borrow)]
    parts: Raw<'a>,
    #[serde(borrow)]
    refusal: Raw<'a>,
    #[serde(borrow)]
    tool_calls: Raw<'a>,
    #[serde(borrow)]
    function_call: Raw<'a>,
}

/// An element of an array of contents.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    text: Raw<'a>,
    #[serde(borrow)]
    refusal: Raw<'a>,
    #[serde(borrow)]
    image_url: Raw<'a>,
    #[serde(borrow)]
    detail: Raw<'a>,
    #[serde(borrow)]
    file_id: Raw<'a>,
    #[serde(borrow)]
    input_audio: Raw<'a>,
    #[serde(borrow)]
    file: Raw<'a>,
    #[serde(borrow)]
    file_data: Raw<'a>,
    #[serde(borrow)]
    video_url: Raw<'a>,
    // Known to some servers only.
    #[serde(borrow)]
    audio_url: Raw<'a>,
    #[serde(borrow)]
    image_embeds: Raw<'a>,
    #[serde(borrow)]
    audio_embeds: Raw<'a>,
}

/// The `image_url` of the chat API. In the responses API it is the URL itself.
#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    url: Raw<'a>,
    #[serde(borrow)]
    detail: Raw<'a>,
}

#[derive(Deserialize)]
struct Audio<'a> {
    #[serde(borrow)]
    data: Raw<'a>,
    #[serde(borrow)]
    format: Raw<'a>,
}

/// Visits the parts of values.
pub(super) struct Walk<'v>(pub(super) &'v mut dyn FnMut(Part<'_>));

impl Walk<'_> {
    /// Visits tools and the like.
    pub(super) fn json(&mut self, value: Raw<'_>) {
        if let Some(value) = value {
            (self.0)(Part::Json(value.get()));
        }
    }

    /// Visits a text that is a message of its own.
    pub(super) fn message(&mut self, role: &str, value: Raw<'_>) {
        if let Some(value) = value {
            (self.0)(Part::Message { role });
            self.text(value);
        }
    }

    /// Visits `messages`, or an `input` that is not a string: an array of messages and other items.
    pub(super) fn messages(&mut self, value: Raw<'_>) {
        match value {
            Some(array) if json::kind(array) == Kind::Array => {
                json::each(array, |item| self.item(item));
            }
            other => self.json(other),
        }
    }

    /// Visits a `prompt`, or an `input` to embed: a text, an array of token ids, or an array of either.
    pub(super) fn prompt(&mut self, value: Raw<'_>) {
        match value {
            Some(array) if json::kind(array) == Kind::Array => {
                json::each(array, |element| match json::kind(element) {
                    Kind::Array => json::each(element, |id| self.token_or_text(id)),
                    _ => self.token_or_text(element),
                });
            }
            Some(value) => self.text(value),
            None => {}
        }
    }

    fn token_or_text(&mut self, value: &RawValue) {
        match json::kind(value) {
            Kind::Number => (self.0)(Part::TokenId(value.get())),
            _ => self.text(value),
        }
    }

    fn item(&mut self, value: &RawValue) {
        let message: Option<Message<'_>> = json::fields(value);
        // Tool calls, their results, and reasoning are items of other shapes.
        let Some((message, role)) = message.and_then(|message| Some((message, message.role?)))
        else {
            return self.json(Some(value));
        };
        (self.0)(Part::Message {
            role: &json::text(role),
        });
        match message.content {
            Some(array) if json::kind(array) == Kind::Array => {
                json::each(array, |piece| self.piece(piece));
            }
            Some(content) => self.text(content),
            None => {}
        }
        for text in [
            message.reasoning_content,
            message.reasoning,
            message.refusal,
        ] {
            text.into_iter().for_each(|text| self.text(text));
        }
        self.json(message.parts);
        self.json(message.tool_calls);
        self.json(message.function_call);
    }

    fn piece(&mut self, value: &RawValue) {
        let Some(piece) = json::fields::<Piece<'_>>(value) else {
            return self.text(value);
        };
        let is_image = || {
            piece
                .kind
                .is_some_and(|kind| json::text(kind) == "input_image")
        };
        let mut known = false;
        for text in [piece.text, piece.refusal].into_iter().flatten() {
            known = true;
            self.text(text);
        }
        if piece.image_url.is_some() || is_image() {
            known = true;
            self.image(&piece);
        }
        if let Some(audio) = piece.input_audio {
            known = true;
            self.audio(audio);
        }
        if !known {
            return self.json(Some(value));
        }
        // Counted even beside a text, which may be empty.
        for attached in [
            piece.file,
            piece.file_data,
            piece.video_url,
            piece.audio_url,
            piece.image_embeds,
            piece.audio_embeds,
        ] {
            self.json(attached);
        }
    }

    fn image(&mut self, piece: &Piece<'_>) {
        let object: Option<Image<'_>> = piece.image_url.and_then(json::fields);
        let (url, detail) = match object {
            Some(image) => (image.url, image.detail.or(piece.detail)),
            None => (piece.image_url, piece.detail),
        };
        let source = url.or(piece.file_id).map(json::text).unwrap_or_default();
        let detail = detail.map(json::text);
        (self.0)(Part::Image {
            source: &source,
            detail: detail.as_deref(),
        });
    }

    fn audio(&mut self, value: &RawValue) {
        let Some(audio) = json::fields::<Audio<'_>>(value) else {
            return self.json(Some(value));
        };
        let data = audio.data.map(json::text).unwrap_or_default();
        let format: Option<Cow<'_, str>> = audio.format.map(json::text);
        (self.0)(Part::Audio {
            data: &data,
            format: format.as_deref(),
        });
    }

    /// Visits a string, or JSON in its place.
    fn text(&mut self, value: &RawValue) {
        match json::kind(value) {
            Kind::String => (self.0)(Part::Text(&json::text(value))),
            _ => self.json(Some(value)),
        }
    }
}
