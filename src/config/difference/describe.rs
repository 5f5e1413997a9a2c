//! Describes a policy as things with names and fields.
//!
//! Every struct of the policy is destructured without a `..` here, so that a new field does not compile
//! until it is decided how to compare it.

use std::{collections::HashMap, sync::Arc};

use http::{HeaderName, StatusCode};

use super::{
    thing::{Field, List, NONE, Thing},
    value::{Value, number},
};
use crate::config::{
    BusyThreshold, Bypass, ClassLimits, Code, Dominion, Endpoint, FairUnit, Headers, HoldUntil,
    ModelProfile, PolicyClass, PolicyConfig, PrefillUntil, QueuePolicy, ReadAhead, Worker,
    policy::{Family, Profile},
};

/// How the absence of a limit is shown.
const UNLIMITED: &str = "unlimited";

// ===== the policy =====

/// The whole policy.
pub(super) fn policy(policy: &PolicyConfig) -> Thing<'_> {
    let PolicyConfig {
        profiles,
        profile_of_model,
        classes,
        dominions,
        workers,
        estimates,
        default_dominion: _, // The dominion that it results in is compared instead.
        headers,
        model_profiles,
        read_ahead,
        statuses,
        bypass,
        class_header,
        server_timing,
    } = policy;

    let mut models = vec![None; profiles.len()];
    for (model, &index) in profile_of_model {
        models[index] = Some(model.as_str());
    }
    let mut classes_of = HashMap::<Option<&str>, Vec<_>>::new();
    for (index, class) in classes.iter().enumerate() {
        let of = classes_of.entry(class.profile.as_deref()).or_default();
        of.push((index, class));
    }
    let mut described = profiles.iter().zip(models).map(|(own, model)| {
        let classes = classes_of.remove(&model).unwrap_or_default();
        (model, profile(own, classes))
    });

    let root = described.next().map(|(_, root)| root);
    let Thing {
        mut fields,
        mut lists,
        ..
    } = root.unwrap_or_default();
    let models = described.map(|(model, thing)| (model.unwrap_or_default().into(), thing));
    lists.push(List::new("models", true, models));

    let id_of = |index: usize| dominions.get(index).map(|dominion| &*dominion.id);
    let default_dominion = policy.fallback_dominion().and_then(id_of);
    fields.push(Field::text("default_dominion", default_dominion));
    let ReadAhead { request, total } = read_ahead;
    fields.push(Field::always("read_ahead_bytes", request));
    fields.push(Field::always("read_ahead_total_bytes", total));
    fields.push(bypassed(bypass));
    fields.push(Field::flag("class_header", *class_header, false));
    fields.push(Field::flag("server_timing", *server_timing, false));

    let named = dominions
        .iter()
        .map(|each| (Arc::clone(&each.id), dominion(each)));
    lists.push(List::new("dominions", true, named));
    for (key, remote) in [("endpoints", true), ("local_models", false)] {
        let workers = workers
            .iter()
            .filter(|worker| worker.endpoint.is_some() == remote);
        let named = workers.map(|each| {
            let dominion = each.dominion.and_then(id_of);
            let estimate = estimates.get(&each.id).copied();
            (Arc::clone(&each.id), worker(each, dominion, estimate))
        });
        lists.push(List::new(key, true, named));
    }
    let named = model_profiles.iter().map(selection);
    lists.push(List::new("profiles", false, named));

    Thing {
        fields,
        groups: vec![
            ("headers", believed(headers)),
            ("statuses", answers(statuses)),
        ],
        lists,
    }
}

// ===== classes =====

/// A profile, with its classes and their indexes.
fn profile<'a>(profile: &'a Profile, classes: Vec<(usize, &'a PolicyClass)>) -> Thing<'a> {
    let Profile {
        families,
        default_family,
        buckets,
        bucket_names,
        explicit: _, // Those without a family.
    } = profile;
    let is_default = |family: &Family| Arc::ptr_eq(family, default_family);
    let default = families.iter().find(|(_, family)| is_default(family));
    let default = default.map(|(name, _)| name.as_str());

    let mut cells = HashMap::new();
    for (family, classes) in families {
        for (&index, bucket) in classes.iter().zip(bucket_names) {
            cells.insert(index, (family.as_str(), bucket.as_str()));
        }
    }
    let named = bucket_names.iter().zip(buckets).map(|(name, floor)| {
        let fields = vec![Field::always("min_tokens", floor)];
        (name.as_str().into(), Thing::of(fields))
    });
    // The order of the buckets follows from their `min_tokens`.
    let buckets = List::new("uncached_isl_buckets", false, named);
    let named = classes.into_iter().map(|(index, each)| {
        let cell = cells.get(&index).copied();
        (Arc::clone(&each.name), class(each, cell))
    });
    Thing {
        fields: vec![Field::text("default_policy_family", default)],
        groups: Vec::new(),
        lists: vec![buckets, List::new("policy_classes", true, named)],
    }
}

/// A class, with the names of its family and bucket.
fn class<'a>(class: &'a PolicyClass, cell: Option<(&'a str, &'a str)>) -> Thing<'a> {
    let PolicyClass {
        name: _,
        profile: _,
        quantum,
        order,
        busy: BusyThreshold {
            tokens,
            fraction,
            ratio,
        },
        limits:
            ClassLimits {
                requests,
                raw_isl_tokens,
                cached_tokens,
            },
        max_queue_wait,
        hold_until,
        max_hold,
        prefill_until,
        output_token_weight,
    } = class;
    // A ratio of 1 means the same as none.
    let ratio = ratio.filter(|&ratio| ratio != 1.0).map(number);
    let weight = Some(*output_token_weight).filter(|&weight| weight != 0.0);
    let fields = vec![
        Field::text("policy_family", cell.map(|(family, _)| family)),
        Field::text("cache_bucket", cell.map(|(_, bucket)| bucket)),
        Field::always("quantum", quantum),
        Field::word(
            "queue_policy",
            order.as_str(),
            *order == QueuePolicy::default(),
        ),
        Field::optional("prefill_busy_threshold", *tokens, NONE),
        Field::optional("prefill_busy_threshold_frac", fraction.map(number), NONE),
        Field::optional("busy_worker_ratio", ratio, "1"),
        Field::optional("request_queue_limit_per_worker", *requests, UNLIMITED),
        Field::optional(
            "raw_isl_token_queue_limit_per_worker",
            *raw_isl_tokens,
            UNLIMITED,
        ),
        Field::optional(
            "cached_token_queue_limit_per_worker",
            *cached_tokens,
            UNLIMITED,
        ),
        Field::optional(
            "max_queue_wait_ms",
            max_queue_wait.map(|wait| wait.as_millis()),
            UNLIMITED,
        ),
        Field::word(
            "hold_until",
            hold_until.as_str(),
            *hold_until == HoldUntil::default(),
        ),
        Field::optional(
            "max_hold_ms",
            max_hold.map(|hold| hold.as_millis()),
            UNLIMITED,
        ),
        Field::word(
            "prefill_until",
            prefill_until.as_str(),
            *prefill_until == PrefillUntil::default(),
        ),
        Field::optional("output_token_weight", weight.map(number), "0"),
    ];
    Thing::of(fields)
}

// ===== dominions and workers =====

fn dominion(dominion: &Dominion) -> Thing<'_> {
    let Dominion {
        id: _,
        local,
        max_concurrency,
        max_queue,
        max_queue_per_client,
        reject,
        enforce,
        fair_scheduling,
        fair_unit,
        vram_gb,
    } = dominion;
    let kind = if *local { "local" } else { "remote" };
    let policy = if *reject { "reject" } else { "queue" };
    let fields = vec![
        Field::word("kind", kind, !local),
        Field::optional("max_concurrency", *max_concurrency, UNLIMITED),
        Field::always("max_queue", max_queue),
        Field::optional("max_queue_per_client", *max_queue_per_client, UNLIMITED),
        Field::word("policy", policy, !reject),
        Field::flag("enforce", *enforce, true),
        Field::flag("fair_scheduling", *fair_scheduling, true),
        Field::word(
            "fair_unit",
            fair_unit.as_str(),
            *fair_unit == FairUnit::default(),
        ),
        Field::optional("vram_gb", vram_gb.map(number), NONE),
    ];
    Thing::of(fields)
}

/// A worker, with the id of its dominion and, for a local model, its VRAM.
fn worker<'a>(worker: &'a Worker, of: Option<&'a str>, vram_gb: Option<f64>) -> Thing<'a> {
    let Worker {
        id,
        dominion: _, // An index; `of` is its id.
        models,
        max_num_batched_tokens,
        endpoint,
    } = worker;
    let own_only = matches!(models.as_slice(), [only] if **only == **id);
    let models = models.iter().map(String::as_str).collect();
    let mut fields = vec![
        Field::text("dominion", of),
        Field::new("models", Value::Names(models), own_only),
        Field::optional("max_num_batched_tokens", *max_num_batched_tokens, NONE),
    ];
    match endpoint.as_deref() {
        Some(Endpoint {
            id: _,
            protocol,
            base_url,
            api_key,
        }) => fields.extend([
            Field::text("protocol", protocol.as_deref()),
            Field::secret("base_url", base_url.as_deref()),
            Field::secret("api_key", api_key.as_deref()),
        ]),
        None => fields.push(Field::optional("vram_gb", vram_gb.map(number), NONE)),
    }
    Thing::of(fields)
}

/// A set of local models that are loaded together.
fn selection(profile: &ModelProfile) -> (Arc<str>, Thing<'_>) {
    let ModelProfile { name, models } = profile;
    let thing = Thing {
        fields: vec![Field::set("models", models.iter().map(String::as_str))],
        ..Thing::default()
    };
    (name.as_str().into(), thing)
}

// ===== requests and answers =====

fn believed(headers: &Headers) -> Vec<Field<'_>> {
    let Headers {
        policy,
        client,
        model,
        raw_isl_tokens,
        cached_tokens,
        strict_priority,
        priority_jump,
        worker,
        allowed_workers,
        max_queue_wait_ms,
    } = headers;
    let named = |key, header: &HeaderName| Field::always(key, header);
    let trusted =
        |key, header: &Option<HeaderName>| Field::optional(key, header.as_ref(), "(not believed)");
    vec![
        named("policy", policy),
        named("client", client),
        trusted("model", model),
        trusted("raw_isl_tokens", raw_isl_tokens),
        trusted("cached_tokens", cached_tokens),
        trusted("strict_priority", strict_priority),
        trusted("priority_jump", priority_jump),
        trusted("worker", worker),
        trusted("allowed_workers", allowed_workers),
        trusted("max_queue_wait_ms", max_queue_wait_ms),
    ]
}

fn answers(statuses: &HashMap<String, StatusCode>) -> Vec<Field<'_>> {
    let status = |code: &Code| {
        let own = statuses.get(code.as_str()).map(StatusCode::as_u16);
        Field::always(code.as_str(), own.unwrap_or(code.status()))
    };
    Code::ALL.iter().map(status).collect()
}

fn bypassed(bypass: &Bypass) -> Field<'_> {
    let Bypass {
        path_prefixes,
        methods,
    } = bypass;
    let paths = path_prefixes.iter().map(String::as_str);
    Field::set(
        "bypass",
        paths.chain(methods.iter().map(|method| method.as_str())),
    )
}
