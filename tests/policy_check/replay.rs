//! Replays.

use std::fmt::Write;

use crate::{ONE_SLOT, families, replayed, row};

const CLASSES: &str = "What happened, by class";
const DOMINIONS: &str = "What happened, by dominion";

/// Requests that all come at once: of each of `families`, `count` of `tokens`.
fn at_once(families: &[&str], count: usize, tokens: u64) -> String {
    let mut log = String::new();
    for index in 0..count * families.len() {
        let family = families[index % families.len()];
        writeln!(
            log,
            r#"{{"at_ms": 1700000000000, "service_ms": 10, "policy": "{family}", "raw_isl_tokens": {tokens}}}"#
        )
        .unwrap();
    }
    log
}

/// What a class was promised and what it got, in percent.
fn shares(out: &str, class: &str) -> (f64, f64) {
    let row = row(out, CLASSES, class);
    let percent = |cell: &str| cell.trim_end_matches(" %").parse().unwrap();
    (percent(row[4]), percent(row[5]))
}

/// Room for everybody, so that nobody is turned away.
const ROOM: &str = "dominions: [{id: pool, max_concurrency: 1, max_queue: 10000}]\n";

#[test]
fn backlogged_classes_share_tokens_as_their_quanta_promise() {
    let log = at_once(&["f0", "f1"], 1000, 100);
    let out = replayed("four-to-one", &families(&[400, 100], ROOM), &log);
    for (class, expected) in [("c0", 80.0), ("c1", 20.0)] {
        assert_eq!(row(&out, CLASSES, class)[1..4], ["1000", "1000", "0"]);
        let (promised, share) = shares(&out, class);
        assert_eq!(promised, expected);
        // One request more or less of some 1250.
        assert!((share - expected).abs() < 0.15, "{class}: {share} %");
    }
}

#[test]
fn shares_are_of_tokens_not_of_requests() {
    // As many tokens of each, in requests of a tenth of the size.
    let log = at_once(&["f0"], 2000, 10) + &at_once(&["f1"], 200, 100);
    let out = replayed("sizes", &families(&[100, 100], ROOM), &log);
    for class in ["c0", "c1"] {
        let (promised, share) = shares(&out, class);
        assert_eq!(promised, 50.0);
        assert!((share - 50.0).abs() < 0.5, "{class}: {share} %");
    }
}

#[test]
fn waits_and_utilisation_are_those_of_a_line() {
    // One slot, four requests of 100 ms, and nobody else: they wait 0, 100, 200 and 300 ms.
    let line = r#"{"at_ms": 5000, "service_ms": 100, "first_byte_ms": 20}"#;
    let last = r#"{"at_ms": 5600, "service_ms": 200}"#;
    let log = format!("{line}\n{line}\n{line}\n{line}\n{last}\n");
    let out = replayed("line", &families(&[1], ONE_SLOT), &log);
    let c0 = row(&out, CLASSES, "c0");
    assert_eq!(c0[1..4], ["5", "5", "0"]);
    assert_eq!(c0[6..], ["3", "0.100", "0.300", "0.300", "0.300"]);
    // It is taken for 600 of 800 ms.
    let pool = row(&out, DOMINIONS, "pool");
    assert_eq!(pool[1..], ["1", "5", "0.75", "75.0 %"]);
}

#[test]
fn rejections_are_counted_by_code() {
    let rest = "dominions: [{id: pool, max_concurrency: 1, max_queue: 2}]\nmax_queue_wait_ms: 5\n";
    let out = replayed("codes", &families(&[1], rest), &at_once(&["f0"], 5, 1));
    assert_eq!(row(&out, CLASSES, "c0")[1..4], ["5", "1", "4"]);
    assert!(out.contains("c0: 2 × queue_full"), "{out}");
    assert!(out.contains("c0: 2 × queue_timeout"), "{out}");
}

#[test]
fn requests_are_served_where_their_worker_model_or_default_is() {
    let rest = "\
dominions: [{id: a, max_concurrency: 1}, {id: b, max_concurrency: 1}, {id: c, max_concurrency: 1}]
default_dominion: c
endpoints: [{id: x, dominion: a, models: [m]}, {id: y, dominion: b, models: [n]}, {id: z, models: [o]}]
";
    let request = |more: &str| format!("{{\"at_ms\": 0, \"service_ms\": 10{more}}}\n");
    let log = request(r#", "model": "m""#).repeat(2)
        + &request(r#", "model": "m", "worker": "y""#).repeat(3)
        + &request(r#", "model": "unknown""#)
        + &request(r#", "model": "o""#).repeat(4)
        + &request(r#", "worker": "nobody""#);
    let out = replayed("places", &families(&[1], rest), &log);
    for (dominion, served) in [("a", "2"), ("b", "3"), ("c", "1"), ("(none)", "4")] {
        assert_eq!(row(&out, DOMINIONS, dominion)[2], served, "{dominion}");
    }
    assert!(out.contains("c0: 1 × no_eligible_worker"), "{out}");
}

#[test]
fn a_slot_that_is_given_back_early_is_in_use_for_less() {
    let policy =
        |hold: &str| families(&[1], ONE_SLOT).replace("quantum: 1", &format!("quantum: 1, {hold}"));
    let log = r#"{"at_ms": 0, "service_ms": 100, "first_byte_ms": 25}"#;
    for (hold, used) in [
        ("hold_until: body_end", "100.0 %"),
        ("hold_until: first_byte", "25.0 %"),
        ("hold_until: headers", "25.0 %"),
    ] {
        let out = replayed("early", &policy(hold), log);
        assert_eq!(row(&out, DOMINIONS, "pool")[4], used, "{hold}");
    }
    let out = replayed("cut", &policy("max_hold_ms: 50"), log);
    assert!(out.contains("responses cut off at max_hold_ms: 1"), "{out}");
    assert_eq!(row(&out, DOMINIONS, "pool")[4], "100.0 %");
    assert!(out.contains("over the 0.1 s"), "{out}");
}

#[test]
fn a_replay_comes_out_the_same_every_time() {
    let log = at_once(&["f0", "f1", "f2"], 50, 70);
    let policy = families(&[300, 200, 100], ONE_SLOT);
    let first = replayed("same", &policy, &log);
    assert_eq!(first, replayed("same", &policy, &log));
}

#[test]
fn no_request_that_is_next_is_passed_over_for_longer_than_the_bound() {
    // One request of the weak class comes while the strong ones are never out of requests.
    for (quanta, size, weak_size, least) in [
        // Three rounds, two of them whole.
        ([400, 300, 100], 130, 250, 1400),
        // Fifteen rounds.
        ([1000, 1, 7], 90, 100, 14_000),
        ([5, 5, 5], 99, 1, 0),
    ] {
        let weak = format!(
            r#"{{"at_ms": 1700000000000, "service_ms": 10, "policy": "f2", "raw_isl_tokens": {weak_size}}}"#
        );
        let log = at_once(&["f0", "f1"], 400, size) + &weak;
        let out = replayed("bound", &families(&quanta, ROOM), &log);
        let bound: u64 = row(&out, "What the classes are promised", "c2")[7]
            .parse()
            .unwrap();
        let waited: f64 = row(&out, CLASSES, "c2")[9].parse().unwrap();
        // Each request that is served meanwhile takes 10 ms; the first started before it came.
        let passed = ((waited / 0.010).round() as u64 - 1) * size;
        assert!(
            (least..=bound).contains(&passed),
            "{passed} tokens passed it, at least {least} and at most {bound} should"
        );
    }
}
