//! Client labels, minted by the thousand: what they leave to the others.

use http::Request;
use tower_policy_queue::{PolicyQueueLayer, QueueHints};

use crate::{
    common::{
        NoBody,
        desk::{get, policy},
    },
    crowd::Crowd,
    hall::with,
};

const POOL: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 10000}]";

/// Labels that a dominion tells apart, the shared one included.
const LABELS: usize = 33;

const MINTED: usize = 3000;

/// A request under the label that its caller chose.
fn labelled(id: &str, label: &str) -> Request<NoBody> {
    with(id, &[("x-promptforge-client", label)])
}

/// The next request of a caller that never uses a label twice.
fn minted(number: usize) -> Request<NoBody> {
    labelled(&format!("flood-{number}"), &format!("minted-{number}"))
}

/// Who is behind a request, as an authenticating layer knows.
fn key(request: &Request<NoBody>) -> Option<String> {
    let path = request.uri().path().trim_start_matches('/');
    path.split('-').next().map(str::to_owned)
}

/// The turns, counted from 1, at which somebody is served.
fn turns(order: &[String], who: &str) -> Vec<usize> {
    let turns = order.iter().zip(1..);
    let own = turns.filter(|(id, _)| id.starts_with(who));
    own.map(|(_, turn)| turn).collect()
}

#[test]
fn minted_labels_leave_a_client_that_waits_one_turn_in_thirty_three() {
    let mut crowd = Crowd::new(POOL);
    crowd.occupy(get("running"));
    for n in 0..20 {
        crowd.park(labelled(&format!("honest-{n}"), "honest"));
    }
    (0..MINTED).for_each(|number| crowd.park(minted(number)));

    let mut order = Vec::new();
    for number in MINTED..MINTED + 20 * LABELS {
        order.push(crowd.serve_next());
        // Whoever was served comes again at once, under yet another label, so that the flood always
        // has all the labels that there are.
        crowd.park(minted(number));
    }
    let honest = turns(&order, "honest");
    assert_eq!(honest.len(), 20, "one turn in {LABELS}");
    let waits = std::iter::once(&0).chain(&honest).zip(&honest);
    for (before, turn) in waits {
        assert!(turn - before <= LABELS, "{honest:?}");
    }
}

#[test]
fn a_client_that_comes_when_all_labels_are_taken_has_a_share_in_the_turns_of_the_shared_one() {
    let mut crowd = Crowd::new(POOL);
    crowd.occupy(get("running"));
    let ahead = 10;
    for number in 0..LABELS - 1 {
        // So much under each label that none is forgotten.
        for _ in 0..ahead * 2 {
            crowd.park(labelled("flood", &format!("minted-{number}")));
        }
    }
    (0..ahead).for_each(|number| crowd.park(minted(1000 + number)));
    crowd.park(labelled("honest", "honest"));
    let order = crowd.serve_all();
    let turn = turns(&order, "honest")[0];
    assert!(
        turn <= LABELS * (ahead + 1),
        "one of the shared label is served in each {LABELS} turns: {turn}"
    );
    assert!(turn > LABELS * ahead, "it has no turn of its own: {turn}");
}

#[test]
fn a_label_from_an_authenticated_key_keeps_exactly_its_half() {
    let told = |mut request: Request<NoBody>| {
        let hints = QueueHints {
            client: key(&request),
            ..QueueHints::default()
        };
        request.extensions_mut().insert(hints);
        request
    };
    let by_extensions = Crowd::new(POOL);
    halves(by_extensions, told);

    let classifier = |request: &Request<NoBody>| QueueHints {
        client: key(request),
        ..QueueHints::default()
    };
    let layer = PolicyQueueLayer::new(policy(POOL)).classifier(classifier);
    halves(Crowd::behind(layer), |request| request);
}

/// Whichever of the two came first.
fn halves<C: tower_policy_queue::Classify<NoBody> + Clone>(
    mut crowd: Crowd<C>,
    authenticated: impl Fn(Request<NoBody>) -> Request<NoBody>,
) {
    crowd.occupy(get("running"));
    for number in 0..MINTED {
        crowd.park(authenticated(minted(number)));
    }
    for n in 0..100 {
        crowd.park(authenticated(labelled(&format!("honest-{n}"), "honest")));
    }
    let order: Vec<_> = (0..200).map(|_| crowd.serve_next()).collect();
    let every_other: Vec<usize> = (2..=200).step_by(2).collect();
    assert_eq!(turns(&order, "honest"), every_other);
}
