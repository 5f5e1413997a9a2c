//! A policy that is replaced while a request is looked at: its classifier may do so itself.

use tower::{Layer, Service};
use tower_policy_queue::{Admission, PolicyQueueLayer, QueueHints};

use crate::{
    common::{
        NoBody,
        bell::Polled,
        desk::{Desk, get, policy},
    },
    hall::with,
};

const BEFORE: &str = "
dominions: [{id: pool, max_concurrency: 1}]
endpoints: [{id: old, dominion: pool}]
headers: {raw_isl_tokens: x-tokens}
";

const AFTER: &str = "
dominions: [{id: pool, max_concurrency: 1}]
endpoints: [{id: new, dominion: pool}]
";

/// What becomes of a request, which says this of itself, while the policy is replaced.
fn admitted(request: http::Request<NoBody>, hints: QueueHints) -> Option<Admission> {
    let layer = PolicyQueueLayer::new(policy(BEFORE));
    let handle = layer.handle();
    let layer = layer.classifier(move |_: &http::Request<NoBody>| {
        handle.reload(policy(AFTER)).unwrap();
        hints.clone()
    });
    let desk = Desk::default();
    let mut call = Polled::new(layer.layer(desk.clone()).call(request));
    let goes = call.poll().is_pending();
    goes.then(|| desk.admission("it"))
}

#[test]
fn a_request_for_a_worker_that_only_the_next_policy_has_goes_to_it() {
    let admission = admitted(get("it"), crate::hall::pinned("new")).expect("it goes");
    assert_eq!(admission.worker(), Some("new"));
    assert!(
        admitted(get("it"), crate::hall::pinned("old")).is_none(),
        "the former one's is no more"
    );
}

#[test]
fn a_header_that_only_the_former_policy_reads_is_no_mistake() {
    let request = with("it", &[("x-tokens", "many")]);
    let admission = admitted(request, QueueHints::default()).expect("it goes");
    assert_eq!(admission.worker(), Some("new"));
}
