//! A policy that is replaced while a request is looked at: its classifier may do so itself.

use std::{
    sync::{Arc, Mutex, mpsc::channel},
    thread,
};

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

#[test]
fn whoever_enters_a_dominion_while_it_goes_is_waited_for() {
    let layer = PolicyQueueLayer::new(policy(
        "
dominions: [{id: going, max_concurrency: 1}, {id: pool, max_concurrency: 1}]
default_dominion: pool
",
    ));
    let handle = layer.handle();
    let desk = Desk::default();
    let mut service = layer.layer(desk.clone());
    let mut first = Polled::new(service.call(get("first")));
    let mut second = Polled::new(service.call(get("second")));
    assert!(first.poll().is_pending() && second.poll().is_pending());

    let (asked, is_asked) = channel();
    let (answer, is_answered) = channel();
    let is_answered = Arc::new(Mutex::new(is_answered));
    let going = layer.dominion("going").unwrap();
    let late = going.classifier(move |_: &http::Request<NoBody>| {
        asked.send(()).unwrap();
        is_answered.lock().unwrap().recv().unwrap();
        QueueHints::default()
    });
    let mut late = late.layer(desk.clone());
    let late = thread::spawn(move || {
        let mut late = Polled::new(late.call(get("late")));
        assert!(late.poll().is_pending());
        late
    });
    is_asked.recv().unwrap();

    // The first reload has put its policy in force and is about to close the dominion that goes. By then
    // another one is over, and the request has entered under the policy that it came under.
    let (entered, is_entered) = channel();
    let other = layer.handle();
    second.bell.on_ring(move || {
        other
            .reload(policy("dominions: [{id: pool, max_concurrency: 3}]"))
            .unwrap();
        answer.send(()).unwrap();
        entered.send(late.join().unwrap()).unwrap();
    });
    handle
        .reload(policy("dominions: [{id: pool, max_concurrency: 2}]"))
        .unwrap();
    let late = is_entered.recv().unwrap();
    assert_eq!(desk.admission("late").dominion(), Some("going"));
    drop((first, second));

    let mut drained = Polled::new(handle.drained());
    assert!(drained.poll().is_pending());
    drop(late);
    assert!(drained.poll().is_ready());
}
