//! What a policy says of itself, once it is loaded.

use crate::{load, with_class};

/// Two families in two buckets, the second family first in one of them, and a class beside.
const MATRIX: &str = "\
default_policy_family: web
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 1000, bucket: long}]
policy_classes:
  - {name: agents-long, policy_family: agents, cache_bucket: long, quantum: 40}
  - {name: web-short, policy_family: web, cache_bucket: short, quantum: 30, queue_policy: wspt}
  - {name: web-long, policy_family: web, cache_bucket: long, quantum: 20}
  - {name: agents-short, policy_family: agents, cache_bucket: short, quantum: 10}
  - {name: insiders, quantum: 5}
models:
  vendor/large:
    default_policy_family: only
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes: [{name: only-all, policy_family: only, cache_bucket: all, quantum: 1}]
";

#[test]
fn profiles_have_families_buckets_and_classes_in_the_order_of_the_file() {
    let config = load(MATRIX);
    let profiles: Vec<_> = config.profiles().collect();
    let [root, large] = profiles[..] else {
        panic!("two profiles, not {profiles:?}");
    };
    assert_eq!((root.model(), root.path()), (None, String::new()));
    assert_eq!(root.default_family(), Some("web"));
    assert_eq!(root.families().collect::<Vec<_>>(), ["agents", "web"]);
    let buckets = root
        .buckets()
        .map(|bucket| (bucket.name(), bucket.min_tokens(), bucket.max_tokens()));
    let expected = [("short", 0, Some(999)), ("long", 1000, None)];
    assert_eq!(buckets.collect::<Vec<_>>(), expected);
    let names: Vec<_> = root.classes().map(|class| class.name()).collect();
    assert_eq!(
        names,
        [
            "agents-long",
            "web-short",
            "web-long",
            "agents-short",
            "insiders"
        ]
    );

    assert_eq!(large.model(), Some("vendor/large"));
    assert_eq!(large.path(), "models.\"vendor/large\"");
    assert_eq!(large.default_family(), Some("only"));
    let names: Vec<_> = large.classes().map(|class| class.name()).collect();
    assert_eq!(names, ["only-all"]);
}

#[test]
fn classes_know_their_place() {
    let config = load(MATRIX);
    let places: Vec<_> = config
        .classes()
        .map(|class| {
            let bucket = class.cache_bucket().map(|bucket| bucket.name());
            (
                class.index(),
                class.path(),
                class.profile(),
                class.policy_family(),
                bucket,
            )
        })
        .collect();
    let root = |index| format!("policy_classes[{index}]");
    let own = "models.\"vendor/large\".policy_classes[0]".to_owned();
    assert_eq!(
        places,
        [
            (0, root(0), None, Some("agents"), Some("long")),
            (1, root(1), None, Some("web"), Some("short")),
            (2, root(2), None, Some("web"), Some("long")),
            (3, root(3), None, Some("agents"), Some("short")),
            (4, root(4), None, None, None),
            (5, own, Some("vendor/large"), Some("only"), Some("all")),
        ]
    );
}

#[test]
fn a_request_s_class_is_found_by_model_policy_and_tokens() {
    let config = load(MATRIX);
    for (model, policy, tokens, expected) in [
        (None, None, 0, "web-short"),
        (None, Some("agents"), 999, "agents-short"),
        (None, Some("agents"), 1000, "agents-long"),
        (None, Some("insiders"), 1_000_000, "insiders"),
        (None, Some("nobody"), 1000, "web-long"),
        (Some("vendor/small"), Some("agents"), 0, "agents-short"),
        (Some("vendor/large"), Some("agents"), 5000, "only-all"),
    ] {
        let class = config.class_for(model, policy, tokens);
        assert_eq!(class.name(), expected, "{model:?} {policy:?} {tokens}");
    }
}

#[test]
fn a_policy_without_classes_has_one() {
    let config = load("");
    let class = config.class_for(Some("m"), Some("f"), 7);
    assert_eq!((class.name(), class.quantum()), ("default", 1));
    assert_eq!((class.path(), class.policy_family()), (String::new(), None));
    assert!(class.cache_bucket().is_none());
    let root = config.profiles().next().unwrap();
    assert_eq!((root.default_family(), root.model()), (None, None));
    assert_eq!((root.families().count(), root.buckets().len()), (0, 0));
    assert_eq!((config.dominions().len(), config.workers().len()), (0, 0));
    assert!(config.default_dominion().is_none());
}

#[test]
fn classes_say_what_their_keys_say() {
    let config = load(&with_class(
        "quantum: 7, queue_policy: wspt, prefill_busy_threshold: 1, prefill_busy_threshold_frac: 2.5, \
         busy_worker_ratio: 0.5, request_queue_limit_per_worker: 3, \
         raw_isl_token_queue_limit_per_worker: 4, cached_token_queue_limit_per_worker: 5, \
         max_queue_wait_ms: 6, hold_until: first_byte, max_hold_ms: 8, prefill_until: headers, \
         output_token_weight: 9.5",
    ));
    let class = config.classes().next().unwrap();
    assert_eq!(class.quantum(), 7);
    assert_eq!(class.queue_policy(), "wspt");
    assert_eq!(class.prefill_busy_threshold(), Some(1));
    assert_eq!(class.prefill_busy_threshold_frac(), Some(2.5));
    assert_eq!(class.busy_worker_ratio(), Some(0.5));
    assert_eq!(class.request_queue_limit_per_worker(), Some(3));
    assert_eq!(class.raw_isl_token_queue_limit_per_worker(), Some(4));
    assert_eq!(class.cached_token_queue_limit_per_worker(), Some(5));
    assert_eq!(class.max_queue_wait().map(|wait| wait.as_millis()), Some(6));
    assert_eq!(class.hold_until(), "first_byte");
    assert_eq!(class.max_hold().map(|hold| hold.as_millis()), Some(8));
    assert_eq!(class.prefill_until(), "headers");
    assert_eq!(class.output_token_weight(), 9.5);

    let waits = load(&(with_class("quantum: 1") + "max_queue_wait_ms: 10\n"));
    let class = waits.classes().next().unwrap();
    assert_eq!(
        class.max_queue_wait().map(|wait| wait.as_millis()),
        Some(10)
    );
}

#[test]
fn dominions_and_workers_say_what_their_keys_say() {
    let config = load(
        "\
dominions:
  - {id: pool, max_concurrency: 4, max_queue: 9, policy: reject, enforce: false, fair_scheduling: false}
  - {id: gpu, kind: local, max_queue_per_client: 7, fair_unit: tokens, vram_gb: 24}
default_dominion: gpu
endpoints:
  - {id: x}
  - {id: y, dominion: pool, models: [m, n], max_num_batched_tokens: 8, protocol: openai, api_key: secret}
local_models: [{id: z, dominion: gpu, vram_gb: 1}]
read_ahead_bytes: 1
read_ahead_total_bytes: 2
",
    );
    let dominions: Vec<_> = config.dominions().collect();
    let [pool, gpu] = dominions[..] else {
        panic!("two dominions, not {dominions:?}");
    };
    assert_eq!(
        (pool.index(), pool.id(), pool.path()),
        (0, "pool", "dominions[0]".to_owned())
    );
    assert_eq!((pool.kind(), pool.policy()), ("remote", "reject"));
    assert_eq!((pool.max_concurrency(), pool.max_queue()), (Some(4), 9));
    assert_eq!(pool.max_queue_per_client(), None);
    assert_eq!(
        (pool.fair_scheduling(), pool.fair_unit()),
        (false, "requests")
    );
    assert_eq!(
        (gpu.index(), gpu.kind(), gpu.policy()),
        (1, "local", "queue")
    );
    assert_eq!((gpu.max_concurrency(), gpu.fair_unit()), (None, "tokens"));
    assert_eq!(gpu.max_queue_per_client(), Some(7));
    assert_eq!(
        config.default_dominion().map(|dominion| dominion.id()),
        Some("gpu")
    );
    assert_eq!(
        (config.read_ahead_bytes(), config.read_ahead_total_bytes()),
        (1, 2)
    );

    let workers: Vec<_> = config
        .workers()
        .map(|worker| {
            let dominion = worker.dominion().map(|dominion| dominion.id());
            (
                worker.id(),
                worker.path(),
                dominion,
                worker.models().collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        workers,
        [
            ("x", "endpoints[0]".to_owned(), None, vec!["x"]),
            ("y", "endpoints[1]".to_owned(), Some("pool"), vec!["m", "n"]),
            ("z", "local_models[0]".to_owned(), Some("gpu"), vec!["z"]),
        ]
    );
    let y = pool.workers().next().unwrap();
    assert_eq!((y.id(), y.max_num_batched_tokens()), ("y", Some(8)));
    assert_eq!(
        y.endpoint().and_then(|endpoint| endpoint.protocol()),
        Some("openai")
    );
    let z = gpu.workers().next().unwrap();
    assert!(z.endpoint().is_none());
}

#[test]
fn no_view_shows_a_key() {
    let config = load("dominions: [{id: d}]\nendpoints: [{id: x, dominion: d, api_key: secret}]\n");
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        config.profiles().collect::<Vec<_>>(),
        config.classes().collect::<Vec<_>>(),
        config.dominions().collect::<Vec<_>>(),
        config.workers().collect::<Vec<_>>(),
    );
    assert!(
        shown.contains("\"x\"") && !shown.contains("secret"),
        "{shown}"
    );
}
