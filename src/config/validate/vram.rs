//! VRAM: whether the local models of each profile together fit into their dominions.
//!
//! A profile says which models are loaded at the same time. Without profiles all of them are. Only dominions
//! with a budget are checked, and only local models use it.

use std::collections::{HashMap, HashSet};

use super::{
    Findings,
    dominions::Dominions,
    unique::{self, Unique},
    workers::{Estimate, Workers},
};
use crate::config::{ModelProfile, names, path::Path, schema::RawSelection};

/// The relative error that is tolerated in sums of decimal fractions: 0.1 + 0.2 fits into 0.3.
const ROUNDING: f64 = 1e-9;

/// Checks the profiles, and returns the local models that each of them selects.
pub(super) fn check(
    found: &mut Findings,
    dominions: &Dominions,
    workers: &Workers,
    profiles: Option<Vec<RawSelection>>,
) -> Vec<ModelProfile> {
    let mut check = Check {
        found,
        dominions,
        workers,
        without_estimate: HashSet::new(),
    };
    let Some(profiles) = profiles.filter(|profiles| !profiles.is_empty()) else {
        let all = 0..workers.estimates.len();
        check.fits(Path::Root.key("local_models"), None, all);
        return Vec::new();
    };
    let mut resolved = Vec::new();
    let root = Path::Root;
    let list = root.key("profiles");
    let mut unique = Unique::at_key(list, "name");
    for (index, profile) in profiles.into_iter().enumerate() {
        let name = unique
            .require(check.found, index, profile.name)
            .unwrap_or_default();
        let path = list.index(index);
        let path = path.key("models");
        if profile.models.is_none() {
            check.found.report(
                path,
                "is missing; a profile must list the models that it loads",
            );
        }
        let selected = check.select(path, profile.models.unwrap_or_default());
        let local = |&index: &usize| workers.list[workers.endpoints + index].id.to_string();
        let models = selected.iter().map(local).collect();
        check.fits(path, Some(&name), selected);
        resolved.push(ModelProfile { name, models });
    }
    resolved
}

struct Check<'a> {
    found: &'a mut Findings,
    dominions: &'a Dominions,
    workers: &'a Workers,
    /// Local models that are already reported for having no estimate.
    without_estimate: HashSet<usize>,
}

impl Check<'_> {
    /// The local models among `models`, by index.
    fn select(&mut self, path: Path<'_>, models: Vec<Option<String>>) -> Vec<usize> {
        let Workers {
            list,
            by_id,
            placement,
            endpoints,
            ..
        } = self.workers;
        let mut selected = Vec::new();
        for (index, model) in unique::models(self.found, path, models) {
            let worker = by_id.get(&model).copied();
            match worker.and_then(|worker| worker.checked_sub(*endpoints)) {
                Some(local) => selected.push(local),
                // A model of an endpoint uses no local memory.
                None if placement.serves(&model) => {}
                None => {
                    let local = list.iter().skip(*endpoints).map(|worker| &*worker.id);
                    let message = format!(
                        "no worker serves a model {}; local models: {}",
                        names::quote(&model),
                        names::list(list.len() - endpoints, local)
                    );
                    self.found.report(path.index(index), message);
                }
            }
        }
        selected
    }

    /// Reports the dominions into which the local models `selected` do not fit.
    fn fits(
        &mut self,
        path: Path<'_>,
        profile: Option<&str>,
        selected: impl IntoIterator<Item = usize>,
    ) {
        let mut totals = HashMap::<usize, f64>::new();
        // In the order of their first models, so that the order of mistakes is stable.
        let mut order = Vec::new();
        for local in selected {
            let worker = &self.workers.list[self.workers.endpoints + local];
            let Some(dominion) = worker.dominion else {
                continue;
            };
            if self.dominions.list[dominion].dominion.vram_gb.is_none() {
                continue;
            }
            let estimate = match self.workers.estimates[local] {
                Estimate::Gigabytes(estimate) => estimate,
                Estimate::Wrong => continue,
                Estimate::Missing => {
                    self.lacks_estimate(local, dominion, profile);
                    continue;
                }
            };
            *totals.entry(dominion).or_insert_with(|| {
                order.push(dominion);
                0.0
            }) += estimate;
        }
        for dominion in order {
            let entry = &self.dominions.list[dominion];
            let (Some(&total), Some(budget)) = (totals.get(&dominion), entry.dominion.vram_gb)
            else {
                continue;
            };
            if total > budget + budget * ROUNDING {
                let who = match profile {
                    Some(profile) => format!("the models of the profile {}", names::quote(profile)),
                    None => "the local models together".to_owned(),
                };
                let message = format!(
                    "{who} need {} GB of VRAM in the dominion {}, {} GB more than its {} GB",
                    decimal(total),
                    names::quote(&entry.dominion.id),
                    decimal(total - budget),
                    decimal(budget),
                );
                self.found.report(path, message);
            }
        }
    }

    fn lacks_estimate(&mut self, local: usize, dominion: usize, profile: Option<&str>) {
        if !self.without_estimate.insert(local) {
            return;
        }
        let by = match profile {
            Some(profile) => format!(", which the profile {} loads,", names::quote(profile)),
            None => String::new(),
        };
        let message = format!(
            "is missing; the model {}{by} counts toward the vram_gb of the dominion {}",
            names::quote(&self.workers.list[self.workers.endpoints + local].id),
            names::quote(&self.dominions.list[dominion].dominion.id)
        );
        let root = Path::Root;
        self.found.report(
            root.key("local_models").index(local).key("vram_gb"),
            message,
        );
    }
}

/// `value`, without the digits that come from rounding errors.
fn decimal(value: f64) -> String {
    let digits = format!("{value:.9}");
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}
