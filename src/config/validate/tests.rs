//! What a policy resolves to. Mistakes are tested in `tests/config`.

use crate::config::{PolicyConfig, QueuePolicy, parse, validate};

fn load(yaml: &str) -> PolicyConfig {
    let lookup = |name: &str| Ok(format!("<{name}>"));
    match parse::parse(yaml)
        .map(|(raw, unknown)| validate::policy(raw.unwrap_or_default(), unknown, &lookup))
    {
        Ok(Ok(policy)) => policy,
        Ok(Err(found)) => panic!("{:?}", found.into_mistakes(|_| None)),
        Err(mistake) => panic!("{mistake}"),
    }
}

const MODEL: &str = "default_policy_family: f, uncached_isl_buckets: [{min_tokens: 0, bucket: x}], \
                     policy_classes: [{name: only, policy_family: f, cache_bucket: x, quantum: 7}]";

#[test]
fn what_is_not_said_has_its_default() {
    let policy = load("dominions: [{id: a}]\nendpoints: [{id: e}]");
    let dominion = &policy.dominions[0];
    assert_eq!(dominion.max_concurrency, None);
    assert_eq!(dominion.max_queue, 100);
    assert!(dominion.fair_scheduling);
    assert!(!dominion.reject);
    assert_eq!(policy.default_dominion, None);
    assert_eq!(policy.workers[0].models, ["e"]);

    let class = &policy.classes[0];
    assert_eq!((&*class.name, class.quantum.get()), ("default", 1));
    assert_eq!(class.order, QueuePolicy::Fcfs);
    assert_eq!((class.busy, class.limits), Default::default());

    assert_eq!(policy.headers.policy, "x-dynamo-meta-policy-class");
    assert_eq!(policy.headers.client, "x-promptforge-client");
    assert_eq!(policy.headers.model, None);
}

#[test]
fn classes_stand_in_the_order_of_the_file() {
    let policy = load(&format!(
        "models: {{z: {{{MODEL}}}, a: {{{MODEL}}}, m: {{{MODEL}}}}}"
    ));
    let profiles: Vec<_> = policy
        .classes
        .iter()
        .map(|class| class.profile.as_deref())
        .collect();
    assert_eq!(profiles, [None, Some("z"), Some("a"), Some("m")]);
    assert_eq!(policy.class_of(Some("a"), None, 0), 2);
    assert_eq!(policy.class_of(Some("other"), Some("f"), 0), 0);
}

#[test]
fn a_matrix_is_read_by_bucket_and_not_by_the_order_of_its_classes() {
    let policy = load(
        "\
default_policy_family: g
uncached_isl_buckets: [{min_tokens: 0, bucket: x}, {min_tokens: 10, bucket: y}]
policy_classes:
  - {name: fy, policy_family: f, cache_bucket: y, quantum: 1}
  - {name: own, quantum: 1}
  - {name: gx, policy_family: g, cache_bucket: x, quantum: 1}
  - {name: gy, policy_family: g, cache_bucket: y, quantum: 1}
  - {name: fx, policy_family: f, cache_bucket: x, quantum: 1}
",
    );
    for (hint, uncached, class) in [
        (Some("f"), 9, "fx"),
        (Some("f"), 10, "fy"),
        (None, 0, "gx"),
        (Some("fy"), 10, "gy"),
        (Some("own"), 10, "own"),
    ] {
        let index = policy.class_of(None, hint, uncached);
        assert_eq!(&*policy.classes[index].name, class, "{hint:?} {uncached}");
    }
}

#[test]
fn workers_are_endpoints_and_then_local_models() {
    let policy = load(
        "\
local_models: [{id: q, dominion: l, max_num_batched_tokens: 9}]
endpoints: [{id: e, dominion: r, models: [a, b]}, {id: f}]
dominions: [{id: r}, {id: l, kind: local}]
default_dominion: l
",
    );
    let ids: Vec<_> = policy.workers.iter().map(|worker| &*worker.id).collect();
    assert_eq!(ids, ["e", "f", "q"]);
    assert_eq!(policy.workers[2].max_num_batched_tokens, Some(9));
    assert!(policy.workers[2].endpoint.is_none());
    assert_eq!(policy.default_dominion, Some(1));
    let served: Vec<_> = policy.models().collect();
    assert_eq!(served, ["a", "b", "f", "q"]);
    let dominions: Vec<_> = policy
        .workers
        .iter()
        .map(|worker| worker.dominion)
        .collect();
    assert_eq!(dominions, [Some(0), None, Some(1)]);
}

#[test]
fn variables_are_expanded_in_addresses_and_keys_alone() {
    let policy =
        load("endpoints: [{id: e, protocol: '${A}', base_url: 'x${B}', api_key: '${C}$'}]");
    let endpoint = policy.workers[0].endpoint.as_deref();
    let endpoint =
        endpoint.map(|endpoint| (endpoint.protocol(), endpoint.base_url(), endpoint.api_key()));
    assert_eq!(endpoint, Some((Some("${A}"), Some("x<B>"), Some("<C>$"))));
}
