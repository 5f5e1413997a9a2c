//! `fair_unit`: by what the turns of clients are weighed.

use http::Request;

use crate::common::{
    NoBody,
    desk::{Client, Scene, policy},
};

fn scene(unit: &str) -> Scene {
    Scene::new(policy(&format!(
        "
dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: 1000, {unit}}}]
headers: {{raw_isl_tokens: x-raw}}
"
    )))
}

fn queue(scene: &mut Scene, client: &str, n: usize, tokens: u64) -> Client {
    let id = format!("{client}-{n}");
    let request = Request::builder()
        .uri(format!("/{id}"))
        .header("x-promptforge-client", client)
        .header("x-raw", tokens)
        .body(NoBody::new())
        .unwrap();
    let mut client = scene.call_with(&id, request);
    assert!(client.polled.poll().is_pending());
    client
}

/// Who is served, one after the other, of two clients with prompts of 30 and of 10 tokens.
fn order(unit: &str) -> Vec<&'static str> {
    let mut scene = scene(unit);
    let (blocker, feed) = scene.stream("blocker");
    let mut clients: Vec<_> = (0..6).map(|n| queue(&mut scene, "big", n, 30)).collect();
    clients.extend((0..6).map(|n| queue(&mut scene, "small", n, 10)));
    drop((blocker, feed));
    let mut order = Vec::new();
    while let Some(next) = clients.iter().position(|client| client.polled.rings() > 0) {
        let mut client = clients.remove(next);
        assert!(client.polled.poll().is_pending());
        order.push(if client.id.starts_with("big") {
            "big"
        } else {
            "small"
        });
        drop(client.stream());
    }
    assert_eq!(order.len(), 12, "everybody is served");
    order
}

#[test]
fn clients_take_turns_by_request_unless_told_otherwise() {
    for unit in ["max_queue: 1000", "fair_unit: requests"]
        .map(|unit| unit.replace("max_queue: 1000", "fair_scheduling: true"))
    {
        let order = order(&unit);
        assert_eq!(
            order[..6],
            ["big", "small", "big", "small", "big", "small"],
            "{unit}"
        );
    }
}

#[test]
fn by_tokens_the_client_that_was_served_least_is_next() {
    let order = order("fair_unit: tokens");
    assert_eq!(
        order[..8],
        [
            "big", "small", "small", "small", "big", "small", "small", "small"
        ]
    );
}

#[test]
fn a_client_that_comes_late_is_level_with_the_one_served_least() {
    let mut scene = scene("fair_unit: tokens");
    let (blocker, feed) = scene.stream("blocker");
    let mut early: Vec<_> = (0..4).map(|n| queue(&mut scene, "early", n, 100)).collect();
    drop((blocker, feed));
    for _ in 0..2 {
        let mut next = early.remove(0);
        assert!(next.runs());
        drop(next.stream());
    }
    let mut late: Vec<_> = (0..4).map(|n| queue(&mut scene, "late", n, 100)).collect();
    // One more of the early client runs by now; then they alternate: the late one has no claim to
    // what was served before it came.
    let mut order = Vec::new();
    let mut all: Vec<_> = early.drain(..).chain(late.drain(..)).collect();
    while let Some(next) = all.iter().position(|client| client.polled.rings() > 0) {
        let mut client = all.remove(next);
        assert!(client.polled.poll().is_pending());
        order.push(client.id.clone());
        drop(client.stream());
    }
    assert_eq!(order[..4], ["early-2", "early-3", "late-0", "late-1"]);
}
