//! Logs that cannot be read.

use crate::{file, run};

#[test]
fn a_bad_line_is_named() {
    let policy = file("log.yaml", "{}");
    let good = r#"{"at_ms": 0, "service_ms": 1}"#;
    for (name, bad, gist) in [
        ("words", "at noon", "expected value (column 1)"),
        ("missing", r#"{"at_ms": 0}"#, "missing field `service_ms`"),
        (
            "unknown",
            r#"{"at_ms": 0, "service_ms": 1, "modle": "m"}"#,
            "unknown field `modle`",
        ),
        (
            "negative",
            r#"{"at_ms": -1, "service_ms": 1}"#,
            "invalid value: integer `-1`, expected u64",
        ),
        (
            "late",
            r#"{"at_ms": 0, "service_ms": 1, "first_byte_ms": 2}"#,
            "`first_byte_ms` is more than `service_ms`",
        ),
        (
            "endless",
            r#"{"at_ms": 0, "service_ms": 18446744073709551615}"#,
            "`service_ms` is more than a year",
        ),
    ] {
        // An empty line counts as a line, and is none otherwise.
        let log = file(
            &format!("bad-{name}.jsonl"),
            &format!("{good}\n\n{bad}\n{good}\n"),
        );
        let done = run(&[&policy, "--requests", &log]);
        assert_eq!(done.code, 1);
        assert!(done.err.starts_with(&format!("{log}:3: ")), "{}", done.err);
        assert!(done.err.contains(gist), "{} should have {gist}", done.err);
    }
}

#[test]
fn a_log_without_requests_or_of_ages_is_refused() {
    let policy = file("ages.yaml", "{}");
    for (name, text, gist) in [
        ("empty", "\n\n", "has no requests"),
        (
            "ages",
            "{\"at_ms\": 0, \"service_ms\": 1}\n{\"at_ms\": 18446744073709551615, \"service_ms\": 1}",
            "spans more than a year",
        ),
    ] {
        let log = file(&format!("{name}.jsonl"), text);
        let done = run(&[&policy, "--requests", &log]);
        assert_eq!(done.code, 1);
        assert!(done.err.contains(gist), "{}", done.err);
    }
    let done = run(&[&policy, "--requests", "no/such/log.jsonl"]);
    assert!(done.err.contains("no/such/log.jsonl: cannot be read"));
}
