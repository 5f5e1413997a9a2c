//! Requests that the policy does not concern.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/hall.rs"]
mod hall;

use common::desk::{Desk, get, policy};
use common::{NoBody, bell::Polled, feed::FedBody};
use hall::{Hall, hinted, pinned};
use http::{Method, Request};
use tower::{Layer, Service};
use tower_policy_queue::{Admission, PolicyQueueLayer, QueueHints};

const BYPASS: &str = "
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]
headers: {raw_isl_tokens: x-raw, worker: x-worker}
bypass: [/health, /v1/models, OPTIONS, PURGE]
";

fn request(method: &str, path: &str) -> Request<NoBody> {
    Request::builder()
        .method(method)
        .uri(format!("/{path}"))
        .body(NoBody::new())
        .unwrap()
}

/// A hall whose slot is taken and whose queue is full.
fn full() -> Hall {
    let mut hall = Hall::new(BYPASS);
    for id in ["running", "waiting", "refused"] {
        hall.arrive(id);
    }
    assert_eq!(
        hall.states(["running", "waiting", "refused"]),
        ["running", "waiting", "queue_full"]
    );
    hall
}

#[test]
fn paths_and_methods_that_are_named_pass_a_full_queue() {
    for (method, path) in [
        ("GET", "health"),
        ("GET", "health/live"),
        ("POST", "healthz"),
        ("GET", "health?verbose=1"),
        ("GET", "v1/models"),
        ("GET", "v1/models/m"),
        ("GET", "v1/models/gpt..4.%2e"),
        ("GET", "v1/models/some%2Flarge-model"),
        ("GET", "v1/models/.hidden"),
        ("OPTIONS", "v1/chat/completions"),
        ("OPTIONS", "v1/../health"),
        ("PURGE", "v1/cache"),
    ] {
        let mut hall = full();
        let id = path.split('?').next().unwrap();
        hall.send(id, request(method, path));
        assert_eq!(hall.state(id), "running", "{method} {path}");
        assert_eq!(hall.counts(), (1, 1), "it takes no slot and does not wait");
        assert_eq!(
            hall.state("waiting"),
            "waiting",
            "and nobody else gains by it"
        );
    }
}

#[test]
fn others_do_not() {
    for (method, path) in [
        ("GET", "healt"),
        ("GET", "v1/health"),
        ("GET", "Health"),
        ("GET", "v1"),
        ("POST", "v1/model"),
        ("GET", "x?path=/health"),
        ("HEAD", "v1/chat/completions"),
        ("options", "v1/chat/completions"),
        // Another path to whoever resolves it.
        ("GET", "health/../v1/chat/completions"),
        ("GET", "health/%2e%2E/v1/chat/completions"),
        ("GET", "health/.%2e/v1"),
        ("GET", "health/.."),
        ("GET", "health/..%2Fv1"),
        ("GET", "health%2f..%2fv1%2fchat"),
        ("GET", "health/..%5Cv1"),
        ("GET", "health/..;x=1/v1"),
        ("GET", "health/..%3bx/v1"),
        ("GET", "health/%252e%252e/v1"),
        ("GET", "v1/models/./m"),
    ] {
        let mut hall = full();
        let id = path.split('?').next().unwrap();
        hall.send(id, request(method, path));
        assert_eq!(hall.state(id), "queue_full", "{method} {path}");
    }
}

#[test]
fn what_bypasses_is_what_the_policy_in_force_says() {
    let mut hall = full();
    let next = BYPASS.replace("/health", "/status");
    hall.handle.reload(policy(&next)).unwrap();
    hall.send("status", request("GET", "status"));
    hall.send("health", request("GET", "health"));
    assert_eq!(
        hall.states(["status", "health"]),
        ["running", "queue_full"],
        "from the first request on"
    );
}

#[test]
fn a_bypassing_request_has_no_admission_and_needs_none() {
    let layer = PolicyQueueLayer::new(policy(BYPASS));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let inner = {
        let seen = std::sync::Arc::clone(&seen);
        tower::service_fn(move |request: Request<_>| {
            let _: &tower_policy_queue::RequestBody<NoBody> = request.body();
            let admitted = request.extensions().get::<Admission>().is_some();
            seen.lock().unwrap().push(admitted);
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(
                FedBody::full("ok"),
            )))
        })
    };
    let mut service = layer.layer(inner);
    for (path, admitted) in [("health", false), ("other", true)] {
        let mut future = Polled::new(service.call(get(path)));
        let std::task::Poll::Ready(Ok(response)) = future.poll() else {
            panic!("the inner service answers at once");
        };
        let answered = response.extensions().get::<Admission>().is_some();
        assert_eq!(answered, admitted, "{path}: in the response");
        assert_eq!(
            layer.handle().usage().slots_in_use,
            usize::from(admitted),
            "{path}: while its body is unread"
        );
    }
    assert_eq!(*seen.lock().unwrap(), [false, true], "in the request");
}

#[test]
fn nothing_of_a_bypassing_request_is_looked_at() {
    let classifier = |request: &Request<NoBody>| -> QueueHints {
        panic!("{} is none of its business", request.uri());
    };
    let layer = PolicyQueueLayer::new(policy(BYPASS)).classifier(classifier);
    let desk = Desk::default();
    let mut service = layer.layer(desk.clone());
    let mut odd = hinted("health", pinned("no-such-worker"));
    odd.headers_mut().insert("x-raw", "many".parse().unwrap());
    let mut future = Polled::new(service.call(odd));
    assert!(future.poll().is_pending());
    assert!(desk.has("health"), "not even headers that cannot be read");
}

#[test]
fn a_bypassing_request_passes_a_closed_queue() {
    let mut hall = full();
    hall.handle.shutdown();
    hall.arrive("health");
    hall.arrive("late");
    assert_eq!(
        hall.states(["health", "waiting", "late"]),
        ["running", "queue_unavailable", "queue_unavailable"]
    );
}

#[test]
fn a_bypassing_request_frees_nothing_when_it_ends() {
    let mut hall = full();
    hall.arrive("health");
    let (body, _feed) = hall.stream("health");
    assert_eq!(hall.counts(), (1, 1));
    drop(body);
    assert_eq!(hall.state("waiting"), "waiting");
    assert_eq!(hall.counts(), (1, 1));
    hall.finish("running");
    assert_eq!(hall.state("waiting"), "running");
}

#[test]
fn a_bypassing_request_still_waits_for_the_inner_service_to_be_ready() {
    let mut hall = Hall::new(BYPASS);
    hall.scene.desk.shut();
    hall.arrive("health");
    assert_eq!(hall.state("health"), "waiting");
    hall.scene.desk.open();
    assert_eq!(hall.state("health"), "running");
}

#[test]
fn without_a_list_nothing_bypasses() {
    let mut hall = Hall::new("dominions: [{id: pool, kind: remote, max_concurrency: 1}]");
    hall.arrive("running");
    hall.arrive("health");
    hall.send("options", request("OPTIONS", "options"));
    assert_eq!(hall.states(["health", "options"]), ["waiting", "waiting"]);
}

#[test]
fn a_single_slash_bypasses_everything_with_a_path() {
    let yaml = "dominions: [{id: pool, max_concurrency: 1}]\nbypass: [/]";
    let mut hall = Hall::new(yaml);
    for id in ["1", "2", "3"] {
        hall.arrive(id);
        assert_eq!(hall.state(id), "running");
    }
    let mut star = request("OPTIONS", "star");
    *star.uri_mut() = "*".parse().unwrap();
    assert_eq!(star.method(), Method::OPTIONS);
    hall.send("*", star);
    assert_eq!(hall.counts(), (1, 0), "`*` is no path");
}
