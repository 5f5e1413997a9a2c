//! Turns the policy as written into the policy as used, or into a list of all its mistakes.
//!
//! Validation never stops early. A missing or wrong value is reported and replaced by a placeholder that
//! keeps the later checks going, so that one run finds every mistake; the result is used only if there is
//! none. Each mistake is reported once: a name that is wrong where it is defined is not reported again where
//! it is used.

mod buckets;
mod classes;
mod dominions;
mod findings;
mod headers;
mod matrix;
mod numbers;
mod placement;
mod profiles;
mod requests;
#[cfg(test)]
mod tests;
mod unique;
mod vram;
mod workers;

use std::{collections::HashMap, sync::Arc};

use super::{
    PolicyConfig, env, keys,
    path::{Path, Steps},
    schema::{RawPolicy, RawProfile},
};
pub(super) use findings::Findings;

/// Checks a policy and resolves its names. `unknown` are the paths of its unknown keys.
pub(super) fn policy(
    raw: RawPolicy,
    unknown: Vec<Steps>,
    lookup: env::Lookup<'_>,
) -> Result<PolicyConfig, Findings> {
    let root = Path::Root;
    let mut found = Findings::default();
    for (before, steps) in unknown.into_iter().enumerate() {
        let (steps, message) = keys::unknown(steps, before);
        found.report_at(steps, message);
    }
    let mut classes = Vec::new();

    let own = RawProfile {
        default_policy_family: raw.default_policy_family,
        uncached_isl_buckets: raw.uncached_isl_buckets,
        policy_classes: raw.policy_classes,
    };
    let mut profiles = vec![if profiles::is_absent(&own) {
        profiles::synthetic(&mut classes)
    } else {
        profiles::resolve(&mut found, root, own, None, &mut classes)
    }];
    let mut profile_of_model = HashMap::new();
    let models = root.key("models");
    for (model, raw) in raw.models.map(|models| models.0).unwrap_or_default() {
        let path = models.entry(&model);
        if model.trim().is_empty() {
            found.report(path, "the name of a model is empty");
        }
        profile_of_model.insert(model.to_string(), profiles.len());
        profiles.push(profiles::resolve(
            &mut found,
            path,
            raw,
            Some(&model),
            &mut classes,
        ));
    }

    let dominions = dominions::resolve(&mut found, raw.dominions.unwrap_or_default());
    dominions::check_queues(&mut found, dominions.list.len(), classes.len());
    let default_dominion = raw.default_dominion.and_then(|id| {
        let known = dominions.by_id.get(&id).copied();
        if known.is_none() {
            let path = root.key("default_dominion");
            found.unknown(path, "dominion", &id, &dominions.listed());
        }
        known
    });
    let workers = workers::resolve(
        &mut found,
        &dominions,
        raw.endpoints.unwrap_or_default(),
        raw.local_models.unwrap_or_default(),
        lookup,
    );
    let estimates = workers.estimates().collect();
    let model_profiles = vram::check(&mut found, &dominions, &workers, raw.profiles);
    let headers = headers::resolve(&mut found, raw.headers.unwrap_or_default());
    let default_wait = numbers::milliseconds(
        &mut found,
        root.key("max_queue_wait_ms"),
        raw.max_queue_wait_ms,
    );
    for class in &mut classes {
        class.max_queue_wait = class.max_queue_wait.or(default_wait);
    }
    let read_ahead =
        requests::read_ahead(&mut found, raw.read_ahead_bytes, raw.read_ahead_total_bytes);
    let statuses = requests::statuses(&mut found, raw.statuses);
    let bypass = requests::bypass(&mut found, raw.bypass);
    let mut flag = |key, value| numbers::flag(&mut found, root.key(key), value);
    let class_header = flag("class_header", raw.class_header);
    let server_timing = flag("server_timing", raw.server_timing);

    if !found.is_empty() {
        return Err(found);
    }
    Ok(PolicyConfig {
        profiles,
        profile_of_model,
        classes,
        dominions: dominions
            .list
            .into_iter()
            .map(|entry| entry.dominion)
            .collect(),
        workers: workers.list.into_iter().map(Arc::new).collect(),
        estimates,
        default_dominion,
        headers,
        model_profiles,
        read_ahead,
        statuses,
        bypass,
        class_header: class_header.unwrap_or(false),
        server_timing: server_timing.unwrap_or(false),
    })
}

/// The policy of an empty file.
pub(super) fn empty() -> PolicyConfig {
    let mut classes = Vec::new();
    PolicyConfig {
        profiles: vec![profiles::synthetic(&mut classes)],
        profile_of_model: HashMap::new(),
        classes,
        dominions: Vec::new(),
        workers: Vec::new(),
        estimates: HashMap::new(),
        default_dominion: None,
        headers: super::Headers::default(),
        model_profiles: Vec::new(),
        read_ahead: Default::default(),
        statuses: HashMap::new(),
        bypass: Default::default(),
        class_header: false,
        server_timing: false,
    }
}
