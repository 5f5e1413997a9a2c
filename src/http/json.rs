//! Just enough JSON to write an error.

use std::fmt::Write;

/// An object under construction. Keys are not escaped.
#[derive(Debug)]
pub(super) struct Object {
    text: String,
}

impl Object {
    pub(super) fn new() -> Self {
        Self {
            text: "{".to_owned(),
        }
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' | '\\' => self.text.extend(['\\', character]),
                '\u{0}'..='\u{1f}' => {
                    // Writing to a string cannot fail.
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                _ => self.text.push(character),
            }
        }
        self.text.push('"');
    }

    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.raw(key, &value.to_string());
    }

    pub(super) fn null(&mut self, key: &str) {
        self.raw(key, "null");
    }

    pub(super) fn object(&mut self, key: &str, value: Self) {
        self.raw(key, &value.finish());
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }

    fn raw(&mut self, key: &str, value: &str) {
        self.key(key);
        self.text.push_str(value);
    }

    fn key(&mut self, key: &str) {
        let separator = if self.text.len() > 1 { "," } else { "" };
        let _ = write!(self.text, "{separator}\"{key}\":");
    }
}

#[cfg(test)]
mod tests {
    use super::Object;

    #[test]
    fn strings_survive_a_json_parser() {
        let value = "quote \" backslash \\ newline \n nul \0 and ünïcode 🦀";
        let mut object = Object::new();
        object.text("text", value);
        object.number("number", u64::MAX);
        object.null("nothing");
        let parsed: serde_json::Value = serde_json::from_str(&object.finish()).unwrap();
        assert_eq!(parsed["text"], value);
        assert_eq!(parsed["number"], u64::MAX);
        assert!(parsed["nothing"].is_null());
    }
}
