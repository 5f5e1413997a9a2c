//! A profile: the matrix of families and buckets, and the explicit classes.

use std::{collections::HashMap, num::NonZeroU64, sync::Arc};

use super::{Findings, buckets::Buckets, classes, matrix::Matrix, unique::Unique};
use crate::config::{
    PolicyClass, names,
    path::Path,
    policy::{Family, Profile},
    schema::RawProfile,
};

/// Whether none of a profile's keys is given.
pub(super) fn is_absent(raw: &RawProfile) -> bool {
    raw.default_policy_family.is_none()
        && raw.uncached_isl_buckets.is_none()
        && raw.policy_classes.is_none()
}

/// The profile of a policy that has none: one class for everything.
pub(super) fn synthetic(classes: &mut Vec<PolicyClass>) -> Profile {
    let only: Family = Arc::new([classes.len()]);
    classes.push(PolicyClass {
        name: "default".into(),
        profile: None,
        quantum: NonZeroU64::MIN,
        order: Default::default(),
        busy: Default::default(),
        limits: Default::default(),
        max_queue_wait: None,
        hold_until: Default::default(),
        max_hold: None,
        prefill_until: Default::default(),
        output_token_weight: 0.0,
    });
    Profile {
        families: HashMap::new(),
        default_family: only,
        buckets: vec![0],
        bucket_names: Vec::new(),
        explicit: HashMap::new(),
    }
}

/// The profile at `path`; its classes are added to `classes`.
pub(super) fn resolve(
    found: &mut Findings,
    path: Path<'_>,
    raw: RawProfile,
    model: Option<&Arc<str>>,
    classes: &mut Vec<PolicyClass>,
) -> Profile {
    let default_path = path.key("default_policy_family");
    if raw.default_policy_family.is_none() {
        let message = "is missing; a policy needs a family for requests that name none";
        found.report(default_path, message);
    }
    let buckets_path = path.key("uncached_isl_buckets");
    let buckets = Buckets::resolve(found, buckets_path, raw.uncached_isl_buckets);
    let list = path.key("policy_classes");
    let raw_classes = found.require_some(
        list,
        raw.policy_classes,
        "a policy needs at least one class",
    );

    let first = classes.len();
    let mut unique = Unique::at_key(list, "name");
    let mut matrix = Matrix::new(list, &buckets);
    let mut explicit = Vec::new();
    for (index, mut raw) in raw_classes.into_iter().enumerate() {
        let name = unique
            .require(found, index, raw.name.take())
            .unwrap_or_default();
        if raw.policy_family.is_none() && raw.cache_bucket.is_none() {
            explicit.push((name.clone(), index));
        } else {
            matrix.place(found, index, &raw);
        }
        classes.push(classes::resolve(
            found,
            list.index(index),
            &name,
            model,
            raw,
        ));
    }

    for (name, index) in &explicit {
        if let Some(family) = matrix.first_of(name) {
            let message = format!(
                "the explicit class {} would hide the family of the same name; rename one of them, see",
                names::quote(name)
            );
            let family = list.index(family);
            let class = list.index(*index);
            found.clash(class.key("name"), family.key("policy_family"), message);
        }
    }
    if first == classes.len() {
        // Without classes no family could exist, and the missing classes are reported already.
    } else if let Some(name) = &raw.default_policy_family {
        matrix.check_default(found, default_path, name);
    }
    matrix.check_complete(found);

    let families = matrix.into_families(first);
    let default_family = raw
        .default_policy_family
        .and_then(|name| families.get(&name).cloned());
    Profile {
        default_family: default_family.unwrap_or_else(|| Arc::new([])),
        families,
        buckets: buckets.floors,
        bucket_names: buckets.names,
        explicit: explicit
            .into_iter()
            .map(|(name, index)| (name, first + index))
            .collect(),
    }
}
