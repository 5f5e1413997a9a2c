//! Where a second YAML document begins in a text.
//!
//! The parser refuses more than one without telling where it found it.

/// The byte at which a second document begins.
///
/// A `---` or `...` at the start of a line ends a document wherever it stands: a block scalar's
/// text is indented, and in quotes it is an error.
pub(super) fn second(text: &str) -> Option<usize> {
    let text_start = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut begun = false;
    let mut ended = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let content = line
            .get(text_start.saturating_sub(start)..)
            .unwrap_or_default();
        let marker = |marker| {
            content
                .strip_prefix(marker)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
        };
        let blank = content.trim_start().is_empty() || content.trim_start().starts_with('#');
        let directive = content.starts_with('%') && (!begun || ended);
        if marker("...") {
            ended = begun;
        } else if marker("---") {
            if begun {
                return Some(start);
            }
            begun = true;
        } else if !blank && !directive {
            if ended {
                return Some(start);
            }
            begun = true;
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::second;

    #[test]
    fn one_document_is_one_however_it_is_marked() {
        for text in [
            "",
            "\n",
            "a: 1\n",
            "---\na: 1\n",
            "\u{feff}---\r\na: 1\r\n...\r\n",
            "%YAML 1.2\n---\na: 1\n...\n# end\n\n",
            "# comment\n--- {a: 1}\n",
            "a: |\n  ---\n  ...\n",
            "----: 1\n---a: 2\n",
            "...\na: 1\n",
        ] {
            assert_eq!(second(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_second_document_is_found_where_it_begins() {
        for (text, at) in [
            ("a: 1\n---\nb: 2\n", 5),
            ("a: 1\n---", 5),
            ("---\n---\n", 4),
            ("--- a\n...\nb: 2\n", 10),
            ("a: 1\n...\n%YAML 1.2\n---\n", 19),
        ] {
            assert_eq!(second(text), Some(at), "{text:?}");
        }
    }
}
