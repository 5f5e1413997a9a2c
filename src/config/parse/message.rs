//! Turns the parser's errors into messages like those of validation.

use serde_yaml::Error as YamlError;

use crate::config::{
    error::{ConfigMistake, Place},
    names,
    path::{Step, Steps},
};

/// The position of an error. Its text omits the position if that is the very first.
pub(super) fn place(error: &YamlError) -> Option<Place> {
    let location = error.location()?;
    Some(Place {
        line: location.line(),
        column: location.column(),
    })
}

/// The mistake for an error, with path and position taken out of its text.
pub(super) fn mistake(error: &YamlError) -> ConfigMistake {
    let place = place(error);
    let mut message = error.to_string();
    if let Some(Place { line, column }) = place {
        message = message.replacen(&format!(" at line {line} column {column}"), "", 1);
    }
    let (path, message) = split(&message);
    ConfigMistake::new(path, reworded(message), place)
}

/// Splits `a[0].b: what is wrong` and writes the path as validation does.
///
/// A text without a path, or with one that cannot be told from the message, is left unsplit.
fn split(text: &str) -> (String, &str) {
    let (path, message) = match (text.find(": invalid "), text.split_once(": ")) {
        // The name of a model may contain anything.
        (Some(end), _) if text.starts_with("models.") => (&text[..end], &text[end + 2..]),
        (_, Some((path, message))) if !path.contains([' ', '`', '"']) => (path, message),
        _ => ("", text),
    };
    let mut path = model_quoted(path);
    let unknown = message.strip_prefix("unknown field `");
    if let Some(key) = unknown.and_then(|rest| rest.split('`').next()) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&Steps(vec![Step::Entry(key.into())]).to_string());
    }
    (path, message)
}

/// `models.a/b.policy_classes`, with the model's name quoted as in other paths.
fn model_quoted(path: &str) -> String {
    const FIELDS: [&str; 3] = [
        ".default_policy_family",
        ".uncached_isl_buckets",
        ".policy_classes",
    ];

    let Some(rest) = path.strip_prefix("models.") else {
        return path.to_owned();
    };
    let end = FIELDS.iter().filter_map(|field| rest.rfind(field)).max();
    let (model, field) = rest.split_at(end.unwrap_or(rest.len()));
    let steps = Steps(vec![Step::Key("models"), Step::Entry(model.into())]);
    format!("{steps}{field}")
}

/// The message in YAML's terms rather than serde's, with a hint where the remedy is not obvious. It is
/// truncated, since it quotes the value.
///
/// Text in place of a collection is not quoted. It may be any part of the file, such as two lines with an
/// API key in one of them, or the whole of a file that is not a policy.
fn reworded(message: &str) -> String {
    let text = message.strip_prefix("invalid type: string \"");
    if let Some((text, expected)) = text.and_then(|rest| rest.rsplit_once("\", expected ")) {
        let hint = if text.contains(':') {
            "; the `:` after a key must be followed by a space"
        } else {
            ""
        };
        return reworded(&format!("invalid type: text, expected {expected}")) + hint;
    }
    let says = |gist| message.contains(gist);
    let hint = if says("expected ',' or '}'") || says("expected ',' or ']'") {
        "; is a bracket left open? Inside brackets, text that contains any of , [ ] { }, such as ${NAME}, needs quotes"
    } else if says("cannot start any token") {
        "; YAML is indented with spaces, not tabs, and text that begins with @, ` or % needs quotes"
    } else if says("expected key")
        || says("expected '-' indicator")
        || says("expected ':'")
        || says("mapping values are not allowed")
    {
        "; is the line indented like those around it, the `:` after a key followed by a space, and text \
         that contains `: ` in quotes?"
    } else if says("expected a sequence") {
        "; each element of a list begins with `- `, or the whole list is written in [..]"
    } else {
        ""
    };
    let message = match message {
        "repetition limit exceeded" => {
            "the aliases (`*name`) expand to more than a policy may contain".to_owned()
        }
        message => names::cut_to(message, 512)
            .replace("unit value", "null")
            .replace("invalid type: sequence", "invalid type: list")
            .replace("expected a sequence", "expected a list"),
    };
    message + hint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_told_from_the_message() {
        for (text, path, message) in [
            ("a: wrong", "a", "wrong"),
            ("a[0].b: invalid type: map", "a[0].b", "invalid type: map"),
            ("invalid type: map", "", "invalid type: map"),
            (
                "unknown field `b`, expected `c`",
                "b",
                "unknown field `b`, expected `c`",
            ),
            ("a[1]: unknown field `b`", "a[1].b", "unknown field `b`"),
            ("models.a/b: wrong", "models.\"a/b\"", "wrong"),
            (
                "models.a.b.policy_classes[0]: x",
                "models.\"a.b\".policy_classes[0]",
                "x",
            ),
            ("models.a b: wrong", "", "models.a b: wrong"),
            (
                "models.a: b.policy_classes[0]: invalid type: map",
                "models.\"a: b\".policy_classes[0]",
                "invalid type: map",
            ),
        ] {
            assert_eq!(split(text), (path.to_owned(), message), "{text}");
        }
    }
}
