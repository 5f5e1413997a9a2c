//! A profile: the matrix of families and buckets, and the explicit classes beside it.
//!
//! Every family has exactly one class for every bucket, so that a class can be looked up by two
//! indexes and the lookup cannot fail. Families × buckets can be far more than a small file has
//! lines; nothing here is sized by that product before the classes are known to fill it.

use std::{collections::HashMap, num::NonZeroU64, sync::Arc};

use super::{Findings, classes, numbers};
use crate::config::{
    PolicyClass, names,
    path::Path,
    policy::{Family, Profile},
    schema::{RawBucket, RawClass, RawProfile},
};

/// Whether none of a profile's keys is given.
pub(super) fn is_absent(raw: &RawProfile) -> bool {
    raw.default_policy_family.is_none()
        && raw.uncached_isl_buckets.is_none()
        && raw.policy_classes.is_none()
}

/// The profile where none is configured: one class for everything.
pub(super) fn synthetic(classes: &mut Vec<PolicyClass>) -> Profile {
    let only: Family = Arc::new([classes.len()]);
    classes.push(PolicyClass {
        name: "default".into(),
        profile: None,
        quantum: NonZeroU64::MIN,
        order: Default::default(),
        busy: Default::default(),
        limits: Default::default(),
    });
    Profile {
        families: HashMap::new(),
        default_family: only,
        buckets: vec![0],
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
    let default = raw.default_policy_family;
    if default.is_none() {
        found.report(
            default_path,
            "is missing; a policy needs a family for requests without one",
        );
    }
    let buckets = Buckets::resolve(
        found,
        path.key("uncached_isl_buckets"),
        raw.uncached_isl_buckets,
    );

    let list = path.key("policy_classes");
    match &raw.policy_classes {
        None => found.report(list, "is missing; a policy needs at least one class"),
        Some(classes) if classes.is_empty() => {
            found.report(list, "is empty; a policy needs at least one class")
        }
        Some(_) => {}
    }
    let mut matrix = Matrix {
        list,
        buckets: &buckets,
        families: Vec::new(),
        by_name: HashMap::new(),
    };
    let mut first_of_name = HashMap::new();
    let mut explicit = HashMap::new();
    let first = classes.len();
    for (index, mut raw) in raw
        .policy_classes
        .unwrap_or_default()
        .into_iter()
        .enumerate()
    {
        let path = list.index(index);
        let name = found.require_name(path.key("name"), raw.name.take());
        if let Some(name) = &name {
            if let Some(&other) = first_of_name.get(name) {
                let message = format!("the name {} is already taken by", names::quote(name));
                found.clash(path.key("name"), list.index(other).key("name"), message);
            } else {
                first_of_name.insert(name.clone(), index);
            }
        }
        if raw.policy_family.is_none() && raw.cache_bucket.is_none() {
            if let Some(name) = &name {
                explicit.insert(name.clone(), first + index);
            }
        } else {
            matrix.place(found, index, &raw);
        }
        classes.push(classes::resolve(
            found,
            path,
            &name.unwrap_or_default(),
            model,
            raw,
        ));
    }

    for (name, &class) in &explicit {
        if let Some(&family) = matrix.by_name.get(name) {
            let family = list.index(matrix.families[family].first);
            let message = format!(
                "the explicit class {} would hide the family of that name, in",
                names::quote(name)
            );
            found.clash(
                list.index(class - first).key("name"),
                family.key("policy_family"),
                message,
            );
        }
    }
    let default_family = matrix.default_family(found, default_path, default.as_deref());
    matrix.check_complete(found);
    let families = matrix.into_families(first);
    let default_family = default_family
        .and_then(|name| families.get(name).cloned())
        .unwrap_or_else(|| Arc::new([]));
    Profile {
        default_family,
        families,
        buckets: buckets.floors,
        explicit,
    }
}

/// The buckets by name and by index.
struct Buckets {
    floors: Vec<u64>,
    names: Vec<String>,
    by_name: HashMap<String, usize>,
}

impl Buckets {
    fn resolve(found: &mut Findings, path: Path<'_>, raw: Option<Vec<RawBucket>>) -> Self {
        match &raw {
            None => found.report(path, "is missing; a policy needs a bucket that starts at 0"),
            Some(raw) if raw.is_empty() => {
                found.report(path, "is empty; a policy needs a bucket that starts at 0");
            }
            Some(_) => {}
        }
        let mut buckets = Self {
            floors: Vec::new(),
            names: Vec::new(),
            by_name: HashMap::new(),
        };
        for (index, raw) in raw.unwrap_or_default().into_iter().enumerate() {
            let floor_path = path.index(index);
            let floor_path = floor_path.key("min_tokens");
            if raw.min_tokens.is_none() {
                found.report(floor_path, "is missing");
            }
            let floor = numbers::count(found, floor_path, raw.min_tokens);
            let previous = buckets.floors.last().copied();
            match (floor, previous) {
                (Some(floor @ 1..), None) if index == 0 => {
                    let message = format!("is {floor}; the first bucket should start at 0");
                    found.report(floor_path, message);
                }
                (Some(floor), Some(previous)) if floor <= previous => {
                    let message = format!(
                        "is {floor}; it should be more than {previous}, that of the bucket before"
                    );
                    found.report(floor_path, message);
                }
                _ => {}
            }
            buckets.floors.push(floor.or(previous).unwrap_or_default());

            let name_path = path.index(index);
            let name = found
                .require_name(name_path.key("bucket"), raw.bucket)
                .unwrap_or_default();
            if let Some(&other) = buckets.by_name.get(&name) {
                if !name.is_empty() {
                    let message = format!("the name {} is already taken by", names::quote(&name));
                    found.clash(
                        name_path.key("bucket"),
                        path.index(other).key("bucket"),
                        message,
                    );
                }
            } else {
                buckets.by_name.insert(name.clone(), index);
            }
            buckets.names.push(name);
        }
        buckets
    }
}

/// Families × buckets, while it fills.
struct Matrix<'a> {
    list: Path<'a>,
    buckets: &'a Buckets,
    families: Vec<FamilyDraft>,
    by_name: HashMap<String, usize>,
}

struct FamilyDraft {
    name: String,
    /// The first class that names it.
    first: usize,
    /// The class of each bucket, both by index.
    cells: HashMap<usize, usize>,
    /// A class of it is wrong in a way that leaves its cell unknown.
    unclear: bool,
}

impl Matrix<'_> {
    /// Puts the class at `index` into the cell it names.
    fn place(&mut self, found: &mut Findings, index: usize, raw: &RawClass) {
        let path = self.list.index(index);
        let Some(family) = &raw.policy_family else {
            let message = "is missing; a class with a cache_bucket needs a policy_family too";
            return found.report(path.key("policy_family"), message);
        };
        found.check_name(path.key("policy_family"), family);
        let next = self.families.len();
        let family = *self.by_name.entry(family.clone()).or_insert(next);
        if family == next {
            self.families.push(FamilyDraft {
                name: raw.policy_family.clone().unwrap_or_default(),
                first: index,
                cells: HashMap::new(),
                unclear: false,
            });
        }
        let family = &mut self.families[family];

        let path = path.key("cache_bucket");
        let Some(name) = &raw.cache_bucket else {
            family.unclear = true;
            let message = "is missing; a class with a policy_family needs a cache_bucket too";
            return found.report(path, message);
        };
        let Some(&bucket) = self.buckets.by_name.get(name) else {
            family.unclear = true;
            // Without buckets every class would be wrong for the same reason.
            if !self.buckets.names.is_empty() {
                let there_are = names::list(self.buckets.names.iter().map(String::as_str));
                let message = format!(
                    "there is no bucket {}; there are: {there_are}",
                    names::quote(name)
                );
                found.report(path, message);
            }
            return;
        };
        if let Some(&other) = family.cells.get(&bucket) {
            let message = format!(
                "the family {} already has a class for the bucket {}, in",
                names::quote(&family.name),
                names::quote(name)
            );
            return found.clash(path, self.list.index(other), message);
        }
        family.cells.insert(bucket, index);
    }

    /// Reports the buckets for which a family has no class.
    fn check_complete(&self, found: &mut Findings) {
        for family in &self.families {
            if family.unclear || family.cells.len() >= self.buckets.by_name.len() {
                continue;
            }
            let missing = self.buckets.names.iter().enumerate();
            let missing = missing
                .filter(|(bucket, name)| {
                    // A repeated bucket is a mistake of its own.
                    self.buckets.by_name.get(*name) == Some(bucket)
                        && !family.cells.contains_key(bucket)
                })
                .map(|(_, name)| name.as_str());
            let message = format!(
                "the family {} has no class for the bucket {}; it needs one for each",
                names::quote(&family.name),
                names::list(missing)
            );
            found.report(self.list.index(family.first).key("policy_family"), message);
        }
    }

    /// The default family, if there is a family of that name.
    fn default_family<'n>(
        &self,
        found: &mut Findings,
        path: Path<'_>,
        name: Option<&'n str>,
    ) -> Option<&'n str> {
        let name = name?;
        if self.by_name.contains_key(name) {
            return Some(name);
        }
        found.check_name(path, name);
        if names::is_name(name) {
            let there_are = names::list(self.families.iter().map(|family| family.name.as_str()));
            let message = format!(
                "there is no family {}; there are: {there_are}",
                names::quote(name)
            );
            found.report(path, message);
        }
        None
    }

    /// The complete families, with indexes into all classes, of which this profile's `first` is the first.
    fn into_families(self, first: usize) -> HashMap<String, Family> {
        let buckets = self.buckets.floors.len();
        self.families
            .into_iter()
            .filter(|family| family.cells.len() == buckets)
            .map(|family| {
                let mut cells: Vec<_> = family.cells.into_iter().collect();
                cells.sort_unstable();
                let classes = cells.into_iter().map(|(_, class)| first + class).collect();
                (family.name, classes)
            })
            .collect()
    }
}
