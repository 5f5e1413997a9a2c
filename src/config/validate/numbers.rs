//! Ranges.

use std::{num::NonZeroU64, time::Duration};

use super::Findings;
use crate::config::{
    path::Path,
    value::{Number, Whole},
};

/// A count that may be 0.
pub(super) fn count(found: &mut Findings, path: Path<'_>, value: Option<Whole>) -> Option<u64> {
    in_range(found, path, value?, 0)
}

/// A count that may not be 0.
pub(super) fn positive(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Whole>,
) -> Option<NonZeroU64> {
    in_range(found, path, value?, 1).and_then(NonZeroU64::new)
}

/// A time, in milliseconds, that may not be 0.
pub(super) fn milliseconds(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Whole>,
) -> Option<Duration> {
    let value = positive(found, path, value)?;
    Some(Duration::from_millis(value.get()))
}

/// A size, in bytes, that may be 0.
pub(super) fn bytes(found: &mut Findings, path: Path<'_>, value: Option<Whole>) -> Option<usize> {
    let value = count(found, path, value)?;
    Some(usize::try_from(value).unwrap_or(usize::MAX))
}

/// A count of things held in memory that may not be 0.
pub(super) fn positive_size(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Whole>,
) -> Option<usize> {
    let value = positive(found, path, value)?;
    Some(usize::try_from(value.get()).unwrap_or(usize::MAX))
}

fn in_range(found: &mut Findings, path: Path<'_>, Whole(value): Whole, least: u64) -> Option<u64> {
    let value_in_range = u64::try_from(value).ok().filter(|&value| value >= least);
    if value_in_range.is_none() {
        let what = if value > 0 {
            format!("is more than {}", u64::MAX)
        } else {
            format!("is {value}")
        };
        found.report(
            path,
            format!("{what}; it should be a whole number of {least} or more"),
        );
    }
    value_in_range
}

/// A number for which `holds` is true; `should` says which those are.
pub(super) fn number(
    found: &mut Findings,
    path: Path<'_>,
    value: Option<Number>,
    holds: impl Fn(f64) -> bool,
    should: &str,
) -> Option<f64> {
    let Number(value) = value?;
    if !(value.is_finite() && holds(value)) {
        found.report(path, format!("is {value}; it should be {should}"));
        return None;
    }
    Some(value)
}

/// An amount of memory.
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
