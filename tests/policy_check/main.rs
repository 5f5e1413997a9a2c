//! The example `policy_check`: what it says of a policy, and of a log.

#![allow(clippy::unwrap_used)]

#[path = "../../examples/policy_check/check/mod.rs"]
mod check;

mod log;
mod promises;
mod replay;
mod sample;
mod warnings;

use std::{fs, path::PathBuf};

use check::Done;

/// A file of a test, in a directory that is the test binary's own.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(args: &[&str]) -> Done {
    check::run(args.iter().map(|&arg| arg.to_owned()))
}

/// What is said of a policy that has no mistakes.
#[track_caller]
fn report(name: &str, policy: &str, more: &[&str]) -> String {
    let policy = file(&format!("{name}.yaml"), policy);
    let done = run(&[&[&*policy], more].concat());
    assert_eq!((done.code, &*done.err), (0, ""), "{}", done.out);
    done.out
}

/// What is said of a replay.
#[track_caller]
fn replayed(name: &str, policy: &str, log: &str) -> String {
    let log = file(&format!("{name}.jsonl"), log);
    report(name, policy, &["--requests", &log])
}

/// The cells of the row that begins with `first`, below the heading.
#[track_caller]
fn row<'a>(out: &'a str, heading: &str, first: &str) -> Vec<&'a str> {
    let section = out.split(&format!("== {heading} ==")).nth(1);
    let section = section.unwrap_or_else(|| panic!("no {heading} in\n{out}"));
    let mut rows = section.lines().map(|line| {
        let cells = line.split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    });
    let row = rows.find(|row| row.first() == Some(&first));
    row.unwrap_or_else(|| panic!("no {first} in {section}"))
}

/// One family for each of these quanta, `f0` with the class `c0` and so on, and whatever else.
fn families(quanta: &[u64], rest: &str) -> String {
    let mut yaml = "default_policy_family: f0\n\
                    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes:\n"
        .to_owned();
    for (index, quantum) in quanta.iter().enumerate() {
        yaml += &format!(
            "  - {{name: c{index}, policy_family: f{index}, cache_bucket: all, quantum: {quantum}}}\n"
        );
    }
    yaml + rest
}

const ONE_SLOT: &str = "dominions: [{id: pool, max_concurrency: 1, max_queue: 1000}]\n";

#[test]
fn a_bad_policy_is_refused_with_every_mistake_and_its_place() {
    let path = file(
        "bad.yaml",
        "dominions:\n  - {id: a, max_concurrency: 0}\n  - {id: b, kind: gpu}\ndefault_dominion: c\n",
    );
    let done = run(&[&path]);
    assert_eq!(done.code, 1);
    assert_eq!(done.out, "");
    let lines: Vec<_> = done.err.lines().collect();
    assert_eq!(lines.len(), 3, "{}", done.err);
    for (line, what) in lines.iter().zip([
        "dominions[0].max_concurrency: is 0; must be a whole number of at least 1 (line 2,",
        "dominions[1].kind: is \"gpu\"; must be \"remote\" or \"local\" (line 3,",
        "default_dominion: there is no dominion \"c\"; the policy defines \"a\" and \"b\" (line 4,",
    ]) {
        assert!(line.contains(what), "{line} should have {what}");
        assert!(line.starts_with(&path));
    }
}

#[test]
fn a_policy_that_is_not_there_is_a_failure() {
    let done = run(&["no/such/policy.yaml"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("no/such/policy.yaml: cannot be read"));
}

#[test]
fn a_command_that_cannot_be_meant_is_another_failure() {
    for args in [
        &[][..],
        &["--requests"],
        &["a.yaml", "b.yaml"],
        &["a.yaml", "--max-cost", "0"],
        &["a.yaml", "--max-cost", "many"],
        &["a.yaml", "--max-cots", "1"],
    ] {
        let done = run(args);
        assert_eq!(done.code, 2, "{args:?}");
        assert!(!done.err.is_empty() && done.out.is_empty(), "{args:?}");
    }
    let done = run(&["--help"]);
    assert_eq!(done.code, 0);
    assert!(done.out.starts_with("usage: "));
}
