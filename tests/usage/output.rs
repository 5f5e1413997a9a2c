//! `output_token_weight`: a class pays for what comes out.

use http::Request;

use crate::common::{
    NoBody,
    desk::{Client, Scene, policy},
};

/// Two classes of equal quanta, of which `long` pays for its output.
fn scene(weight: &str) -> Scene {
    Scene::new(policy(&format!(
        "
default_policy_family: short
uncached_isl_buckets: [{{min_tokens: 0, bucket: all}}]
policy_classes:
  - {{name: short, policy_family: short, cache_bucket: all, quantum: 10}}
  - {{name: long, policy_family: long, cache_bucket: all, quantum: 10{weight}}}
dominions:
  - {{id: pool, kind: remote, max_concurrency: 1, max_queue: 1000}}
headers: {{raw_isl_tokens: x-raw}}
"
    )))
}

fn request(id: &str, family: &str, tokens: u64) -> Request<NoBody> {
    Request::builder()
        .uri(format!("/{id}"))
        .header("x-dynamo-meta-policy-class", family)
        .header("x-raw", tokens)
        .body(NoBody::new())
        .unwrap()
}

fn queue(scene: &mut Scene, id: &str, family: &str) -> Client {
    let mut client = scene.call_with(id, request(id, family, 10));
    assert!(client.polled.poll().is_pending());
    client
}

/// An event of a stream.
const EVENT: &str = "data: {\"choices\": []}\n\n";

/// Serves all in turn, `events` for each of the class `long`, and tells who was served.
fn serve(scene: &mut Scene, clients: &mut Vec<Client>, events: usize) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(next) = clients.iter().position(|client| client.polled.rings() > 0) {
        let mut client = clients.remove(next);
        assert!(client.polled.poll().is_pending(), "it starts");
        assert!(scene.desk.has(&client.id));
        let (mut body, feed) = client.stream();
        let count = if client.id.starts_with("long") {
            events
        } else {
            0
        };
        for _ in 0..count {
            feed.data(EVENT);
        }
        feed.data("data: [DONE]\n\n");
        feed.end();
        while let std::task::Poll::Ready(Some(frame)) = body.poll_frame() {
            frame.unwrap();
        }
        order.push(client.id.clone());
    }
    order
}

fn run(weight: &str, events: usize) -> (usize, usize) {
    let mut scene = scene(weight);
    let (blocker, feed) = scene.stream("blocker");
    let mut clients = Vec::new();
    for n in 0..60 {
        clients.push(queue(&mut scene, &format!("short-{n}"), "short"));
        clients.push(queue(&mut scene, &format!("long-{n}"), "long"));
    }
    drop((blocker, feed));
    let order = serve(&mut scene, &mut clients, events);
    assert_eq!(order.len(), 120, "everybody is served in the end");
    let long = order[..60]
        .iter()
        .filter(|id| id.starts_with("long"))
        .count();
    (60 - long, long)
}

#[test]
fn without_a_weight_output_costs_nothing() {
    assert_eq!(run("", 30), (30, 30));
}

#[test]
fn a_class_pays_for_its_output_and_earns_its_way_out_of_debt_by_quanta() {
    // 10 in and 30 out against 10 in: one to four.
    let (short, long) = run(", output_token_weight: 1", 30);
    assert_eq!((short, long), (48, 12));
    // Half the weight: 10 and 15 against 10.
    let (short, long) = run(", output_token_weight: 0.5", 30);
    assert!(
        (short as f64 / long as f64 - 2.5).abs() < 0.2,
        "{short} to {long}"
    );
}

#[test]
fn the_servers_usage_counts_before_the_events() {
    let mut scene = scene(", output_token_weight: 1");
    let (blocker, feed) = scene.stream("blocker");
    let mut first = queue(&mut scene, "long-1", "long");
    let mut second = queue(&mut scene, "long-2", "long");
    let mut shorts: Vec<_> = (0..6)
        .map(|n| queue(&mut scene, &format!("short-{n}"), "short"))
        .collect();
    drop((blocker, feed));
    // The ring begins with `short`.
    assert!(shorts[0].runs());
    drop(shorts.remove(0).stream());
    assert!(first.runs());
    let (body, feed) = first.stream();
    let mut body = body;
    feed.data("data: {\"x\": 1}\n\ndata: {\"usage\": {\"completion_tokens\": 40}}\n\n");
    assert!(body.poll_frame().is_ready());
    drop(body);
    for _ in 0..5 {
        assert_eq!(
            second.polled.rings(),
            0,
            "the debt and its own cost are five quanta"
        );
        assert!(shorts[0].runs());
        drop(shorts.remove(0).stream());
    }
    assert!(second.runs());
}

#[test]
fn a_request_that_comes_to_nothing_gives_its_class_the_cost_back() {
    for weight in [", output_token_weight: 1", ""] {
        let mut scene = scene(weight);
        let (blocker, feed) = scene.stream("blocker");
        let mut gone = queue(&mut scene, "long-gone", "long");
        let mut long = queue(&mut scene, "long-1", "long");
        let mut short: Vec<_> = (0..3)
            .map(|n| queue(&mut scene, &format!("short-{n}"), "short"))
            .collect();
        drop((blocker, feed));
        assert!(short[0].runs());
        drop(short.remove(0).stream());
        assert!(gone.runs());
        // Its client hangs up before a byte came.
        drop(gone);
        if weight.is_empty() {
            assert!(short[0].runs(), "its turn is spent");
        } else {
            assert!(long.runs(), "its turn is not spent");
        }
    }
}

#[test]
fn an_answer_without_a_byte_that_is_counted_is_not_nothing() {
    // The slot goes back before the first byte.
    for weight in [
        ", output_token_weight: 1, hold_until: headers",
        ", output_token_weight: 1, hold_until: headers, prefill_until: headers",
        ", hold_until: headers",
    ] {
        let mut scene = scene(weight);
        let (blocker, feed) = scene.stream("blocker");
        let queue = |scene: &mut Scene, family: &str| -> Vec<Client> {
            (0..6)
                .map(|n| queue(scene, &format!("{family}-{n}"), family))
                .collect()
        };
        let mut clients = queue(&mut scene, "long");
        clients.extend(queue(&mut scene, "short"));
        drop((blocker, feed));
        let order = serve(&mut scene, &mut clients, 1);
        let long = order[..6].iter().filter(|id| id.starts_with("long"));
        assert_eq!(long.count(), 3, "{weight}: half of them: {order:?}");
    }
}

#[test]
fn who_did_not_wait_is_charged_nothing() {
    let mut scene = scene(", output_token_weight: 1");
    let mut first = scene.call_with("long-first", request("long-first", "long", 10));
    assert!(first.polled.poll().is_pending());
    let (mut body, feed) = first.stream();
    let mut short = queue(&mut scene, "short-1", "short");
    let mut long = queue(&mut scene, "long-1", "long");
    for _ in 0..100 {
        feed.data(EVENT);
    }
    while body.poll_frame().is_ready() {}
    drop(body);
    assert!(short.runs());
    drop(short.stream());
    assert!(long.runs());
}
