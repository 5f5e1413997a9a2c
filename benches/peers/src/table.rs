//! The one table that everything is printed in.

use std::fmt;

/// A measured figure.
#[derive(Clone, Copy)]
pub enum Figure {
    Nanos(f64),
    Bytes(f64),
    Allocations(f64),
    PerSecond(f64),
}

/// What a row promises.
#[derive(Clone, Copy)]
pub enum Promise {
    /// Ours over the other's.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Ours alone.
    AtMost(Figure),
}

/// One line of the table.
pub struct Row {
    what: String,
    ours: Figure,
    other: Option<(String, Figure)>,
    promises: Vec<Promise>,
}

impl Row {
    pub fn new(what: impl Into<String>, ours: Figure) -> Self {
        Self {
            what: what.into(),
            ours,
            other: None,
            promises: Vec::new(),
        }
    }

    pub fn against(mut self, name: impl Into<String>, other: Figure) -> Self {
        self.other = Some((name.into(), other));
        self
    }

    pub fn holds(mut self, promise: Promise) -> Self {
        self.promises.push(promise);
        self
    }

    fn ratio(&self) -> Option<f64> {
        let (_, other) = self.other.as_ref()?;
        Some(self.ours.value() / other.value())
    }

    fn is_kept(&self, promise: Promise) -> bool {
        // A ratio that is not a number keeps no promise.
        let ratio = self.ratio().unwrap_or(f64::NAN);
        match promise {
            Promise::RatioAtMost(limit) => ratio <= limit,
            Promise::RatioAtLeast(limit) => ratio >= limit,
            Promise::AtMost(limit) => self.ours.value() <= limit.value(),
        }
    }

    /// True if it keeps what it promises.
    pub fn is_ok(&self) -> bool {
        self.promises.iter().all(|&promise| self.is_kept(promise))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (against, other) = match &self.other {
            Some((name, figure)) => (name.as_str(), figure.to_string()),
            None => ("-", String::new()),
        };
        let ratio = self.ratio().map(|ratio| format!("{ratio:.2}x"));
        let promises: Vec<_> = self.promises.iter().map(Promise::to_string).collect();
        let verdict = match (self.promises.is_empty(), self.is_ok()) {
            (true, _) => "",
            (_, true) => "ok",
            (_, false) => "FAIL",
        };
        line(
            f,
            [
                &self.what,
                &self.ours.to_string(),
                against,
                &other,
                &ratio.unwrap_or_default(),
                &promises.join(", "),
                verdict,
            ],
        )
    }
}

/// The titles of the columns.
pub struct Titles;

impl fmt::Display for Titles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(
            f,
            [
                "what",
                "ours",
                "against",
                "its",
                "ratio",
                "must hold",
                "holds",
            ],
        )?;
        writeln!(f)?;
        line(f, ["---"; 7])
    }
}

fn line(f: &mut fmt::Formatter<'_>, cells: [&str; 7]) -> fmt::Result {
    let [what, ours, against, other, ratio, promise, verdict] = cells;
    write!(
        f,
        "| {what:54} | {ours:>12} | {against:24} | {other:>12} | {ratio:>7} | {promise:22} | {verdict:5} |"
    )
}

impl Figure {
    fn value(self) -> f64 {
        let (Self::Nanos(value)
        | Self::Bytes(value)
        | Self::Allocations(value)
        | Self::PerSecond(value)) = self;
        value
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Self::Nanos(nanos) if nanos < 10_000.0 => format!("{nanos:.0} ns"),
            Self::Nanos(nanos) if nanos < 10_000_000.0 => format!("{:.1} us", nanos / 1e3),
            Self::Nanos(nanos) => format!("{:.1} ms", nanos / 1e6),
            Self::Bytes(bytes) => format!("{bytes:.0} B"),
            Self::Allocations(count) => format!("{count:.2} allocs"),
            Self::PerSecond(count) => format!("{count:.0} /s"),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RatioAtMost(limit) => write!(f, "<= {limit}x"),
            Self::RatioAtLeast(limit) => write!(f, ">= {limit}x"),
            Self::AtMost(limit) => write!(f, "<= {limit}"),
        }
    }
}
