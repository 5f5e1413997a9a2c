//! What is wrong with a policy: every mistake, with its location.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
};

/// The error of a policy that cannot be used: the file is unreadable, or the policy has
/// [mistakes](Self::mistakes).
///
/// Neither an unknown key nor a wrong value ends the search: if the policy can be parsed at all, this
/// holds every mistake in it. They are displayed one per line, each with its path, what is wrong, what to
/// write instead, and its location in the file if known:
///
/// ```
/// # use tower_policy_queue::PolicyConfig;
/// let error = "
/// dominions:
///   - {id: gpu 0, max_concurrency: 0}
/// ".parse::<PolicyConfig>().unwrap_err();
///
/// assert_eq!(error.mistakes().len(), 2);
/// let mistake = &error.mistakes()[1];
/// assert_eq!(mistake.path(), "dominions[0].max_concurrency");
/// assert_eq!(mistake.line(), Some(3));
/// ```
///
/// `Debug` prints the same text as `Display`, since `unwrap` and a `main` that returns the error use it.
///
/// The error never contains the value of an `api_key` or of an environment variable.
pub struct ConfigError {
    file: Option<PathBuf>,
    cause: Cause,
}

enum Cause {
    Unreadable(io::Error),
    Mistakes(Vec<ConfigMistake>),
}

/// One mistake in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMistake {
    path: String,
    message: String,
    place: Option<Place>,
}

/// A position in the text; both numbers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

// ===== impl ConfigError =====

impl ConfigError {
    pub(super) fn new(mistakes: Vec<ConfigMistake>) -> Self {
        Self {
            file: None,
            cause: Cause::Mistakes(mistakes),
        }
    }

    pub(super) fn unreadable(file: &Path, error: io::Error) -> Self {
        Self {
            file: Some(file.to_owned()),
            cause: Cause::Unreadable(error),
        }
    }

    pub(super) fn in_file(self, file: &Path) -> Self {
        Self {
            file: Some(file.to_owned()),
            ..self
        }
    }

    /// All mistakes. Empty only if the file could not be read.
    pub fn mistakes(&self) -> &[ConfigMistake] {
        match &self.cause {
            Cause::Unreadable(_) => &[],
            Cause::Mistakes(mistakes) => mistakes,
        }
    }

    /// The file, if the policy was read [from a path](crate::PolicyConfig::from_path).
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = |f: &mut fmt::Formatter<'_>| match &self.file {
            Some(file) => write!(f, "{}: ", file.display()),
            None => Ok(()),
        };
        match &self.cause {
            Cause::Unreadable(error) => {
                file(f)?;
                write!(f, "cannot be read: {error}")
            }
            Cause::Mistakes(mistakes) => {
                for (index, mistake) in mistakes.iter().enumerate() {
                    if index > 0 {
                        f.write_str("\n")?;
                    }
                    file(f)?;
                    mistake.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Unreadable(error) => Some(error),
            Cause::Mistakes(_) => None,
        }
    }
}

// ===== impl ConfigMistake =====

impl ConfigMistake {
    pub(super) fn new(
        path: impl ToString,
        message: impl Into<String>,
        place: Option<Place>,
    ) -> Self {
        Self {
            path: path.to_string(),
            message: message.into(),
            place,
        }
    }

    /// The path in the policy, such as `policy_classes[1].quantum`. Empty if the mistake concerns the policy
    /// as a whole.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The line in the file, counted from 1, if known.
    ///
    /// It is unknown for a policy that came through another format's deserializer, and for a mistake that
    /// concerns the text as a whole.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|place| place.line)
    }

    /// The column in that [line](Self::line), counted from 1.
    pub fn column(&self) -> Option<usize> {
        self.place.map(|place| place.column)
    }

    /// What is wrong, and what to write instead. If two places clash, it names the other one.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match self.place {
            Some(Place { line, column }) => write!(f, " (line {line}, column {column})"),
            None => Ok(()),
        }
    }
}
