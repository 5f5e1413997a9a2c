//! A snapshot as JSON.

use serde_json::Value;

use crate::{asks, class, gold_and_bulk, hall::Hall, look, pool};

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap();
    object.keys().map(String::as_str).collect()
}

fn sorted<const N: usize>(mut keys: [&str; N]) -> [&str; N] {
    keys.sort_unstable();
    keys
}

#[tokio::test(start_paused = true)]
async fn the_shape_stays_as_it_is() {
    let mut hall = Hall::new(&gold_and_bulk(
        "
dominions: [{id: pool, kind: remote, max_concurrency: 1, fair_scheduling: true}]
endpoints: [{id: w, dominion: pool}]
",
    ));
    hall.hint("running", asks("gold", 1));
    hall.hint("waiting", asks("gold", 2));
    let snapshot = serde_json::to_value(look(&hall.handle)).unwrap();

    assert_eq!(keys(&snapshot), sorted(["dominions", "unplaced", "usage"]));
    let usage = [
        "prefill_tokens",
        "read_ahead_bytes",
        "slots_in_use",
        "waiting",
    ];
    assert_eq!(keys(&snapshot["usage"]), usage);
    assert_eq!(
        keys(&snapshot["unplaced"]),
        ["bypassed", "nested", "rejected"]
    );
    let pool = &snapshot["dominions"][0];
    assert_eq!(
        keys(pool),
        sorted([
            "id",
            "enforced",
            "closed",
            "slots",
            "in_use",
            "waiting",
            "max_queue",
            "max_queue_per_client",
            "oldest_wait_ms",
            "burst",
            "cursor",
            "idle_beside_waiter_ms",
            "window_ms",
            "tokens_per_second",
            "classes",
            "former_classes",
            "workers",
            "clients",
            "waiters",
            "waiters_omitted",
            "would_be",
        ])
    );
    let class = &pool["classes"][0];
    assert_eq!(
        keys(class),
        sorted([
            "name",
            "profile",
            "quantum",
            "deficit",
            "queued",
            "queued_tokens",
            "queued_cached_tokens",
            "share",
            "promised_share",
            "tokens_per_second",
            "estimated_wait_ms",
            "totals",
        ])
    );
    let totals = sorted([
        "arrived",
        "admitted",
        "waited",
        "wait_ms",
        "longest_wait_ms",
        "tokens_served",
        "completed",
        "failed",
        "revoked",
        "cancelled",
        "rejected",
    ]);
    assert_eq!(keys(&class["totals"]), totals);
    assert_eq!(keys(&pool["former_classes"]), totals);
    assert_eq!(
        keys(&class["totals"]["cancelled"]),
        ["granted", "queued", "running"]
    );
    assert_eq!(
        keys(&class["totals"]["rejected"]),
        sorted([
            "queue_rejected",
            "queue_full",
            "client_queue_limit",
            "policy_class_queue_limit",
            "queue_timeout",
            "queue_unavailable",
            "no_eligible_worker",
            "profile_switch",
            "hold_timeout",
            "request_body_error",
            "invalid_queue_header",
        ])
    );
    assert_eq!(
        keys(&pool["workers"][0]),
        sorted([
            "id",
            "prefill_tokens",
            "in_flight",
            "busy_for",
            "draining",
            "overloaded",
            "unselected",
            "removed",
            "taints",
        ])
    );
    assert_eq!(keys(&pool["clients"][0]), ["label", "served", "waiting"]);
    let waiter = &pool["waiters"][0];
    assert_eq!(
        keys(waiter),
        sorted([
            "position",
            "class",
            "class_name",
            "worker",
            "client",
            "cost",
            "tier",
            "age_ms",
            "why",
        ])
    );
    assert_eq!(
        waiter["why"],
        serde_json::json!({"word": "slot", "sentence": "it is next; 1 of 1 slots are in use"})
    );
    assert_eq!(waiter["class_name"], "gold");
    assert_eq!(waiter["client"], "default");
}

#[tokio::test(start_paused = true)]
async fn the_largest_numbers_are_shown_and_written() {
    let rest = format!(
        "dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: {}}}]",
        usize::MAX
    );
    let largest = format!("quantum: {}", u64::MAX);
    let yaml = gold_and_bulk(&rest)
        .replace("quantum: 400", &largest)
        .replace(
            "quantum: 100",
            &format!("{largest}, prefill_busy_threshold: {}", u64::MAX - 1),
        );
    let mut hall = Hall::new(&yaml);
    hall.hint("running", asks("gold", u64::MAX));
    hall.hint("gold-1", asks("gold", 1));
    hall.hint("bulk-1", asks("bulk", u64::MAX));
    hall.hint("gold-2", asks("gold", u64::MAX));
    hall.hint("gold-3", asks("gold", u64::MAX));
    hall.hint("bulk-2", asks("bulk", u64::MAX));
    let written = |hall: &Hall| -> Value {
        let text = serde_json::to_string(&look(&hall.handle)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    written(&hall);

    hall.pass(1000).await;
    hall.finish("running");
    let now = pool(&hall);
    assert_eq!(
        class(&now, "gold").deficit,
        i64::MAX,
        "a quantum less one, which is more"
    );
    let queued = class(&now, "gold").queued_tokens;
    assert!(
        queued >= u64::MAX - 1,
        "it saturated before one left: {queued}"
    );
    let json = &written(&hall)["dominions"][0]["classes"][0];
    assert_eq!(json["deficit"], i64::MAX);
    assert_eq!(json["quantum"], u64::MAX);

    for id in ["gold-1", "bulk-1"] {
        hall.finish(id);
    }
    hall.pass(1000).await;
    let now = pool(&hall);
    for name in ["gold", "bulk"] {
        assert_eq!(
            class(&now, name).totals.tokens_served,
            u64::MAX,
            "it saturates"
        );
        assert!((0.0..=1.0).contains(&class(&now, name).share));
        assert!(class(&now, name).promised_share > 0.0);
    }
    let json = written(&hall);
    let pool = &json["dominions"][0];
    for number in ["tokens_per_second", "window_ms", "slots"] {
        assert!(pool[number].is_number(), "{number}: {}", pool[number]);
    }
    for number in ["share", "promised_share", "tokens_per_second"] {
        assert!(pool["classes"][0][number].is_number(), "{number}");
    }
}

#[test]
fn a_layer_without_a_policy_has_a_form_too() {
    let hall = Hall::new("{}");
    let json = serde_json::to_value(look(&hall.handle)).unwrap();
    let [nowhere] = &**json["dominions"].as_array().unwrap() else {
        panic!("the place of those without a dominion");
    };
    assert_eq!(nowhere["id"], Value::Null);
    assert_eq!(nowhere["classes"][0]["name"], "default");
    assert_eq!(nowhere["classes"][0]["promised_share"], 1.0);
}
