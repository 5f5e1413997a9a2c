//! The sample beside the example.

use std::fmt::Write;

use crate::{row, run};

const POLICY: &str = "examples/policy_check/sample.yaml";
const LOG: &str = "examples/policy_check/sample.jsonl";
const RENEW: &str = "UPDATE=1 cargo test --test policy_check";

/// A minute of more than four slots can serve, and some of it badly behaved.
fn log() -> String {
    let mut seed = 1u64;
    let mut below = |limit: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    let (mut at, mut log) = (0, String::new());
    for _ in 0..190 {
        at += 50 + below(500);
        let (policy, model) = match below(10) {
            0..=3 => ("premium", "large"),
            4..=7 => ("regular", "large"),
            8 => ("batch", "large"),
            _ => ("regular", "small"),
        };
        let raw = if below(3) == 0 {
            2048 + below(6000)
        } else {
            100 + below(1900)
        };
        let cached = below(4) / 3 * raw / 2;
        let first_byte = (raw - cached) / 10;
        let service = first_byte + 400 + below(2400);
        let client = ["ann", "bob", "eve"][below(3) as usize];
        writeln!(
            log,
            r#"{{"at_ms": {at}, "policy": "{policy}", "model": "{model}", "client": "{client}", "raw_isl_tokens": {raw}, "cached_tokens": {cached}, "first_byte_ms": {first_byte}, "service_ms": {service}}}"#
        )
        .unwrap();
    }
    log
}

#[test]
fn the_sample_log_is_the_one_that_is_made_here() {
    let made = log();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(LOG, &made).unwrap();
    }
    let there = std::fs::read_to_string(LOG).unwrap_or_default();
    assert!(
        there == made,
        "{LOG} is out of date; renew it with\n\n    {RENEW}\n"
    );
}

#[test]
fn the_sample_shows_shares_rejections_and_a_warning() {
    let done = run(&[POLICY, "--requests", LOG]);
    assert_eq!((done.code, &*done.err), (0, ""));
    let out = done.out;
    assert!(
        out.contains("policy_classes[3].prefill_busy_threshold: is 1024 tokens"),
        "{out}"
    );
    for code in [
        "queue_rejected",
        "policy_class_queue_limit",
        "queue_timeout",
    ] {
        assert!(out.contains(code), "no {code} in\n{out}");
    }
    let percent = |class, column: usize| {
        let row = row(&out, "What happened, by class", class);
        row[column].trim_end_matches(" %").parse::<f64>().unwrap()
    };
    for class in ["premium-short", "premium-long", "regular-short"] {
        let (promised, share) = (percent(class, 4), percent(class, 5));
        assert!(
            (promised - share).abs() < 10.0,
            "{class}: {share} % of {promised} %\n{out}"
        );
    }
}
