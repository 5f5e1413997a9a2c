//! Numbers and their ranges, and booleans.

use std::{num::NonZeroU64, time::Duration};

use super::Findings;
use crate::config::{
    env,
    path::Path,
    value::{Flag, Number, Scalar, Whole},
};

/// A count, which may be 0.
pub(super) fn count(found: &mut Findings, path: Path<'_>, value: Option<Whole>) -> Option<u64> {
    in_range(found, path, value?, 0)
}

/// A count, which must not be 0.
pub(super) fn positive(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Whole>,
) -> Option<NonZeroU64> {
    in_range(found, path, value?, 1).and_then(NonZeroU64::new)
}

/// A duration in milliseconds, which must not be 0.
pub(super) fn milliseconds(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Whole>,
) -> Option<Duration> {
    let value = positive(found, path, value)?;
    Some(Duration::from_millis(value.get()))
}

/// A size in bytes, which may be 0.
pub(super) fn bytes(found: &mut Findings, path: Path<'_>, value: Option<Whole>) -> Option<usize> {
    let value = count(found, path, value)?;
    Some(usize::try_from(value).unwrap_or(usize::MAX))
}

/// A count of things in memory, which must not be 0.
pub(super) fn positive_size(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Whole>,
) -> Option<usize> {
    let value = positive(found, path, value)?;
    Some(usize::try_from(value.get()).unwrap_or(usize::MAX))
}

fn in_range(found: &mut Findings, path: Path<'_>, Whole(value): Whole, least: u64) -> Option<u64> {
    let what = match &value {
        &Scalar::Whole(value) => {
            let in_range = u64::try_from(value).ok().filter(|&value| value >= least);
            if in_range.is_some() {
                return in_range;
            }
            if value > 0 {
                format!("more than {}", u64::MAX)
            } else {
                value.to_string()
            }
        }
        other => other.to_string(),
    };
    let message = format!("is {what}; must be a whole number of at least {least}");
    report(found, path, message, &value);
    None
}

/// A finite number for which `holds` is true; `should` describes the valid ones.
pub(super) fn number(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Number>,
    holds: impl Fn(f64) -> bool,
    should: &str,
) -> Option<f64> {
    let Number(value) = value?;
    let number = value.as_number();
    let held = number.filter(|&value| value.is_finite() && holds(value));
    if held.is_none() {
        // Unlike for whole numbers, a decimal point makes no difference here.
        let shown = number.map_or_else(|| value.to_string(), |number| number.to_string());
        report(found, path, format!("is {shown}; must be {should}"), &value);
    }
    held
}

/// Reports a wrong number, with a hint on how to write it if the value is text.
fn report(found: &mut Findings, path: Path<'_>, mut message: String, value: &Scalar) {
    if let Scalar::Text(text) = value {
        let in_general = ", without quotes, separators or a unit";
        message.push_str(env::hint_elsewhere(text).unwrap_or(in_general));
    }
    found.report(path, message);
}

/// A boolean.
pub(super) fn flag(found: &mut Findings, path: Path<'_>, value: Option<Flag>) -> Option<bool> {
    let Flag(value) = value?;
    if let Scalar::Flag(value) = value {
        return Some(value);
    }
    found.report(path, format!("is {value}; must be true or false"));
    None
}

/// An amount of memory, in gigabytes.
pub(super) fn gigabytes(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Number>,
) -> Option<f64> {
    number(
        found,
        path,
        value,
        |value| value > 0.0,
        "a finite number above 0, in gigabytes",
    )
}
