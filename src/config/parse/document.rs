//! Checks the directives of a YAML text, and that it is a single document.
//!
//! The parser refuses a second document without saying where it begins, and takes time quadratic in the
//! number of `%TAG` directives, for which a policy has no use.

/// The byte at which the text stops being a single plain document, and why.
///
/// A `---` or `...` at the start of a line always ends a document: the text of a block scalar is indented,
/// and in quotes the marker is an error.
pub(super) fn refused(text: &str) -> Option<(usize, &'static str)> {
    let mut stage = Stage::Before;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let kind = Line::of(line);
        stage = match (stage, kind) {
            (Stage::Before, Line::Text) if line.starts_with("%TAG") => {
                return Some((start, "tags and `%TAG` directives are not supported"));
            }
            (Stage::Before, Line::Text) if line.starts_with('%') => Stage::Before,
            (Stage::Before, Line::Begin | Line::Text) => Stage::Within,
            (Stage::Within, Line::End) => Stage::After,
            (Stage::Within, Line::Begin) | (Stage::After, Line::Begin | Line::Text) => {
                return Some((
                    start,
                    "a second document begins here; a policy must be a single document",
                ));
            }
            (stage, _) => stage,
        };
        start += line.len();
    }
    None
}

#[derive(Clone, Copy)]
enum Stage {
    Before,
    Within,
    After,
}

#[derive(Clone, Copy)]
enum Line {
    /// `---`
    Begin,
    /// `...`
    End,
    /// Nothing, or a comment.
    Blank,
    /// Anything else.
    Text,
}

impl Line {
    fn of(line: &str) -> Self {
        let is = |marker| {
            line.strip_prefix(marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        let text = line.trim_start();
        if is("---") {
            Self::Begin
        } else if is("...") {
            Self::End
        } else if text.is_empty() || text.starts_with('#') {
            Self::Blank
        } else {
            Self::Text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_is_one_however_it_is_marked() {
        for text in [
            "",
            "\n",
            "a: 1\n",
            "---\na: 1\n",
            "---\r\na: 1\r\n...\r\n",
            "%YAML 1.2\n---\na: 1\n...\n# end\n\n",
            "# comment\n--- {a: 1}\n",
            "a: |\n  ---\n  ...\n",
            "----: 1\n---a: 2\n",
            "...\na: 1\n",
            "a: |\n  %TAG\n",
        ] {
            assert_eq!(refused(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_second_document_is_found_where_it_begins() {
        for (text, at) in [
            ("a: 1\n---\nb: 2\n", 5),
            ("a: 1\n---", 5),
            ("---\n---\n", 4),
            ("--- a\n...\nb: 2\n", 10),
            ("a: 1\n...\n%YAML 1.2\n---\n", 9),
        ] {
            let second = refused(text).filter(|(_, why)| why.contains("second document"));
            assert_eq!(second.map(|(at, _)| at), Some(at), "{text:?}");
        }
    }

    #[test]
    fn a_tag_directive_is_refused() {
        let (at, why) = refused("# policy\n%TAG !a! tag:a,2000:\n---\n{}\n").unwrap_or_default();
        assert_eq!(at, 9);
        assert!(why.contains("%TAG"));
    }
}
