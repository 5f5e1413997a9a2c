//! Classes, dominions and workers that come and go with a reload.

use std::collections::BTreeMap;

use crate::{
    agree,
    common::desk::policy,
    hall,
    hall::{Hall, with},
    ledger::Ledger,
};

fn yaml(classes: &[&str], workers: &[&str], slots: usize) -> String {
    let class = |name: &&str| {
        format!("  - {{name: {name}, policy_family: {name}, cache_bucket: any, quantum: 100}}\n")
    };
    let worker = |id: &&str| format!("{{id: {id}, dominion: pool}}");
    format!(
        "
default_policy_family: {}
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
{}
dominions: [{{id: pool, kind: remote, max_concurrency: {slots}}}]
endpoints: [{}]
",
        classes[0],
        classes.iter().map(class).collect::<String>(),
        workers.iter().map(worker).collect::<Vec<_>>().join(", "),
    )
}

fn load(hall: &mut Hall, ledger: &Ledger, yaml: &str) {
    ledger.during(|| hall.handle.reload(policy(yaml)).unwrap());
    hall.settle();
}

const FAMILY: &str = "x-dynamo-meta-policy-class";

#[tokio::test(start_paused = true)]
async fn counts_go_on_under_the_same_names_and_gauges_of_what_is_gone_go_to_nothing() {
    let (mut hall, ledger) = hall(&yaml(&["a", "b"], &["w0", "w1"], 1));
    hall.send("1", with("1", &[(FAMILY, "b")]));
    hall.finish("1");
    hall.send("2", with("2", &[(FAMILY, "b")]));
    hall.send("3", with("3", &[(FAMILY, "a")]));
    load(&mut hall, &ledger, &yaml(&["c", "b"], &["w1", "w2"], 2));
    agree_on_what_is_there(&ledger, &hall);
    let b = "dominion=\"pool\",profile=\"\",class=\"b\"";
    let completed = format!("policy_queue_completed_total{{{b}}}");
    assert_eq!(ledger.number(&completed), 1.0, "as before");
    let a = "dominion=\"pool\",profile=\"\",class=\"a\"";
    for gauge in [
        "waiting_requests",
        "waiting_tokens",
        "deficit_tokens",
        "quantum_tokens",
    ] {
        let series = format!("policy_queue_{gauge}{{{a}}}");
        assert_eq!(ledger.number(&series), 0.0, "{series}");
    }
    hall.finish("2");
    hall.finish("3");
    assert_eq!(ledger.number(&completed), 2.0, "and on");
    let c = "policy_queue_completed_total{dominion=\"pool\",profile=\"\",class=\"c\"}";
    assert_eq!(ledger.number(c), 1.0, "its class is the one that took it");
    agree_on_what_is_there(&ledger, &hall);
}

#[test]
fn tokens_that_nobody_can_have_do_not_unsettle_a_reload() {
    let policy = |classes| {
        let headers = "headers: {raw_isl_tokens: x-raw}";
        format!("{}{headers}", yaml(classes, &["w0"], 2))
    };
    let (mut hall, ledger) = hall(&policy(&["a", "b", "c"]));
    for family in ["b", "c"] {
        let huge = ("x-raw", "18446744073709551615");
        hall.send(family, with(family, &[(FAMILY, family), huge]));
        hall.finish(family);
    }
    load(&mut hall, &ledger, &policy(&["a"]));
    let removed = "dominion=\"pool\",profile=\"\",class=\"(removed)\"";
    let series = format!("policy_queue_served_tokens_total{{{removed}}}");
    assert_eq!(ledger.number(&series), 0.0, "nobody was served since");
    assert_eq!(
        hall.handle.snapshot().dominions[0]
            .former_classes
            .tokens_served,
        u64::MAX
    );
}

#[test]
fn who_runs_in_a_class_that_goes_is_counted_among_the_removed_ones() {
    let (mut hall, ledger) = hall(&yaml(&["a", "b"], &["w0"], 2));
    hall.send("0", with("0", &[(FAMILY, "b")]));
    hall.finish("0");
    hall.send("1", with("1", &[(FAMILY, "b")]));
    load(&mut hall, &ledger, &yaml(&["a"], &["w0"], 2));
    hall.finish("1");
    let removed = "dominion=\"pool\",profile=\"\",class=\"(removed)\"";
    let series = format!("policy_queue_completed_total{{{removed}}}");
    assert_eq!(
        ledger.number(&series),
        1.0,
        "and not what was counted before"
    );
    let holds = format!("policy_queue_hold_seconds{{{removed}}}");
    assert_eq!(ledger.samples(&holds).len(), 1);
    let b = "policy_queue_completed_total{dominion=\"pool\",profile=\"\",class=\"b\"}";
    assert_eq!(ledger.number(b), 1.0);

    // It comes back, and its counter goes on from where it was.
    load(&mut hall, &ledger, &yaml(&["a", "b"], &["w0"], 2));
    hall.send("2", with("2", &[(FAMILY, "b")]));
    hall.finish("2");
    assert_eq!(ledger.number(b), 2.0);
    assert_eq!(ledger.number(&series), 1.0);
}

#[test]
fn a_dominion_that_goes_takes_its_gauges_along() {
    let (mut hall, ledger) = hall(&yaml(&["a"], &["w0"], 3));
    hall.arrive("1");
    let other = yaml(&["a"], &["w0"], 3).replace("pool", "other");
    load(&mut hall, &ledger, &other);
    let slots = ["policy_queue_slots", "policy_queue_slots_in_use"];
    let [all, in_use] = slots.map(|name| format!("{name}{{dominion=\"pool\"}}"));
    assert_eq!(ledger.number(&in_use), 1.0, "it still runs");
    assert_eq!(ledger.number("policy_queue_slots{dominion=\"other\"}"), 3.0);
    assert_eq!(ledger.number(&all), 0.0, "of no use to anybody else");
    hall.finish("1");
    assert_eq!((ledger.number(&all), ledger.number(&in_use)), (0.0, 0.0));
}

/// But for what is gone, and for the request that waited there: it has come to two classes, as no
/// counter takes back that it came to the first.
#[track_caller]
fn agree_on_what_is_there(ledger: &Ledger, hall: &Hall) {
    let expected = crate::expected(&hall.handle);
    for (series, value) in crate::told(ledger) {
        if series.contains("(removed)") {
            assert_eq!(value, 0.0, "{series}: nobody ran there");
        } else if !series.contains("class=\"a\"") && !series.contains("worker=\"w0\"") {
            assert_eq!(expected.get(&series), Some(&value), "{series}");
        }
    }
}

#[test]
fn a_reload_that_changes_nothing_tells_nothing() {
    let text = yaml(&["a", "b"], &["w0", "w1"], 1);
    let (mut hall, ledger) = hall(&text);
    hall.arrive("1");
    hall.arrive("2");
    let before = ledger.values();
    load(&mut hall, &ledger, &text);
    assert_eq!(ledger.since(&before), BTreeMap::new());
    agree(&ledger, &hall.handle);
}
