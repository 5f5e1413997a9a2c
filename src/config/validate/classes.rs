//! One class by itself: its order, numbers and limits.

use std::{num::NonZeroU64, sync::Arc};

use super::{Findings, numbers};
use crate::config::{
    BusyThreshold, ClassLimits, PolicyClass, QueuePolicy, names, path::Path, schema::RawClass,
};

/// The class `raw`, whatever of it is right. Its name and its cell are the profile's matter.
pub(super) fn resolve(
    found: &mut Findings,
    path: Path<'_>,
    name: &str,
    profile: Option<&Arc<str>>,
    raw: RawClass,
) -> PolicyClass {
    if raw.quantum.is_none() {
        let message = "is missing; a class needs its share, in uncached tokens a round";
        found.report(path.key("quantum"), message);
    }
    PolicyClass {
        name: name.into(),
        profile: profile.cloned(),
        quantum: numbers::positive(found, path.key("quantum"), raw.quantum)
            .unwrap_or(NonZeroU64::MIN),
        order: order(found, path.key("queue_policy"), raw.queue_policy.as_deref()),
        busy: busy(found, path, &raw),
        limits: limits(found, path, &raw),
    }
}

fn order(found: &mut Findings, path: Path<'_>, order: Option<&str>) -> QueuePolicy {
    match order {
        None | Some("fcfs") => QueuePolicy::Fcfs,
        Some("wspt") => QueuePolicy::Wspt,
        Some(other) => {
            let other = names::quote(other);
            found.report(
                path,
                format!("is {other}; it should be \"fcfs\" or \"wspt\""),
            );
            QueuePolicy::default()
        }
    }
}

fn busy(found: &mut Findings, path: Path<'_>, raw: &RawClass) -> BusyThreshold {
    let (tokens, fraction) = (raw.prefill_busy_threshold, raw.prefill_busy_threshold_frac);
    if raw.busy_worker_ratio.is_some() && tokens.is_none() && fraction.is_none() {
        found.report(
            path.key("busy_worker_ratio"),
            "has no effect: no worker is ever busy without a prefill_busy_threshold or \
             prefill_busy_threshold_frac",
        );
    }
    BusyThreshold {
        tokens: numbers::count(found, path.key("prefill_busy_threshold"), tokens),
        fraction: numbers::number(
            found,
            path.key("prefill_busy_threshold_frac"),
            fraction,
            |fraction| fraction >= 0.0,
            "a finite number of 0 or more, a multiple of max_num_batched_tokens",
        ),
        ratio: numbers::number(
            found,
            path.key("busy_worker_ratio"),
            raw.busy_worker_ratio,
            |ratio| ratio > 0.0 && ratio <= 1.0,
            "above 0 and at most 1, a share of the workers",
        ),
    }
}

fn limits(found: &mut Findings, path: Path<'_>, raw: &RawClass) -> ClassLimits {
    let mut limit = |key, value| numbers::count(found, path.key(key), value);
    ClassLimits {
        requests: limit(
            "request_queue_limit_per_worker",
            raw.request_queue_limit_per_worker,
        ),
        raw_isl_tokens: limit(
            "raw_isl_token_queue_limit_per_worker",
            raw.raw_isl_token_queue_limit_per_worker,
        ),
        cached_tokens: limit(
            "cached_token_queue_limit_per_worker",
            raw.cached_token_queue_limit_per_worker,
        ),
    }
}
