//! The corpora, without a fuzzer: on any toolchain, and as often as the other tests.

use std::{fs, path::PathBuf};

use arbitrary::{Arbitrary, Unstructured};

fn replay(target: &str, run: impl Fn(&[u8])) {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(&corpus)
        .expect("the target has a corpus")
        .map(|entry| entry.expect("its entries can be read").path())
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{} has too little", corpus.display());
    for file in files {
        // Shown if it fails.
        println!("{}", file.display());
        run(&fs::read(&file).expect("a file can be read"));
    }
}

/// The input as the fuzzer makes it from the same bytes; nothing where there are too few.
fn case<T: for<'a> Arbitrary<'a>>(bytes: &[u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

#[test]
fn every_policy_of_the_corpus_loads_and_works_or_is_refused_with_a_place() {
    replay("policy", fuzz::policy::run);
}

#[test]
fn every_request_of_the_corpus_is_admitted_or_turned_away_as_documented() {
    replay("headers", |bytes| {
        if let Some(case) = case(bytes) {
            fuzz::headers::run(&case);
        }
    });
}

#[test]
fn every_schedule_of_the_corpus_equals_the_plain_model() {
    replay("schedule", |bytes| {
        if let Some(case) = case(bytes) {
            fuzz::schedule::run(&case);
        }
    });
}
