//! The buckets of a profile, whose floors (in uncached tokens) start at 0 and increase.

use std::collections::HashMap;

use super::{Findings, numbers, unique::Unique};
use crate::config::{names, path::Path, schema::RawBucket};

/// The buckets, by index and by name.
pub(super) struct Buckets {
    pub(super) floors: Vec<u64>,
    /// The name of each bucket. A repeated one is kept, but `by_name` has only the first.
    pub(super) names: Vec<String>,
    pub(super) by_name: HashMap<String, usize>,
}

impl Buckets {
    pub(super) fn resolve(
        found: &mut Findings,
        list: Path<'_>,
        raw: Option<Vec<RawBucket>>,
    ) -> Self {
        let raw = found.require_some(
            list,
            raw,
            "a policy needs at least one bucket, the first of which starts at 0, \
             such as [{min_tokens: 0, bucket: all}]",
        );
        let mut floors = Vec::with_capacity(raw.len());
        let mut names = Vec::with_capacity(raw.len());
        let mut unique = Unique::at_key(list, "bucket");
        for (index, raw) in raw.into_iter().enumerate() {
            let previous = floors.last().copied();
            floors.push(floor(found, list.index(index), raw.min_tokens, previous));
            names.push(unique.require(found, index, raw.bucket).unwrap_or_default());
        }
        Self {
            floors,
            names,
            by_name: unique.by_name(),
        }
    }

    /// The defined names, for a message about one that is not defined.
    pub(super) fn listed(&self) -> String {
        names::list(self.names.len(), self.names.iter().map(String::as_str))
    }
}

/// The floor of the bucket at `path`, after a bucket with the floor `previous`.
fn floor(
    found: &mut Findings,
    path: Path<'_>,
    floor: Option<crate::config::value::Whole>,
    previous: Option<u64>,
) -> u64 {
    let path = path.key("min_tokens");
    if floor.is_none() {
        found.report(
            path,
            "is missing; a bucket needs the number of uncached tokens at which it starts",
        );
    }
    let Some(floor) = numbers::count(found, path, floor) else {
        return previous.unwrap_or_default();
    };
    match previous {
        None if floor > 0 => {
            found.report(
                path,
                format!("is {floor}; the first bucket must start at 0"),
            );
        }
        Some(previous) if floor <= previous => {
            let message =
                format!("is {floor}; must be greater than the {previous} of the bucket before it");
            found.report(path, message);
        }
        _ => {}
    }
    floor
}
