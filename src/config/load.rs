//! The ways a policy comes in: text, a file, another format's deserializer.

use std::{fs::File, io::Read, path::Path, str::FromStr};

use serde::{Deserialize, Deserializer, de};

use super::{
    PolicyConfig,
    error::{ConfigError, ConfigMistake},
    keys,
    parse::{self, Locator, MAX_BYTES},
    schema::RawPolicy,
    validate,
};

impl PolicyConfig {
    /// The longest YAML text that is read, in bytes.
    ///
    /// [`from_path`](Self::from_path) reads no more than this of a file.
    pub const MAX_BYTES: usize = MAX_BYTES;

    /// Reads the YAML file at `path`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not UTF-8 or is longer than [`MAX_BYTES`](Self::MAX_BYTES),
    /// or if the policy has mistakes. If there is nothing in it, too, as while somebody writes it:
    /// that is no policy to put in force. The error names the file.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let bytes = read(path).map_err(|error| ConfigError::unreadable(path, error))?;
        let parsed = match std::str::from_utf8(&bytes) {
            Ok(text) => policy(text, || {
                let why = "the file is empty; a policy that limits nothing is written {}";
                Err(parse::refused(&bytes, 0, why))
            }),
            // The limit may have cut a character in two; the length is the mistake then.
            Err(_) if bytes.len() > MAX_BYTES => Err(ConfigError::new(vec![parse::too_long()])),
            Err(error) => {
                let mistake =
                    parse::refused(&bytes, error.valid_up_to(), "is not UTF-8 from here on");
                Err(ConfigError::new(vec![mistake]))
            }
        };
        parsed.map_err(|error| error.in_file(path))
    }
}

/// The policy of a text, of which `empty` is what there is without one.
fn policy(
    text: &str,
    empty: impl FnOnce() -> Result<RawPolicy, ConfigMistake>,
) -> Result<PolicyConfig, ConfigError> {
    // The parser would count the byte order mark as the first column of its line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read =
        parse::parse(text).and_then(|(raw, unknown)| Ok((raw.map_or_else(empty, Ok)?, unknown)));
    let (raw, unknown) = read.map_err(|mistake| ConfigError::new(vec![mistake]))?;
    validate::policy(raw, unknown, &|name| std::env::var(name)).map_err(|found| {
        let mut locator = Locator::new(text);
        ConfigError::new(found.into_mistakes(|path| locator.locate(path)))
    })
}

/// The file's bytes, or one more than the limit: endless files exist.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parses YAML.
impl FromStr for PolicyConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        policy(text, || Ok(RawPolicy::default()))
    }
}

/// Validates as parsing does. The error's text holds all mistakes, without their lines.
impl<'de> Deserialize<'de> for PolicyConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (raw, unknown) = keys::read(deserializer)?;
        validate::policy(raw, unknown, &|name| std::env::var(name))
            .map_err(|found| de::Error::custom(ConfigError::new(found.into_mistakes(|_| None))))
    }
}

/// An empty policy: one class `default`, no dominions, so that every request starts at once.
impl Default for PolicyConfig {
    fn default() -> Self {
        validate::empty()
    }
}
