//! Which names are valid, and how messages show them.
//!
//! Messages quote the file, and a file is untrusted input: everything shown is escaped and truncated, so
//! that the size of an error is bounded by the number of mistakes.

use std::borrow::Cow;

/// How many characters of a name a message shows at most.
pub(super) const SHOWN_CHARS: usize = 64;

/// How many names a message lists at most.
const LISTED: usize = 10;

/// Whether `text` is a valid name for a class, family, bucket, dominion, worker or profile.
///
/// The alphabet is that of the published router, whose names also end up as metric labels.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// `text`, truncated if it is long.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    cut_to(text, SHOWN_CHARS)
}

/// `text`, truncated to its first `chars` characters.
pub(super) fn cut_to(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// `text` in quotes, escaped and truncated.
pub(super) fn quote(text: &str) -> String {
    format!("{:?}", cut(text))
}

/// Lists the first of `count` names, for a message about a name that is not among them.
///
/// The caller passes the count, since counting again for each message would be slow with many of them.
pub(super) fn list<'a>(count: usize, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut listed: Vec<_> = names.into_iter().take(LISTED).map(quote).collect();
    let more = count.saturating_sub(listed.len());
    if more > 0 {
        listed.push(format!("{more} more"));
    }
    match listed.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_dots_dashes_and_underscores() {
        for name in ["a", "A-1", "gpt-4o", "v1.2_x", "0", "-", "."] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", " ", "a b", "a/b", "~", "a:b", "ä", "a\n"] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_shown_name_is_escaped_and_cut() {
        assert_eq!(quote("a\n\"b"), r#""a\n\"b""#);
        assert!(quote(&"é".repeat(1000)).len() < 200);
    }

    #[test]
    fn a_list_of_names_reads_as_a_sentence_and_ends() {
        assert_eq!(list(0, []), "none");
        assert_eq!(list(1, ["a"]), r#""a""#);
        assert_eq!(list(3, ["a", "b", "c"]), r#""a", "b" and "c""#);
        assert!(list(30, ["a"; 30]).ends_with("and 20 more"));
    }
}
