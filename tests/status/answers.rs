//! Paths, methods and headers.

use http::{
    HeaderMap, Method, Response, StatusCode,
    header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use http_body::Body;
use serde_json::Value;
use tower_policy_queue::status::StatusBody;

use crate::{POLICY, ask, get, hall::Hall, hall::with, page, read, snapshot};

/// Every path that is served, with the type of what it is answered with.
const SERVED: [(&str, &str); 11] = [
    ("/", "text/html; charset=utf-8"),
    ("/?page.css", "text/css; charset=utf-8"),
    ("/?dominion.css", "text/css; charset=utf-8"),
    ("/?narrow.css", "text/css; charset=utf-8"),
    ("/?icon.svg", "image/svg+xml"),
    ("/?dom.js", "text/javascript; charset=utf-8"),
    ("/?chart.js", "text/javascript; charset=utf-8"),
    ("/?dominion.js", "text/javascript; charset=utf-8"),
    ("/?page.js", "text/javascript; charset=utf-8"),
    ("/snapshot.json", "application/json"),
    ("/events", "text/event-stream"),
];

fn text<'a>(response: &'a Response<StatusBody>, name: &str) -> &'a str {
    response.headers()[name].to_str().unwrap()
}

#[test]
fn each_path_is_answered_with_its_own_type() {
    let page = &mut page(&Hall::new(POLICY));
    for (path, content_type) in SERVED {
        let response = get(page, path);
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()[CONTENT_TYPE], content_type, "{path}");
    }
}

#[test]
fn a_query_that_names_no_file_is_answered_with_the_page() {
    let page = &mut page(&Hall::new(POLICY));
    let whole = read(get(page, "/"));
    assert!(whole.starts_with(b"<!doctype html>"));
    assert_eq!(read(get(page, "/?theme=dark")), whole);
    assert_ne!(read(get(page, "/?page.js")), whole);
}

#[test]
fn other_paths_are_not_found() {
    let page = &mut page(&Hall::new(POLICY));
    for path in [
        "/events/",
        "/page.js",
        "/snapshot",
        "/snapshot.json/x",
        "//",
        "/..",
    ] {
        let response = get(page, path);
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn other_methods_are_not_allowed_and_told_which_are() {
    let page = &mut page(&Hall::new(POLICY));
    for (path, _) in SERVED {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            let response = ask(page, method, path);
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
            assert_eq!(response.headers()[ALLOW], "GET, HEAD");
        }
    }
}

#[test]
fn head_is_answered_with_the_headers_of_get_and_no_body() {
    let page = &mut page(&Hall::new(POLICY));
    for path in SERVED.map(|(path, _)| path).into_iter().chain(["/nothing"]) {
        let whole = get(page, path);
        let head = ask(page, Method::HEAD, path);
        assert_eq!(head.status(), whole.status());
        assert_eq!(head.headers(), whole.headers(), "{path}");
        assert!(head.body().is_end_stream(), "{path}");
        let length = whole.body().size_hint().exact();
        let said = head.headers().get(CONTENT_LENGTH);
        let said = said.map(|length| length.to_str().unwrap().parse().unwrap());
        assert_eq!(said, length, "{path}");
    }
}

#[test]
fn every_answer_is_kept_out_of_caches_frames_and_foreign_hands() {
    let page = &mut page(&Hall::new(POLICY));
    let mut responses: Vec<_> = SERVED.iter().map(|(path, _)| get(page, path)).collect();
    responses.push(get(page, "/nothing"));
    responses.push(ask(page, Method::POST, "/"));
    let streams: Vec<_> = (0..16).map(|_| get(page, "/events")).collect();
    let one_too_many = get(page, "/events");
    assert!(one_too_many.headers().contains_key(RETRY_AFTER));
    responses.push(one_too_many);
    drop(streams);
    for response in responses {
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(text(&response, name), value);
        }
        let policy: Vec<&str> = text(&response, "content-security-policy")
            .split("; ")
            .collect();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(&directive), "{directive} in {policy:?}");
        }
        assert!(!text(&response, "content-security-policy").contains("unsafe"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_snapshot_is_that_of_the_handle() {
    let mut hall = Hall::new(POLICY);
    let page = &mut page(&hall);
    for id in ["runs", "waits", "too"] {
        hall.send(id, with(id, &[("x-promptforge-client", "alice")]));
    }
    hall.pass(1500).await;
    let answer: Value = serde_json::from_slice(&read(get(page, "/snapshot.json"))).unwrap();
    assert_eq!(answer, snapshot(&hall));
    let gpu = &answer["dominions"][0];
    assert_eq!((&gpu["in_use"], &gpu["waiting"]), (&1.into(), &2.into()));
    assert_eq!(gpu["waiters"][0]["client"], "alice");
    assert_eq!(gpu["waiters"][0]["age_ms"], 1500);
    assert_eq!(gpu["waiters"][0]["why"]["word"], "slot");
}

/// Labels that would be markup join `default`, and headers are in no other place of a snapshot.
#[tokio::test(start_paused = true)]
async fn nothing_that_a_client_sent_becomes_markup() {
    let mut hall = Hall::new(POLICY);
    let page = &mut page(&hall);
    let script = "<script>alert(1)</script>";
    for id in ["runs", "waits"] {
        let headers = [
            ("x-promptforge-client", script),
            ("x-dynamo-meta-policy-class", script),
        ];
        hall.send(id, with(id, &headers));
    }
    let before = HeaderMap::clone(get(page, "/").headers());
    for (path, _) in &SERVED[..10] {
        let body = read(get(page, path));
        let text = std::str::from_utf8(&body).unwrap();
        assert!(!text.contains("alert(1)"), "{path}");
    }
    assert_eq!(get(page, "/").headers(), &before);
    assert_eq!(snapshot(&hall)["dominions"][0]["waiting"], 1);
}
