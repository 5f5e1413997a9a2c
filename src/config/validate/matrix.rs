//! The matrix of families × buckets, with a class in each cell.
//!
//! Every family has exactly one class for every bucket, so that a family and a bucket always determine a
//! class. The product can be far larger than the file, so nothing here is allocated in its size before the
//! classes are known to fill it.

use std::collections::HashMap;

use super::{Findings, buckets::Buckets};
use crate::config::{names, path::Path, policy::Family, schema::RawClass};

/// The matrix of a profile, while it is being filled.
pub(super) struct Matrix<'a> {
    /// The path of the classes.
    list: Path<'a>,
    buckets: &'a Buckets,
    families: Vec<Row>,
    by_name: HashMap<String, usize>,
}

/// A family.
struct Row {
    name: String,
    /// The first class that names it.
    first: usize,
    /// The index of the class for each bucket index.
    cells: HashMap<usize, usize>,
    /// Whether one of its classes has no valid bucket, so that it is unknown which cells are empty.
    unclear: bool,
}

impl<'a> Matrix<'a> {
    pub(super) fn new(list: Path<'a>, buckets: &'a Buckets) -> Self {
        Self {
            list,
            buckets,
            families: Vec::new(),
            by_name: HashMap::new(),
        }
    }

    /// Puts the class at `index` into its cell.
    pub(super) fn place(&mut self, found: &mut Findings, index: usize, raw: &RawClass) {
        let (list, buckets) = (self.list, self.buckets);
        let path = list.index(index);
        let Some(family) = &raw.policy_family else {
            let message = "is missing; a class with a cache_bucket needs a policy_family too";
            return found.report(path.key("policy_family"), message);
        };
        found.check_name(path.key("policy_family"), family);
        let row = self.row(family, index);

        let path = path.key("cache_bucket");
        let Some(name) = &raw.cache_bucket else {
            row.unclear = true;
            let message = "is missing; a class with a policy_family needs a cache_bucket too";
            return found.report(path, message);
        };
        let Some(&bucket) = buckets.by_name.get(name) else {
            row.unclear = true;
            // Without any buckets every class would be wrong, and the missing buckets are reported already.
            if !buckets.names.is_empty() {
                found.unknown(path, "bucket", name, &buckets.listed());
            }
            return;
        };
        if let Some(&other) = row.cells.get(&bucket) {
            let message = format!(
                "the family {} already has a class for the bucket {}, in",
                names::quote(family),
                names::quote(name)
            );
            return found.clash(path, list.index(other), message);
        }
        row.cells.insert(bucket, index);
    }

    fn row(&mut self, name: &str, index: usize) -> &mut Row {
        let row = match self.by_name.get(name) {
            Some(&row) => row,
            None => {
                self.families.push(Row {
                    name: name.to_owned(),
                    first: index,
                    cells: HashMap::new(),
                    unclear: false,
                });
                let row = self.families.len() - 1;
                self.by_name.insert(name.to_owned(), row);
                row
            }
        };
        &mut self.families[row]
    }

    /// The first class of the family `name`, if there is such a family.
    pub(super) fn first_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).map(|&row| self.families[row].first)
    }

    /// Reports a default family that does not exist.
    pub(super) fn check_default(&self, found: &mut Findings, path: Path<'_>, name: &str) {
        if self.by_name.contains_key(name) {
            return;
        }
        let families = self.families.iter().map(|row| row.name.as_str());
        let mut defined = names::list(self.families.len(), families);
        if self.families.is_empty() {
            // A common slip is to name a class, which does not make a family.
            defined.push_str(": a class belongs to a family by its policy_family and cache_bucket, not by its name");
        }
        found.unknown(path, "family", name, &defined);
    }

    /// Reports the buckets for which a family has no class.
    pub(super) fn check_complete(&self, found: &mut Findings) {
        let Buckets { by_name, names, .. } = self.buckets;
        for row in self.families.iter().filter(|row| !row.unclear) {
            let Some(missing @ 1..) = by_name.len().checked_sub(row.cells.len()) else {
                continue;
            };
            let without = names.iter().enumerate().filter_map(|(bucket, name)| {
                // A repeated or empty name is reported separately.
                let counts = by_name.get(name) == Some(&bucket);
                (counts && !row.cells.contains_key(&bucket)).then_some(name.as_str())
            });
            let message = format!(
                "the family {} has no class for the {} {}; it needs one for each bucket",
                names::quote(&row.name),
                if missing == 1 { "bucket" } else { "buckets" },
                names::list(missing, without)
            );
            found.report(self.list.index(row.first).key("policy_family"), message);
        }
    }

    /// The complete families, with indexes into all classes, where this profile's begin at `offset`.
    pub(super) fn into_families(self, offset: usize) -> HashMap<String, Family> {
        let buckets = self.buckets.floors.len();
        self.families
            .into_iter()
            .filter(|row| row.cells.len() == buckets)
            .map(|row| {
                let mut cells: Vec<_> = row.cells.into_iter().collect();
                cells.sort_unstable();
                (
                    row.name,
                    cells.into_iter().map(|(_, class)| offset + class).collect(),
                )
            })
            .collect()
    }
}
