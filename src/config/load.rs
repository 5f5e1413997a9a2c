//! The ways to load a policy: from text, a file, or another format's deserializer.

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
    /// The maximum length of a YAML text, in bytes.
    ///
    /// [`from_path`](Self::from_path) reads no more than this of a file.
    pub const MAX_BYTES: usize = MAX_BYTES;

    /// Reads the YAML file at `path`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not UTF-8 or is longer than [`MAX_BYTES`](Self::MAX_BYTES), or if the
    /// policy has mistakes. An empty file is an error too: it may be one that is still being written, and
    /// must not replace a policy by accident. The error names the file.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let bytes = read(path).map_err(|error| ConfigError::unreadable(path, error))?;
        let parsed = match std::str::from_utf8(&bytes) {
            Ok(text) => policy(text, || {
                let why = "the file is empty; write {} for a policy that limits nothing";
                Err(parse::refused(&bytes, 0, why))
            }),
            // The limit may have cut a character in two. The mistake is then the length.
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

/// Loads a policy from text; `empty` provides the one of an empty text.
fn policy(
    text: &str,
    empty: impl FnOnce() -> Result<RawPolicy, ConfigMistake>,
) -> Result<PolicyConfig, ConfigError> {
    // The parser would count a byte order mark as a column.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read =
        parse::parse(text).and_then(|(raw, unknown)| Ok((raw.map_or_else(empty, Ok)?, unknown)));
    let (raw, unknown) = read.map_err(|mistake| ConfigError::new(vec![mistake]))?;
    validate::policy(raw, unknown, &|name| std::env::var(name)).map_err(|found| {
        let mut locator = Locator::new(text);
        ConfigError::new(found.into_mistakes(|path| locator.locate(path)))
    })
}

/// Reads the file, but at most one byte more than the limit: some files never end.
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

/// Validates like parsing does. The text of the error holds all mistakes, without line numbers.
impl<'de> Deserialize<'de> for PolicyConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (raw, unknown) = keys::read(deserializer)?;
        validate::policy(raw, unknown, &|name| std::env::var(name))
            .map_err(|found| de::Error::custom(ConfigError::new(found.into_mistakes(|_| None))))
    }
}

/// An empty policy: one class `default` and no dominions, so every request starts at once.
impl Default for PolicyConfig {
    fn default() -> Self {
        validate::empty()
    }
}
