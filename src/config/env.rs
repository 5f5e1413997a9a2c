//! `${VARIABLE}` in `api_key` and `base_url`.
//!
//! The only form is `${NAME}`, where a name matches `[A-Za-z_][A-Za-z0-9_]*`. Everything else, including a
//! `$` without a brace, stands for itself. There are no defaults and no escapes, and the value of a variable
//! is not expanded again. A `${` that does not begin a variable is a mistake rather than text, since it is
//! almost certainly a typo.

use std::env::VarError;

/// The hint to append to a message about a wrong value of any other key, if the value contains a `${`.
pub(super) fn hint_elsewhere(text: &str) -> Option<&'static str> {
    let hint = "; variables are replaced only in api_key and base_url";
    text.contains("${").then_some(hint)
}

/// Looks up a variable: in the process environment, except in tests.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Result<String, VarError>;

/// Replaces the variables in `text`, or says what is wrong with it.
///
/// The error names the variable, but contains nothing of the text or of any variable's value.
pub(super) fn expand(text: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let name = after
            .split_once('}')
            .map(|(name, _)| name)
            .filter(|name| is_variable(name))
            .ok_or("contains a `${` that does not begin a valid `${VARIABLE}`; the name must match [A-Za-z_][A-Za-z0-9_]*")?;
        expanded.push_str(before);
        expanded.push_str(&lookup(name).map_err(|error| match error {
            VarError::NotPresent => format!("the environment variable {name} is not set"),
            VarError::NotUnicode(_) => format!("the environment variable {name} is not UTF-8"),
        })?);
        rest = &after[name.len() + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_variable(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Result<String, VarError> {
        match name {
            "KEY" => Ok("sk-1".to_owned()),
            "NESTED" => Ok("${KEY}".to_owned()),
            "EMPTY" => Ok(String::new()),
            "BYTES" => Err(VarError::NotUnicode("secret".into())),
            _ => Err(VarError::NotPresent),
        }
    }

    #[test]
    fn variables_are_replaced_and_everything_else_is_kept() {
        for (text, expanded) in [
            ("", ""),
            ("plain", "plain"),
            ("${KEY}", "sk-1"),
            ("a${KEY}b${KEY}", "ask-1bsk-1"),
            ("$KEY $ $$ }", "$KEY $ $$ }"),
            ("$${KEY}", "$sk-1"),
            ("${EMPTY}", ""),
            ("${NESTED}", "${KEY}"),
            ("é${KEY}é", "ésk-1é"),
        ] {
            assert_eq!(expand(text, &lookup).as_deref(), Ok(expanded), "{text}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_read_is_named() {
        assert_eq!(
            expand("${KEY}${MISSING}", &lookup),
            Err("the environment variable MISSING is not set".to_owned())
        );
        assert_eq!(
            expand("${BYTES}", &lookup),
            Err("the environment variable BYTES is not UTF-8".to_owned())
        );
    }

    #[test]
    fn a_brace_that_begins_no_variable_is_a_mistake_that_shows_nothing_of_the_text() {
        for text in [
            "${",
            "${KEY",
            "${}",
            "${1KEY}",
            "${ KEY }",
            "${KEY:-sk-2}",
            "${sk-2${KEY}}",
        ] {
            let error = expand(text, &lookup).unwrap_err();
            assert!(
                error.contains("does not begin a valid `${VARIABLE}`"),
                "{text}: {error}"
            );
            assert!(!error.contains("sk-"), "{text}: {error}");
        }
    }
}
