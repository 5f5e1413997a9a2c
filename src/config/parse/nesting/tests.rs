//! Which brackets count.

use super::*;

/// How deeply the brackets of `text` nest.
fn depth(text: &str) -> usize {
    (0..)
        .find(|&max| too_deep(text, max).is_none())
        .unwrap_or(0)
}

#[test]
fn brackets_count_where_they_open_collections() {
    for (text, expected) in [
        ("", 0),
        ("a: b", 0),
        ("a: [b, {c: [d]}]", 3),
        ("- [a]\n- {b: []}", 2),
        ("[a]: b", 1),
        ("? [[a]]\n: b", 2),
        ("a:\n  [b]", 1),
        ("a: &x [b]\nc: !t [[d]]", 2),
        ("{a: [\n# ]}]\n[b]]}", 3),
        ("[[", 2),
        ("]]]]\n[", 1),
        ("{? [a] : b}", 2),
        ("{\"a\":[b]}", 2),
        ("[!t,[b]]", 2),
        ("a: !<x[> [b]", 1),
        ("%YAML 1.2\n---\n[a]", 1),
        ("\u{feff}[a]", 1),
    ] {
        assert_eq!(depth(text), expected, "{text:?}");
    }
}

#[test]
fn brackets_in_text_do_not_count() {
    for text in [
        "a: b[{",
        "a: b # [{",
        "# [{",
        "'[{'",
        "'it''s [{'",
        r#""\"[{""#,
        "\"[\n{\"",
        "a: |\n  [{\n\n  [{",
        "a: >-\n  [{",
        "- |2\n    [{",
        "a: b\n  [{",
        "a: b\n\n  '[{",
        "a-b[: c",
        "k: http://[::1]",
        "--- |\n [{",
        "%TAG ! [{\n---\na: b",
        "a: ?b[{\nc: :d[{",
    ] {
        assert_eq!(depth(text), 0, "{text:?}");
    }
}

#[test]
fn text_ends_where_the_parser_sees_it_end() {
    for text in [
        // The quote is inside a plain scalar of two lines.
        "a: b\n  'c\nd: [e]",
        "- b\n  \"c\n- [e]",
        // It begins a key.
        "a: b\n'c': [e]",
        // A block scalar ends at the first less indented line.
        "a:\n  b: |\n    '\n  c: [e]",
        "a: |1\n '\nb: [e]",
        "a: |\n\nb: [e]",
        // A comment ends a plain scalar.
        "a: b # '\nc: [e]",
        "a: b#'\nc: [e]",
        // So does a document marker.
        "a: b\n--- [e]",
        // In single quotes a backslash is literal.
        "a: '\\'\nc: [e]",
        // The header of a block scalar may have an indentation, a chomping indicator and a comment.
        "a: |+2\n   '[\nb: [e]",
        "a: |2-\n   '[\nb: [e]",
        "a: | # '\n  '[\nb: [e]",
        // Every kind of line break begins a line.
        "# '\r[e]",
        "# '\u{85}[e]",
        "# '\u{2028}[e]",
        "--- '['\n---\n[e]",
    ] {
        assert_eq!(depth(text), 1, "{text:?}");
    }
}

#[test]
fn nothing_counts_from_where_the_parser_stops() {
    for text in [
        "a: |x\n  b\nc: [d]",
        "a: |\n\t[b]",
        "a:\n  b: c\n\t[d]",
        "a: @[b]",
    ] {
        assert!(serde_yaml::from_str::<serde_yaml::Value>(text).is_err());
        assert_eq!(depth(text), 0, "{text:?}");
    }
}

#[test]
fn the_first_bracket_too_many_is_told() {
    assert_eq!(too_deep("a: [[b], [[c]]]", 2), Some(10));
    assert_eq!(too_deep("a: [[b], [[c]]]", 3), None);
}
