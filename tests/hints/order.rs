//! What does not show in an admission shows in the order in which the queue is served.

use crate::common::NoBody;
use http::Request;
use tower_policy_queue::QueueHints;

use crate::{asked, trusting};

/// The order in which requests that wait behind another are served.
fn order(requests: Vec<Request<NoBody>>) -> Vec<usize> {
    let mut scene = trusting();
    let mut running = Some(scene.stream("running"));
    let mut waiting: Vec<_> = requests
        .into_iter()
        .enumerate()
        .map(|(number, request)| (number, scene.call_with("asked", request)))
        .collect();
    for (_, client) in &mut waiting {
        assert!(client.polled.poll().is_pending());
    }
    let mut order = Vec::new();
    while !waiting.is_empty() {
        running.take();
        let woken = waiting
            .iter()
            .position(|(_, client)| client.polled.rings() > 0);
        let (number, client) = waiting.remove(woken.expect("a freed slot wakes somebody"));
        order.push(number);
        drop(client);
    }
    order
}

fn hinted(headers: &[(&'static str, &str)], hints: QueueHints) -> Request<NoBody> {
    let mut request = asked(headers);
    request.extensions_mut().insert(hints);
    request
}

#[test]
fn the_tier_and_the_jump_order_the_queue_from_whatever_source() {
    let tier = |tier| QueueHints {
        strict_priority: Some(tier),
        ..QueueHints::default()
    };
    let requests = vec![
        asked(&[]),
        asked(&[("x-tier", "5")]),
        hinted(&[("x-tier", "9")], tier(1)),
        hinted(&[], tier(7)),
    ];
    assert_eq!(order(requests), [3, 1, 2, 0]);

    let jump = |jump| QueueHints {
        priority_jump: Some(jump),
        ..QueueHints::default()
    };
    let requests = vec![
        asked(&[]),
        asked(&[("x-jump", "500")]),
        hinted(&[("x-jump", "900")], jump(100.0)),
        hinted(&[], jump(700.0)),
        hinted(&[("x-jump", "900")], jump(-1.0)),
    ];
    assert_eq!(order(requests), [3, 1, 2, 0, 4]);
}

#[test]
fn the_client_label_takes_turns_from_whatever_source() {
    let label = |label: &str| QueueHints {
        client: Some(label.to_owned()),
        ..QueueHints::default()
    };
    let requests = vec![
        asked(&[("x-client", "a")]),
        hinted(&[("x-client", "b")], label("a")),
        hinted(&[], label("a")),
        asked(&[("x-client", "b")]),
    ];
    assert_eq!(order(requests), [0, 3, 1, 2], "three of a, then one of b");
}
