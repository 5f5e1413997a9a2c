//! From text to the [raw policy](RawPolicy): the one place that knows the YAML parser.
//!
//! The parser reads the whole document before anything of it can be refused, and some documents
//! cost it time quadratic in their size or expand to more memory than there is. So three checks
//! come before the reading, each linear: the [size](MAX_BYTES), the [depth of
//! brackets](super::nesting), and a [walk](super::strict) over the values.

use std::{cell::Cell, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_yaml::{Deserializer as Yaml, Error as YamlError};

use super::{
    document,
    error::{ConfigMistake, Place},
    nesting,
    path::{Step, Steps},
    schema::{ALIASES, RawPolicy},
    strict::{MAX_DEPTH, Walk},
};

/// The longest text that is read. The largest policies in use take a few kilobytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// The most that a document may come to with its aliases expanded, in values and bytes of text.
///
/// Without aliases no document of [`MAX_BYTES`] reaches it.
const MAX_EXPANDED: usize = 4 * MAX_BYTES;

/// How many bytes may be parsed again to find the places of mistakes.
///
/// Each mistake costs one more parse, so this keeps the whole linear: all mistakes of any file a
/// person would write are located, and the first few of a file of the largest size.
const MAX_LOCATING: usize = 4 * MAX_BYTES;

/// Reads a policy; an empty document is an empty one.
pub(super) fn parse(text: &str) -> Result<RawPolicy, ConfigMistake> {
    let refuse = |place, message: String| Err(ConfigMistake::new("", message, place));
    if text.len() > MAX_BYTES {
        let len = text.len();
        return refuse(
            None,
            format!("is {len} bytes long; a policy is at most {MAX_BYTES}"),
        );
    }
    if let Some((at, control)) = text.char_indices().find(|(_, char)| is_refused(*char)) {
        let message = format!(
            "the character U+{:04X} cannot stand in YAML",
            u32::from(control)
        );
        return refuse(Some(place_in(text.as_bytes(), at)), message);
    }
    if let Some((at, why)) = document::refused(text) {
        return refuse(Some(place_in(text.as_bytes(), at)), why.to_owned());
    }
    if let Some(deep) = nesting::too_deep(text, MAX_DEPTH) {
        let message = format!("brackets nest more than {MAX_DEPTH} deep");
        return refuse(Some(place_in(text.as_bytes(), deep)), message);
    }

    let walk = Walk::new(MAX_EXPANDED);
    if let Err(error) = walk.over(Yaml::from_str(text)) {
        let place = place(&error);
        return Err(match walk.into_refusal() {
            Some((path, message)) => ConfigMistake::new(path, message, place),
            None => mistake(&error),
        });
    }
    match Option::<RawPolicy>::deserialize(Yaml::from_str(text)) {
        Ok(policy) => Ok(policy.unwrap_or_default()),
        Err(error) => Err(mistake(&error)),
    }
}

/// Whether YAML knows no such character. The parser would refuse it too, but not tell where.
fn is_refused(char: char) -> bool {
    let allowed = matches!(char, '\t' | '\n' | '\r' | '\u{85}');
    char.is_control() && !allowed || matches!(char, '\u{FFFE}' | '\u{FFFF}')
}

/// Finds the places of values by their paths.
pub(super) struct Locator<'a> {
    text: &'a str,
    left: usize,
}

impl<'a> Locator<'a> {
    /// A locator in a text that [`parse`] has read.
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            left: MAX_LOCATING,
        }
    }

    /// The place of the key or list element that `path` leads to, or of the nearest one above
    /// it if it is not there itself; none once the budget is spent.
    ///
    /// The parser tells places only in errors. So this walks along the path and raises one.
    pub(super) fn locate(&mut self, path: &Steps) -> Option<Place> {
        self.left = self.left.checked_sub(self.text.len())?;
        let reached = Cell::new(false);
        let probe = Probe {
            steps: &path.0,
            reached: &reached,
        };
        let error = probe.deserialize(Yaml::from_str(self.text)).err()?;
        place(&error).filter(|_| reached.get())
    }
}

/// Walks along `steps` and raises an error at their end.
#[derive(Clone, Copy)]
struct Probe<'a> {
    steps: &'a [Step],
    reached: &'a Cell<bool>,
}

/// A key that a [`Probe`] compares with its next step.
struct ProbeKey<'a>(Probe<'a>);

// ===== impl Probe =====

impl Probe<'_> {
    fn raise<E: de::Error>(self) -> E {
        self.reached.set(true);
        E::custom("here")
    }
}

impl<'de> DeserializeSeed<'de> for Probe<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Probe<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Err(self.raise())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if let Some((Step::Index(index), steps)) = self.steps.split_first() {
            for _ in 0..*index {
                seq.next_element::<IgnoredAny>()?;
            }
            seq.next_element_seed(Probe { steps, ..self })?;
        }
        Err(self.raise())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if let Some((Step::Key(_) | Step::Entry(_), steps)) = self.steps.split_first() {
            while let Some(matches) = map.next_key_seed(ProbeKey(self))? {
                if matches {
                    map.next_value_seed(Probe { steps, ..self })?;
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Err(self.raise())
    }
}

// ===== impl ProbeKey =====

impl<'de> DeserializeSeed<'de> for ProbeKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ProbeKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<bool, E> {
        let matches = match self.0.steps.first() {
            Some(Step::Key(step)) => *step == key || ALIASES.contains(&(*step, key)),
            Some(Step::Entry(step)) => **step == *key,
            Some(Step::Index(_)) | None => false,
        };
        // A value may begin on a later line than its key, and it is the key one looks for.
        if matches && self.0.steps.len() == 1 {
            return Err(self.0.raise());
        }
        Ok(matches)
    }
}

// ===== the parser's errors =====

fn place(error: &YamlError) -> Option<Place> {
    let location = error.location()?;
    Some(Place {
        line: location.line(),
        column: location.column(),
    })
}

/// What the parser says, with its path and place taken out of the text.
fn mistake(error: &YamlError) -> ConfigMistake {
    let place = place(error);
    let mut message = error.to_string();
    if let Some(Place { line, column }) = place {
        let suffix = format!(" at line {line} column {column}");
        if message.ends_with(&suffix) {
            message.truncate(message.len() - suffix.len());
        }
    }
    let (path, message) = split(&message);
    ConfigMistake::new(path, message, place)
}

/// Splits `a[0].b: what is wrong` and writes the path as validation does.
///
/// A text without a path, or with one that cannot be told from the message, is left whole.
fn split(text: &str) -> (String, &str) {
    let (path, message) = match text.split_once(": ") {
        Some((path, message)) if !path.contains([' ', '`', '"']) => (path, message),
        _ => ("", text),
    };
    let mut path = model_quoted(path);
    if let Some(key) = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split('`').next())
    {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    }
    (path, message)
}

/// `models.a/b.policy_classes` with the model's name as a [`Step::Entry`] shows it.
fn model_quoted(path: &str) -> String {
    const FIELDS: [&str; 3] = [
        ".default_policy_family",
        ".uncached_isl_buckets",
        ".policy_classes",
    ];

    let Some(rest) = path.strip_prefix("models.") else {
        return path.to_owned();
    };
    let end = FIELDS
        .iter()
        .filter_map(|field| rest.rfind(field))
        .max()
        .unwrap_or(rest.len());
    let (model, field) = rest.split_at(end);
    let steps = Steps(vec![Step::Key("models"), Step::Entry(model.into())]);
    format!("{steps}{field}")
}

/// The place of a byte of `text`, whose first bytes up to there are UTF-8.
pub(super) fn place_in(text: &[u8], byte: usize) -> Place {
    let before = text.get(..byte).unwrap_or(text);
    let newline = before.iter().rposition(|&byte| byte == b'\n');
    let line = newline.map_or(before, |newline| &before[newline + 1..]);
    let starts_char = |byte: &&u8| **byte & 0xC0 != 0x80;
    Place {
        line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
        column: line.iter().filter(starts_char).count() + 1,
    }
}
