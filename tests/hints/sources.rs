//! Headers, extensions and the classifier: which wins.

use crate::common::NoBody;
use http::Request;
use tower::{Layer, Service};
use tower_policy_queue::QueueHints;

use crate::{
    asked, believed,
    common::{self, desk::get},
    describe, trusting,
};

/// A field that shows in the admission: as a header, and how to set it in the hints; then what is
/// believed of the first, second and third of its values.
type Field = (
    &'static str,
    [&'static str; 3],
    fn(&mut QueueHints, &str),
    [&'static str; 3],
);

const FIELDS: &[Field] = &[
    (
        "x-policy",
        ["pro", "batch", "std"],
        |hints, value| hints.policy = Some(value.to_owned()),
        ["pro-small root w1", "batch root w1", "std-small root w1"],
    ),
    (
        "x-raw",
        ["100", "99", "1000"],
        |hints, value| hints.raw_isl_tokens = value.parse().ok(),
        [
            "std-large root w1",
            "std-small root w1",
            "std-large root w1",
        ],
    ),
    (
        "x-model",
        ["m1", "m2", "x"],
        |hints, value| hints.model = Some(value.to_owned()),
        ["one m1 w1", "two m2 w1", "std-small root w1"],
    ),
    (
        "x-worker",
        ["w1", "w2", "w3"],
        |hints, value| hints.worker = Some(value.to_owned()),
        [
            "std-small root w1",
            "std-small root w2",
            "std-small root w3",
        ],
    ),
    (
        "x-allowed",
        ["w2", "w3", "w1"],
        |hints, value| hints.allowed_workers = Some(vec![value.to_owned()]),
        [
            "std-small root w2",
            "std-small root w3",
            "std-small root w1",
        ],
    ),
];

#[test]
fn extensions_beat_headers_and_the_classifier_beats_both() {
    for &(header, values, set, expected) in FIELDS {
        let hint = |value: &str| {
            let mut hints = QueueHints::default();
            set(&mut hints, value);
            hints
        };
        let sent = || asked(&[(header, values[0])]);
        let told = || {
            let mut request = sent();
            request.extensions_mut().insert(hint(values[1]));
            request
        };
        assert_eq!(believed(&mut trusting(), sent()), expected[0], "{header}");
        assert_eq!(
            believed(&mut trusting(), told()),
            expected[1],
            "{header}: extensions win"
        );

        let scene = trusting();
        let said = hint(values[2]);
        let layer = scene
            .layer
            .clone()
            .classifier(move |_: &Request<NoBody>| said.clone());
        let mut answer = common::bell::Polled::new(layer.layer(scene.desk.clone()).call(told()));
        assert!(answer.poll().is_pending());
        let admission = scene.desk.admission("asked");
        assert_eq!(
            describe(&admission),
            expected[2],
            "{header}: the classifier wins"
        );
    }
}

#[test]
fn fields_that_a_later_source_leaves_open_are_taken_from_the_earlier_one() {
    let mut scene = trusting();
    let mut request = asked(&[("x-policy", "pro"), ("x-raw", "50"), ("x-worker", "w2")]);
    request.extensions_mut().insert(QueueHints {
        raw_isl_tokens: Some(500),
        ..QueueHints::default()
    });
    assert_eq!(believed(&mut scene, request), "pro-large root w2");
}

#[test]
fn a_header_that_nobody_asks_cannot_be_wrong() {
    let mut scene = trusting();
    let mut request = asked(&[
        ("x-raw", "NaN"),
        ("x-cached", "-1"),
        ("x-tier", "-1"),
        ("x-jump", "NaN"),
    ]);
    request.extensions_mut().insert(QueueHints {
        raw_isl_tokens: Some(1),
        cached_tokens: Some(0),
        strict_priority: Some(0),
        priority_jump: Some(f64::NAN),
        ..QueueHints::default()
    });
    assert_eq!(believed(&mut scene, request), "std-small root w1");
}

#[test]
fn the_classifier_sees_the_whole_request() {
    let scene = trusting();
    let by_path = |request: &Request<NoBody>| QueueHints {
        policy: request
            .uri()
            .path()
            .starts_with("/batch")
            .then(|| "batch".to_owned()),
        ..QueueHints::default()
    };
    let mut service = scene
        .layer
        .clone()
        .classifier(by_path)
        .layer(scene.desk.clone());
    let mut batch = common::bell::Polled::new(service.call(get("batch-1")));
    assert!(batch.poll().is_pending());
    assert_eq!(scene.desk.admission("batch-1").class(), "batch");
    drop(batch);
    let mut other = common::bell::Polled::new(service.call(get("other")));
    assert!(other.poll().is_pending());
    assert_eq!(scene.desk.admission("other").class(), "std-small");
}
