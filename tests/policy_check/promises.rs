//! What the check says that a policy promises.

use crate::{ONE_SLOT, families, replayed, report, row};

const PROMISES: &str = "What the classes are promised";
const QUEUES: &str = "What can wait";

#[test]
fn every_family_and_bucket_has_its_class_in_the_table() {
    let out = report(
        "matrix",
        "default_policy_family: b
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 100, bucket: long}]
policy_classes:
  - {name: a-long, policy_family: a, cache_bucket: long, quantum: 1}
  - {name: a-short, policy_family: a, cache_bucket: short, quantum: 1}
  - {name: b-short, policy_family: b, cache_bucket: short, quantum: 1}
  - {name: b-long, policy_family: b, cache_bucket: long, quantum: 1}
  - {name: vip, quantum: 1}
models:
  some/model:
    default_policy_family: m
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes: [{name: m-all, policy_family: m, cache_bucket: all, quantum: 1}]
",
        &[],
    );
    let matrix = "
all other models
  family       uncached tokens  bucket  class
  a            0 to 99          short   a-short
               100 or more      long    a-long
  b (default)  0 to 99          short   b-short
               100 or more      long    b-long

  explicit classes, by name: vip

model some/model
  family       uncached tokens  bucket  class
  m (default)  0 or more        all     m-all
";
    assert!(out.contains(matrix), "{out}");
}

#[test]
fn shares_and_bounds_follow_from_the_quanta() {
    let out = report(
        "shares",
        &families(&[400, 100], ONE_SLOT),
        &["--max-cost", "250"],
    );
    // 1 token takes c0 one round: the other is served 100 in it, and had up to 249 left.
    let c0 = row(&out, PROMISES, "c0");
    assert_eq!(c0[1..], ["fcfs", "400", "80.0 %", "1", "349", "250", "349"]);
    // 250 tokens take c1 three rounds, of 400 tokens for the other.
    let c1 = row(&out, PROMISES, "c1");
    assert_eq!(
        c1[1..],
        ["fcfs", "100", "20.0 %", "1", "649", "250", "1449"]
    );
}

#[test]
fn classes_that_never_meet_share_nothing() {
    let policy = "\
models:
  m: &own
    default_policy_family: f
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes:
      - {name: more, policy_family: f, cache_bucket: all, quantum: 300}
      - {name: less, quantum: 100}
  n: *own
dominions: [{id: a, max_concurrency: 1}, {id: b, max_concurrency: 1}]
endpoints: [{id: x, dominion: a, models: [m]}, {id: y, dominion: b, models: [n]}]
";
    let out = report("apart", policy, &["--max-cost", "100"]);
    assert_eq!(row(&out, PROMISES, "more (m)")[3], "75.0 %");
    assert_eq!(row(&out, PROMISES, "less (n)")[3], "25.0 %");
    // Next to the other class of its model alone.
    assert_eq!(row(&out, PROMISES, "less (n)")[5], "399");
}

#[test]
fn what_can_wait_is_bounded_by_queues_and_limits() {
    let rest = "\
dominions:
  - {id: queues, max_concurrency: 1, max_queue: 2048}
  - {id: rejects, max_concurrency: 1, policy: reject}
  - {id: runs}
  - {id: counts, max_concurrency: 1, enforce: false}
default_dominion: queues
read_ahead_bytes: 1024
read_ahead_total_bytes: 1048576
";
    let out = report("memory", &families(&[1, 1], rest), &[]);
    let cells = |name| row(&out, QUEUES, name)[1..].to_vec();
    assert_eq!(cells("queues"), ["0", "1", "2048", "1.0 MiB", "1.0 MiB"]);
    assert_eq!(cells("rejects"), ["0", "1", "0", "0 B", "0 B"]);
    assert_eq!(cells("counts"), ["0", "1", "0", "0 B", "0 B"]);
    assert_eq!(cells("runs"), ["0", "-", "0", "0 B", "0 B"]);
    assert_eq!(cells("all"), ["2048", "1.0 MiB", "1.0 MiB"]);
}

#[test]
fn the_largest_cost_is_said_or_taken_from_the_log_or_reckoned() {
    let policy = "default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 100, bucket: long}]
policy_classes:
  - {name: short, policy_family: f, cache_bucket: short, quantum: 1}
  - {name: long, policy_family: f, cache_bucket: long, quantum: 1}
";
    let log = r#"{"at_ms": 0, "service_ms": 1, "raw_isl_tokens": 900, "cached_tokens": 400}"#;
    let largest = |out: &str| row(out, PROMISES, "long")[6].to_owned();
    assert_eq!(largest(&report("largest", policy, &[])), "200");
    assert_eq!(
        largest(&report("largest", policy, &["--max-cost", "700"])),
        "700"
    );
    assert_eq!(largest(&replayed("largest", policy, log)), "500");
    let guess = report("guess", &families(&[1], ""), &[]);
    assert_eq!(row(&guess, PROMISES, "c0")[6], "8192");
}
