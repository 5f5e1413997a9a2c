//! Policy files made of one mebibyte of the same: refused, with an error that an operator can read.
//! The other files that are made to hurt are in `tests/config/hostile.rs`.

use tower_policy_queue::{ConfigError, PolicyConfig};

/// The longest error, in bytes.
const READABLE: usize = 2000;

/// As long as may be, with room for what is around it.
fn most(character: &str) -> String {
    character.repeat(PolicyConfig::MAX_BYTES - 200)
}

fn refuse(yaml: &str) -> ConfigError {
    assert!(yaml.len() <= PolicyConfig::MAX_BYTES, "it is read at all");
    match yaml.parse::<PolicyConfig>() {
        Ok(_) => panic!("this should be refused: {yaml:.80}"),
        Err(error) => error,
    }
}

fn assert_readable(yaml: &str, gist: &str) {
    let error = refuse(yaml).to_string();
    assert!(error.contains(gist), "{gist}: {error:.200}");
    assert!(error.len() < READABLE, "{gist}: {} bytes", error.len());
}

#[test]
fn a_scalar_of_a_mebibyte_is_refused_wherever_it_stands() {
    let most_digits = most("9");
    let most = most("x");
    for (yaml, gist) in [
        (format!("'{most}'"), "invalid type"),
        (format!("max_queue_wait_ms: {most}"), "max_queue_wait_ms"),
        (format!("dominions: [{{id: '{most} '}}]"), "dominions[0].id"),
        (
            format!("dominions: [{{id: a, max_concurrency: {most_digits}}}]"),
            "dominions[0].max_concurrency",
        ),
        (format!("default_dominion: {most}"), "default_dominion"),
        (format!("headers: {{policy: '{most} '}}"), "headers.policy"),
    ] {
        assert_readable(&yaml, gist);
    }
}

#[test]
fn a_key_of_a_mebibyte_is_refused_wherever_it_stands() {
    let most = most("x");
    for (yaml, gist) in [
        (format!("? {most}\n: 1"), "unknown field"),
        (
            format!("dominions: [{{id: a, ? {most} : 1}}]"),
            "dominions[0]",
        ),
        (format!("models: {{? {most} : {{}}}}"), "models"),
    ] {
        assert_readable(&yaml, gist);
    }
}
