//! `server_timing: true`: responses say how long their requests waited.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/hall.rs"]
mod hall;

use http::{HeaderValue, Response};
use tower::{Layer, Service};
use tower_policy_queue::{PolicyQueueLayer, Rejection};

use crate::{
    common::{NoBody, desk::policy, feed::FedBody},
    hall::{Hall, ONE_SLOT, chat, with},
};

fn on(rest: &str) -> String {
    chat("", &format!("{ONE_SLOT}\nserver_timing: true\n{rest}"))
}

fn timings<B>(response: &Response<B>) -> Vec<&str> {
    let all = response.headers().get_all("server-timing");
    all.iter().map(|value| value.to_str().unwrap()).collect()
}

/// Has the inner service answer, and looks at what came of it.
fn answered(hall: &mut Hall, id: &str) -> Vec<String> {
    hall.scene.desk.answer(id, FedBody::empty());
    let response = hall.response(id);
    timings(&response).into_iter().map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_response_says_how_long_its_request_waited_in_milliseconds() {
    let mut hall = Hall::new(&on(""));
    hall.arrive("first");
    hall.arrive("second");
    tokio::time::advance(std::time::Duration::from_micros(1_234_567)).await;
    assert_eq!(answered(&mut hall, "first"), ["queue;dur=0.000"]);
    assert_eq!(hall.state("second"), "running");
    assert_eq!(answered(&mut hall, "second"), ["queue;dur=1234.567"]);
}

#[test]
fn it_is_off_unless_the_policy_says_so() {
    let mut hall = Hall::new(&chat("", ONE_SLOT));
    hall.arrive("a");
    assert_eq!(answered(&mut hall, "a"), [""; 0]);
    let mut hall = Hall::new(&chat("", &format!("{ONE_SLOT}\nserver_timing: false")));
    hall.arrive("a");
    assert_eq!(answered(&mut hall, "a"), [""; 0]);
}

#[test]
fn the_inner_services_own_timings_are_kept() {
    let inner = tower::service_fn(|_| async {
        let mut response = Response::new(FedBody::empty());
        let own = HeaderValue::from_static("db;dur=53, app;dur=47.2");
        response.headers_mut().append("server-timing", own);
        Ok::<_, std::convert::Infallible>(response)
    });
    let mut service = PolicyQueueLayer::new(policy(&on(""))).layer(inner);
    let response = futures::executor::block_on(service.call(http::Request::new(NoBody::new())));
    assert_eq!(
        timings(&response.unwrap()),
        ["db;dur=53, app;dur=47.2", "queue;dur=0.000"]
    );
}

#[test]
fn a_request_that_was_not_admitted_has_no_time_to_tell() {
    let mut hall = Hall::new(&on("bypass: [/health]"));
    hall.handle.set_max_queue("pool", 1).unwrap();
    hall.arrive("runs");
    hall.arrive("waits");
    hall.arrive("refused");
    let refused = hall.response("refused");
    assert!(refused.extensions().get::<Rejection>().is_some());
    assert_eq!(timings(&refused), [""; 0]);
    hall.arrive("health");
    assert_eq!(
        answered(&mut hall, "health"),
        [""; 0],
        "bypasses the policy"
    );
}

#[tokio::test(start_paused = true)]
async fn a_child_on_its_parents_slot_did_not_wait_whatever_its_parent_did() {
    let mut hall = Hall::new(&on(""));
    hall.arrive("first");
    hall.arrive("parent");
    hall.pass(500).await;
    hall.finish("first");
    assert_eq!(hall.state("parent"), "running");
    let mut child = with("child", &[]);
    child
        .extensions_mut()
        .insert(hall.scene.desk.admission("parent"));
    hall.send("child", child);
    assert_eq!(answered(&mut hall, "child"), ["queue;dur=0.000"]);
    assert_eq!(answered(&mut hall, "parent"), ["queue;dur=500.000"]);
}

#[test]
fn what_is_neither_true_nor_false_is_a_mistake() {
    let error = "server_timing: perhaps".parse::<tower_policy_queue::PolicyConfig>();
    assert!(error.unwrap_err().to_string().contains("server_timing"));
}
