//! Statuses of the policy's own, and headers of a response of one's own.

use futures::FutureExt;
use http::{Response, StatusCode};
use tower::{Layer, Service, ServiceExt};
use tower_policy_queue::{PolicyQueueLayer, Rejection};

use crate::{
    common::{
        NoBody,
        bell::Polled,
        desk::{Desk, get, policy},
        feed::FedBody,
        json,
    },
    hall::{Hall, chat, hinted, pinned, wait_ms, with},
};

#[tokio::test(start_paused = true)]
async fn each_answer_takes_the_status_that_the_policy_gives_its_code() {
    let dominion = "
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]
headers: {max_queue_wait_ms: x-wait}
";
    let reject = "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";
    let local = "
dominions: [{id: pool, kind: local, max_concurrency: 1}]
local_models: [{id: big, dominion: pool}]
profiles: [{name: none, models: []}]
";
    let limited = chat("request_queue_limit_per_worker: 0", dominion);
    let short = chat("max_hold_ms: 10", dominion);
    let refused = || get("refused");
    let own = dominion.replace("max_queue:", "max_queue_per_client:");
    let cases: [(&str, &str, usize, http::Request<NoBody>, u16); 10] = [
        ("queue_rejected", reject, 1, refused(), 429),
        ("queue_full", dominion, 2, refused(), 503),
        ("client_queue_limit", &own, 2, refused(), 429),
        ("policy_class_queue_limit", &limited, 1, refused(), 529),
        (
            "queue_timeout",
            dominion,
            1,
            hinted("refused", wait_ms(5)),
            503,
        ),
        ("queue_unavailable", dominion, 1, refused(), 503),
        (
            "profile_switch",
            local,
            0,
            hinted("refused", pinned("big")),
            503,
        ),
        (
            "no_eligible_worker",
            dominion,
            0,
            hinted("refused", pinned("none")),
            503,
        ),
        ("hold_timeout", &short, 0, refused(), 504),
        (
            "invalid_queue_header",
            dominion,
            0,
            with("refused", &[("x-wait", "?")]),
            400,
        ),
    ];
    for (code, yaml, before, request, status) in cases {
        let own = format!("{yaml}\nstatuses: {{{code}: 418}}");
        let other = format!("{yaml}\nstatuses: {{request_body_error: 418}}");
        for (yaml, status) in [(yaml, status), (&own, 418), (&other, status)] {
            let mut hall = Hall::new(yaml);
            for n in 0..before {
                hall.arrive(&n.to_string());
            }
            hall.send("refused", request.clone());
            match code {
                "profile_switch" => hall.handle.switch_profile("none").unwrap(),
                "queue_unavailable" => hall.handle.shutdown(),
                _ => hall.pass(10).await,
            }
            assert_eq!(hall.state("refused"), code);
            let response = hall.response("refused");
            assert_eq!(response.status(), status, "{code}");
            let rejection: &Rejection = response.extensions().get().unwrap();
            assert_eq!(rejection.status(), status, "{code}, to layers outside");
            assert_eq!(response.headers()["x-policy-queue-reason"], code);
            let body = json(response.into_body());
            assert_eq!(body["error"]["code"], code, "whatever the status");
        }
    }
}

const NARROW: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]";

fn refused_with(response: fn(&Rejection) -> Response<FedBody>) -> http::HeaderMap {
    let layer = PolicyQueueLayer::new(policy(NARROW)).on_rejection(response);
    let mut service = layer.layer(Desk::default());
    let mut running = Polled::new(service.call(get("running")));
    assert!(running.poll().is_pending());
    let response = service.oneshot(get("refused")).now_or_never();
    let response = response.expect("it is turned away at once").unwrap();
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    response.headers().clone()
}

fn teapot(headers: &[(&'static str, &'static str)]) -> Response<FedBody> {
    let mut response = Response::builder().status(418);
    for &(name, value) in headers {
        response = response.header(name, value);
    }
    response.body(FedBody::empty()).unwrap()
}

#[test]
fn a_response_of_one_s_own_gets_the_headers_it_lacks() {
    let headers = refused_with(|_| teapot(&[]));
    assert_eq!(headers["x-policy-queue-reason"], "queue_rejected");
    assert_eq!(headers["retry-after"], "2", "rounded up");
    let milliseconds: u64 = headers["retry-after-ms"].to_str().unwrap().parse().unwrap();
    assert!((1000..=1250).contains(&milliseconds), "{milliseconds}");
}

#[test]
fn a_response_of_one_s_own_keeps_the_headers_it_has() {
    let headers = refused_with(|_| {
        teapot(&[
            ("retry-after", "7"),
            ("retry-after-ms", "6500"),
            ("x-policy-queue-reason", "tea"),
        ])
    });
    assert_eq!(headers["x-policy-queue-reason"], "tea");
    assert_eq!(headers["retry-after"], "7");
    assert_eq!(headers["retry-after-ms"], "6500");
    for name in ["retry-after", "retry-after-ms", "x-policy-queue-reason"] {
        assert_eq!(headers.get_all(name).iter().count(), 1, "{name} once");
    }
}
