//! The value of a field: how it is compared and shown.
//!
//! A policy is untrusted input, and a change is one line: what is shown is escaped and truncated.

use std::borrow::Cow;

use super::thing::NONE;
use crate::config::names;

/// How many names of a list are shown at most.
const LISTED: usize = 10;

// Not `Debug`: it may hold an API key.
/// The value of a field.
#[derive(PartialEq)]
pub(super) enum Value<'a> {
    /// A number, or a word of the schema.
    Word(Cow<'static, str>),
    /// Free text from the file.
    Text(&'a str),
    Names(Vec<&'a str>),
    /// A value that is never shown.
    Secret(Option<&'a str>),
}

impl Value<'_> {
    /// The value on its own.
    pub(super) fn shown(&self) -> String {
        self.shown_from(0).unwrap_or_else(|| "(not shown)".into())
    }

    /// The value next to another one, from where they begin to differ; `None` for a secret.
    pub(super) fn shown_beside(&self, other: &Self) -> Option<String> {
        let alike = match (self, other) {
            // A list that is short enough to show whole is easier to read from its beginning.
            (Self::Names(own), Self::Names(other)) if own.len().max(other.len()) > LISTED => {
                own.iter().zip(other).take_while(|(a, b)| a == b).count()
            }
            _ => 0,
        };
        self.shown_from(alike)
    }

    /// The value, without the first `alike` of its names.
    fn shown_from(&self, alike: usize) -> Option<String> {
        match self {
            Self::Word(word) => Some(word.to_string()),
            Self::Text(text) => Some(bare(text).into_owned()),
            Self::Names(names) => Some(list(names, alike)),
            Self::Secret(_) => None,
        }
    }
}

fn list(names: &[&str], alike: usize) -> String {
    if names.is_empty() {
        return NONE.to_owned();
    }
    let differing = names.iter().skip(alike);
    let more = differing.len().saturating_sub(LISTED);
    let mut shown = Vec::new();
    if alike > 0 {
        shown.push(Cow::from(format!("({alike} alike)")));
    }
    shown.extend(differing.take(LISTED).map(|name| bare(name)));
    if more > 0 {
        shown.push(format!("({more} more)").into());
    }
    shown.join(", ")
}

/// `text` as is if it is unambiguous, otherwise in quotes.
fn bare(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/:@+*".contains(&byte);
    // Checking the length first avoids scanning a long text.
    if (1..=names::SHOWN_CHARS).contains(&text.len()) && text.bytes().all(plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(names::quote(text))
    }
}

/// `number`, in few digits.
pub(super) fn number(number: f64) -> String {
    // The sum turns -0 into 0, which means the same.
    let number = number + 0.0;
    let digits = number.to_string();
    if digits.len() > 20 {
        format!("{number:e}")
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_shown_from_where_they_differ() {
        let all: Vec<String> = (0..100).map(|index| format!("m{index}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let (long, short) = (Value::Names(all.clone()), Value::Names(all[..98].to_vec()));
        assert_eq!(short.shown_beside(&long).unwrap(), "(98 alike)");
        assert_eq!(long.shown_beside(&short).unwrap(), "(98 alike), m98, m99");
        let one = Value::Names(vec!["m0"]);
        assert_eq!(one.shown_beside(&long).unwrap(), "(1 alike)");
        let none = Value::Names(Vec::new());
        assert_eq!(none.shown_beside(&long).unwrap(), "(none)");
        assert!(long.shown_beside(&none).unwrap().ends_with("m9, (90 more)"));
    }

    #[test]
    fn text_that_could_be_taken_for_more_is_quoted_and_cut() {
        assert_eq!(bare("vendor/model:7b"), "vendor/model:7b");
        for text in ["", "a, b", "a -> b", "(none)", "a\n+ b", "é"] {
            assert_eq!(bare(text), format!("{text:?}"));
        }
        assert!(bare(&"x".repeat(1000)).len() < 100);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(16.0), "16");
        assert_eq!(number(0.95), "0.95");
        assert_eq!(number(-0.0), "0");
        assert_eq!(number(1e300), "1e300");
        assert_eq!(number(f64::MIN_POSITIVE), "2.2250738585072014e-308");
    }
}
