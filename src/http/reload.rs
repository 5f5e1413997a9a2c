//! Replacing the policy while requests wait and run.

use std::{collections::HashSet, sync::Arc};

use super::{ChangeError, core::Core, hub::Hub};
use crate::{
    config::{self, PolicyChanges, PolicyConfig},
    pool::{Places, Pool, Switched, WakeList},
};

/// Puts a layer under another policy and returns what changed. Tasks are woken once no lock is held.
pub(super) fn reload(hub: &Hub, policy: PolicyConfig) -> Result<PolicyChanges, ChangeError> {
    let policy = Arc::new(policy);
    let mut changes = Changes::default();
    let difference = {
        let reloading = hub.reloading();
        let before = hub.current();
        let selected = match &reloading.profile {
            Some(name) => {
                let none = |_| ChangeError::ProfileInForce { name: name.clone() };
                Some(selection(&policy, name).map_err(none)?)
            }
            None => None,
        };
        let selected = selected.as_ref();
        // Held until the new policy is in force, so that nobody changes the old one's workers meanwhile.
        let places_before = before.places_mut();
        let (places, added) = places(&before, places_before.added(), &policy);
        let workers = |dominion: Option<usize>| -> Vec<_> {
            let all = policy.workers.iter().chain(&added);
            all.filter(|worker| worker.dominion == dominion)
                .cloned()
                .collect()
        };
        let mut keep = |(pool, wakes)| {
            changes.wakes.push(wakes);
            pool
        };
        let reload =
            |pool: &Pool, dominion| pool.reload(&policy, dominion, &workers(dominion), selected);
        let dominions = policy.dominions.iter().enumerate();
        let dominions = dominions.map(|(index, dominion)| {
            let known = before.dominion_ids().position(|id| *id == *dominion.id);
            keep(match known {
                Some(known) => reload(before.pool(Some(known)), Some(index)),
                None => Pool::with_workers(&policy, Some(index), &workers(Some(index)), selected),
            })
        });
        let dominions = dominions.collect();
        let unlimited = keep(reload(before.pool(None), None));
        let next = before.next(Arc::clone(&policy), dominions, unlimited, places);
        // Closed below, once the new policy is in force: requests that still enter one of them are
        // tried again under it.
        changes.gone = before.gone_in(&next);
        if let Some(models) = selected {
            changes.switched = select(&next, models);
        }
        if reloading.shut_down {
            changes.wakes.extend(next.pools().map(|pool| pool.close()));
        }
        hub.supersede(Arc::clone(&next));
        drop(places_before);
        changes.next = Some(next);
        let difference = policy.changes_since(before.policy());
        changes.before = Some(before);
        difference
    };
    changes.settle();
    Ok(difference)
}

/// The local models of a profile.
pub(super) fn selection<'a>(
    policy: &'a PolicyConfig,
    name: &str,
) -> Result<HashSet<&'a str>, ChangeError> {
    let mut profiles = policy.model_profiles.iter();
    let profile = profiles.find(|profile| profile.name == name);
    let profile = profile.ok_or_else(|| ChangeError::UnknownProfile {
        name: name.to_owned(),
    })?;
    Ok(profile.models.iter().map(String::as_str).collect())
}

/// Treats these local models, and no others, as loaded.
pub(super) fn select(core: &Core, models: &HashSet<&str>) -> Vec<Switched> {
    let pools = core.pools();
    pools.map(|pool| pool.switch_profile(models)).collect()
}

/// Where the workers are under a new policy. It keeps those that were added at run time, unless the
/// policy has no place for them, and returns them as well.
fn places(
    before: &Core,
    added: &[Arc<config::Worker>],
    policy: &PolicyConfig,
) -> (Places, Vec<Arc<config::Worker>>) {
    let mut places = Places::new(policy);
    let mut kept = Vec::new();
    for worker in added {
        let dominion = match worker.dominion {
            None => None,
            Some(index) => {
                let id = &before.policy().dominions[index].id;
                let known = |it: &config::Dominion| it.id == *id && !it.local;
                let Some(index) = policy.dominions.iter().position(known) else {
                    continue;
                };
                Some(index)
            }
        };
        let worker = Arc::new(config::Worker {
            dominion,
            ..config::Worker::clone(worker)
        });
        let is_known = places.of_worker(&worker.id).is_some();
        if is_known || places.model_elsewhere(&worker).is_some() {
            continue;
        }
        places.add(&worker);
        kept.push(worker);
    }
    (places, kept)
}

/// What is left to do once no lock is held.
#[derive(Default)]
struct Changes {
    wakes: Vec<WakeList>,
    switched: Vec<Switched>,
    /// Dominions that the new policy does not have.
    gone: Vec<Arc<Pool>>,
    next: Option<Arc<Core>>,
    /// Dropping it drops what only it still owns, which reports to metrics.
    before: Option<Arc<Core>>,
}

impl Changes {
    fn settle(self) {
        self.wakes.into_iter().for_each(WakeList::wake_all);
        self.switched.into_iter().for_each(Switched::settle);
        self.gone.iter().for_each(|pool| pool.close().wake_all());
        if let Some(next) = self.next {
            next.apply_read_ahead();
        }
    }
}
