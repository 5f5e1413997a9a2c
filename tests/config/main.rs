//! The policy file, through the public API: what loads, what is refused, and in what words.

#![allow(clippy::unwrap_used)]

mod accepted;
mod difference;
mod errors;
mod hostile;
mod refused;
mod usage;
mod view;
mod waiting;
mod ways_in;

use tower_policy_queue::{ConfigError, PolicyConfig};

/// Loads a policy that has to be right.
#[track_caller]
fn load(yaml: &str) -> PolicyConfig {
    match yaml.parse() {
        Ok(config) => config,
        Err(error) => panic!("this should load:\n{yaml}\nbut:\n{error}"),
    }
}

/// The error of a policy that has to be wrong.
#[track_caller]
fn refuse(yaml: &str) -> ConfigError {
    match yaml.parse::<PolicyConfig>() {
        Ok(_) => panic!("this should be refused:\n{yaml}"),
        Err(error) => error,
    }
}

/// Checks that a policy has exactly these mistakes: the path of each, and what its message holds.
#[track_caller]
fn assert_mistakes(yaml: &str, expected: &[(&str, &str)]) {
    let error = refuse(yaml);
    let matches = error.mistakes().len() == expected.len()
        && error
            .mistakes()
            .iter()
            .zip(expected)
            .all(|(mistake, (path, gist))| {
                mistake.path() == *path && mistake.message().contains(gist)
            });
    assert!(
        matches,
        "{yaml}\nshould have the mistakes\n{expected:#?}\nbut has\n{error}"
    );
}

/// A policy with one family `f` and one bucket `all`, and these fields for its class.
fn with_class(fields: &str) -> String {
    format!(
        "default_policy_family: f\n\
         uncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]\n\
         policy_classes:\n  - {{name: a, policy_family: f, cache_bucket: all, {fields}}}\n"
    )
}
