//! Takes the place of the parent module without the feature `tracing`: it does nothing, at no cost.

use std::time::Duration;

#[inline]
pub(crate) fn admitted(_: &str, _: Option<&str>, _: Option<&str>, _: Duration) {}

#[inline]
pub(crate) fn rejected(_: &str, _: Option<&str>, _: Option<&str>) {}

#[inline]
pub(crate) fn cancelled(_: &str, _: &str, _: Option<&str>) {}
