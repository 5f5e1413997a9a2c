//! A single class: its order, numbers and limits.

use std::{num::NonZeroU64, sync::Arc};

use super::{Findings, numbers};
use crate::config::{
    BusyThreshold, ClassLimits, HoldUntil, PolicyClass, PrefillUntil, QueuePolicy, names,
    path::Path, schema::RawClass,
};

/// The class `raw`, with defaults for whatever is wrong. The profile checks its name and its cell.
pub(super) fn resolve(
    found: &mut Findings,
    path: Path<'_>,
    name: &str,
    profile: Option<&Arc<str>>,
    mut raw: RawClass,
) -> PolicyClass {
    if raw.quantum.is_none() {
        let message =
            "is missing; every class needs a quantum, its share in uncached tokens per round";
        found.report(path.key("quantum"), message);
    }
    PolicyClass {
        name: name.into(),
        profile: profile.cloned(),
        quantum: numbers::positive(found, path.key("quantum"), raw.quantum.take())
            .unwrap_or(NonZeroU64::MIN),
        order: one_of(
            found,
            path.key("queue_policy"),
            raw.queue_policy.as_deref(),
            &QueuePolicy::ALL.map(|order| (order.as_str(), order)),
        ),
        busy: busy(found, path, &mut raw),
        limits: limits(found, path, &mut raw),
        max_queue_wait: numbers::milliseconds(
            found,
            path.key("max_queue_wait_ms"),
            raw.max_queue_wait_ms,
        ),
        hold_until: one_of(
            found,
            path.key("hold_until"),
            raw.hold_until.as_deref(),
            &HoldUntil::ALL.map(|until| (until.as_str(), until)),
        ),
        max_hold: numbers::milliseconds(found, path.key("max_hold_ms"), raw.max_hold_ms),
        prefill_until: one_of(
            found,
            path.key("prefill_until"),
            raw.prefill_until.as_deref(),
            &PrefillUntil::ALL.map(|until| (until.as_str(), until)),
        ),
        output_token_weight: numbers::number(
            found,
            path.key("output_token_weight"),
            raw.output_token_weight,
            |weight| weight >= 0.0,
            "a finite number of at least 0, in input tokens per output token",
        )
        .unwrap_or(0.0),
    }
}

/// The value of a keyword, or the default.
pub(super) fn one_of<T: Copy + Default>(
    found: &mut Findings,
    path: Path<'_>,
    word: Option<&str>,
    words: &[(&str, T)],
) -> T {
    let Some(word) = word else {
        return T::default();
    };
    let known = words.iter().find(|(known, _)| *known == word);
    known.map(|&(_, value)| value).unwrap_or_else(|| {
        let words: Vec<_> = words
            .iter()
            .map(|(word, _)| format!("\"{word}\""))
            .collect();
        let message = format!("is {}; must be {}", names::quote(word), words.join(" or "));
        found.report(path, message);
        T::default()
    })
}

fn busy(found: &mut Findings, path: Path<'_>, raw: &mut RawClass) -> BusyThreshold {
    let tokens = raw.prefill_busy_threshold.take();
    let fraction = raw.prefill_busy_threshold_frac.take();
    if raw.busy_worker_ratio.is_some() && tokens.is_none() && fraction.is_none() {
        found.report(
            path.key("busy_worker_ratio"),
            "has no effect: no worker is ever busy without a prefill_busy_threshold or \
             prefill_busy_threshold_frac; set one of these",
        );
    }
    BusyThreshold {
        tokens: numbers::count(found, path.key("prefill_busy_threshold"), tokens),
        fraction: numbers::number(
            found,
            path.key("prefill_busy_threshold_frac"),
            fraction,
            |fraction| fraction >= 0.0,
            "a finite number of at least 0, as a multiple of max_num_batched_tokens",
        ),
        ratio: numbers::number(
            found,
            path.key("busy_worker_ratio"),
            raw.busy_worker_ratio.take(),
            |ratio| ratio > 0.0 && ratio <= 1.0,
            "above 0 and at most 1, as a share of the workers",
        ),
    }
}

fn limits(found: &mut Findings, path: Path<'_>, raw: &mut RawClass) -> ClassLimits {
    let mut limit = |key, value| numbers::count(found, path.key(key), value);
    ClassLimits {
        requests: limit(
            "request_queue_limit_per_worker",
            raw.request_queue_limit_per_worker.take(),
        ),
        raw_isl_tokens: limit(
            "raw_isl_token_queue_limit_per_worker",
            raw.raw_isl_token_queue_limit_per_worker.take(),
        ),
        cached_tokens: limit(
            "cached_token_queue_limit_per_worker",
            raw.cached_token_queue_limit_per_worker.take(),
        ),
    }
}
