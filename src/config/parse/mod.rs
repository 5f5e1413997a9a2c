//! From text to the [raw policy](RawPolicy): the only module that uses the YAML parser.
//!
//! The parser reads the whole document before any part of it can be refused, and some documents take it
//! quadratic time or expand to more memory than there is. So linear-time checks come first: the
//! [size](MAX_BYTES) and the characters, the [document markers](document), the [brackets](nesting), and a
//! [walk](strict) over the values.
//!
//! Replacing the parser would change only this module.

mod document;
mod locate;
mod message;
mod nesting;
mod strict;

use serde_yaml::Deserializer as Yaml;

pub(super) use locate::Locator;

use self::strict::{MAX_DEPTH, Walk};
use super::{
    error::{ConfigMistake, Place},
    keys,
    path::Steps,
    schema::RawPolicy,
};

/// The maximum length of a text. The largest policies in use have a few kilobytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// How large a document may be with its aliases expanded, in values plus bytes of text.
///
/// Without aliases no document of [`MAX_BYTES`] exceeds it, since each value takes at least a byte.
const MAX_EXPANDED: usize = 2 * MAX_BYTES;

/// Parses a policy, and returns it with the unknown keys. It is `None` if the text is empty or null.
pub(super) fn parse(text: &str) -> Result<(Option<RawPolicy>, Vec<Steps>), ConfigMistake> {
    if text.len() > MAX_BYTES {
        return Err(too_long());
    }
    let refuse = |at, why: &str| Err(refused(text.as_bytes(), at, why));
    if let Some((at, control)) = text.char_indices().find(|(_, char)| is_foreign(*char)) {
        let why = format!(
            "the character U+{:04X} is not allowed in YAML",
            u32::from(control)
        );
        return refuse(at, &why);
    }
    if let Some((at, why)) = document::refused(text) {
        return refuse(at, why);
    }
    if let Some(at) = nesting::too_deep(text, MAX_DEPTH) {
        return refuse(
            at,
            &format!("brackets are nested more than {MAX_DEPTH} deep"),
        );
    }

    let walk = Walk::new(MAX_EXPANDED);
    if let Err(error) = walk.over(Yaml::from_str(text)) {
        let place = message::place(&error);
        return Err(match (walk.into_refusal(), place) {
            (Some(refusal), place) => {
                let mut message = refusal.message;
                let other = refusal.other;
                if let Some(other) = other.and_then(|it| Locator::new(text).locate(&it)) {
                    message.push_str(&format!(" (the other is on line {})", other.line));
                }
                ConfigMistake::new(refusal.path, message, place)
            }
            (None, None) => unmarked(text).unwrap_or_else(|| message::mistake(&error)),
            (None, Some(_)) => message::mistake(&error),
        });
    }
    keys::read(Yaml::from_str(text)).map_err(|error| message::mistake(&error))
}

/// The mistake in a text with a second document that no marker announces.
fn unmarked(text: &str) -> Option<ConfigMistake> {
    let place = locate::second_document(text)?;
    let message = if text.lines().any(|line| line.starts_with("[[")) {
        "the text is not YAML; if it is TOML, load it through a TOML deserializer"
    } else {
        "the document ends before this line; are all its outermost lines indented alike?"
    };
    Some(ConfigMistake::new("", message, Some(place)))
}

/// The mistake of a text longer than [`MAX_BYTES`].
pub(super) fn too_long() -> ConfigMistake {
    let message = format!("the policy is longer than {MAX_BYTES} bytes, which is the maximum");
    ConfigMistake::new("", message, None)
}

/// The mistake in a text that is wrong from the byte `at` on, and valid UTF-8 before it.
pub(super) fn refused(text: &[u8], at: usize, why: &str) -> ConfigMistake {
    let before = text.get(..at).unwrap_or(text);
    let newline = before.iter().rposition(|&byte| byte == b'\n');
    let line = newline.map_or(before, |newline| &before[newline + 1..]);
    let begins_char = |byte: &&u8| **byte & 0xC0 != 0x80;
    let place = Place {
        line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
        column: line.iter().filter(begins_char).count() + 1,
    };
    ConfigMistake::new("", why, Some(place))
}

/// Whether YAML forbids the character. The parser would refuse it too, but without its position.
fn is_foreign(char: char) -> bool {
    let allowed = matches!(char, '\t' | '\n' | '\r' | '\u{85}');
    char.is_control() && !allowed || matches!(char, '\u{FFFE}' | '\u{FFFF}')
}
