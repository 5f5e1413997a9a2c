//! JSON read in place: values are slices of the body, taken apart only as far as needed.
//!
//! A slice is skipped, not parsed, by a loop without recursion, so nesting depth costs nothing. Each level
//! that is taken apart scans its part of the body once more; the levels are few and fixed.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The type of a value, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    String,
    Array,
    Object,
    Number,
    Other,
}

pub(super) fn kind(value: &RawValue) -> Kind {
    match value.get().as_bytes().first() {
        Some(b'"') => Kind::String,
        Some(b'[') => Kind::Array,
        Some(b'{') => Kind::Object,
        Some(b'-' | b'0'..=b'9') => Kind::Number,
        _ => Kind::Other,
    }
}

/// The text of a string; any other value as it is written.
///
/// Half of a surrogate pair, which clients send when they cut a text inside an emoji, becomes U+FFFD:
/// whether to accept it is for the server to decide.
pub(super) fn text(value: &RawValue) -> Cow<'_, str> {
    let written = value.get();
    match written
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        None => written.into(),
        Some(plain) if !plain.contains('\\') => plain.into(),
        Some(_) => {
            let text = serde_json::from_str(written).map(|Lossy(text)| text);
            text.map_or(written.into(), Cow::Owned)
        }
    }
}

/// The fields of an object, if they fit `T` and none of them is repeated.
pub(super) fn fields<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    // Structs can also be read from arrays.
    let written = Some(value.get()).filter(|_| kind(value) == Kind::Object);
    serde_json::from_str(written?).ok()
}

/// Goes through the elements of an array.
pub(super) fn each<'a>(array: &'a RawValue, visit: impl FnMut(&'a RawValue)) {
    let mut json = serde_json::Deserializer::from_str(array.get());
    // Known to be valid since the body was read.
    let _ = json.deserialize_seq(Each(visit));
}

struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_bytes(LossyVisitor)
    }
}

struct LossyVisitor;

impl Visitor<'_> for LossyVisitor {
    type Value = Lossy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Lossy, E> {
        Ok(Lossy(String::from_utf8_lossy(bytes).into_owned()))
    }
}

struct Each<F>(F);

impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            (self.0)(element);
        }
        Ok(())
    }
}
