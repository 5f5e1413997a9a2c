//! Headers: believed if the policy names them, and then they had better be right.

use crate::common::NoBody;
use http::{HeaderValue, Request};
use tower_policy_queue::{Reason, Rejection};

use crate::{
    POLICY, asked, believed,
    common::{
        self,
        desk::{Scene, get, policy},
    },
    trusting, with,
};

#[test]
fn each_header_is_believed_if_the_policy_names_it() {
    let table: &[(&[(&'static str, &str)], &str)] = &[
        (&[], "std-small root w1"),
        (&[("x-policy", "pro")], "pro-small root w1"),
        (&[("x-policy", "batch")], "batch root w1"),
        (&[("x-policy", "pro-large")], "std-small root w1"),
        (&[("x-policy", "nobody")], "std-small root w1"),
        (&[("x-raw", "100")], "std-large root w1"),
        (&[("x-raw", "99")], "std-small root w1"),
        (&[("x-raw", "18446744073709551615")], "std-large root w1"),
        (&[("x-raw", " 100 ")], "std-large root w1"),
        (&[("x-raw", "150"), ("x-cached", "51")], "std-small root w1"),
        (&[("x-raw", "150"), ("x-cached", "50")], "std-large root w1"),
        (
            &[("x-raw", "150"), ("x-cached", "18446744073709551615")],
            "std-small root w1",
        ),
        (&[("x-model", "m2")], "two m2 w1"),
        (&[("x-worker", "w2")], "std-small root w2"),
        (&[("x-allowed", "w3, w2")], "std-small root w2"),
        (
            &[("x-allowed", "w3"), ("x-allowed", "w2")],
            "std-small root w2",
        ),
        (&[("x-allowed", "w3,w9")], "std-small root w3"),
        (
            &[("x-jump", "-5"), ("x-tier", "4294967295")],
            "std-small root w1",
        ),
    ];
    for (headers, expected) in table {
        let mut scene = trusting();
        assert_eq!(
            believed(&mut scene, asked(headers)),
            *expected,
            "{headers:?}"
        );
    }
}

#[test]
fn a_trusted_header_that_cannot_be_read_is_an_error_that_names_it() {
    let number = [
        "",
        "NaN",
        "-1",
        "1.5",
        "1e3",
        "0x10",
        "many",
        "18446744073709551616",
        "1 2",
        "1,2",
    ];
    let tier = ["", "NaN", "-1", "1.5", "4294967296"];
    let jump = ["", "NaN", "inf", "-inf", "infinity", "1e999", "soon", "1,5"];
    let table: &[(&str, &[&str])] = &[
        ("x-raw", &number),
        ("x-cached", &number),
        ("x-tier", &tier),
        ("x-jump", &jump),
    ];
    for (name, values) in table {
        for value in *values {
            refuses(with(get("asked"), &[(name, value)]), name, value);
        }
    }
}

#[test]
fn a_trusted_header_that_is_repeated_is_an_error_even_if_both_agree() {
    for (name, value) in [
        ("x-raw", "7"),
        ("x-cached", "7"),
        ("x-tier", "7"),
        ("x-jump", "7"),
        ("x-worker", "w1"),
        ("x-model", "m1"),
    ] {
        refuses(
            with(get("asked"), &[(name, value), (name, value)]),
            name,
            "twice",
        );
    }
}

#[test]
fn a_header_that_says_where_a_request_belongs_is_read_without_dominions_too() {
    for name in ["x-model", "x-worker"] {
        let mut scene = Scene::new(policy("headers: {model: x-model, worker: x-worker}"));
        let twice = with(get("asked"), &[(name, "a"), (name, "b")]);
        let response = scene.call_with("asked", twice).response();
        assert_eq!(response.status(), 400, "{name}");
    }
}

#[test]
fn a_trusted_header_that_is_no_utf_8_is_an_error() {
    for name in [
        "x-raw",
        "x-cached",
        "x-tier",
        "x-jump",
        "x-worker",
        "x-model",
        "x-allowed",
    ] {
        let mut request = get("asked");
        request
            .headers_mut()
            .insert(name, HeaderValue::from_bytes(b"\xff7").unwrap());
        refuses(request, name, "0xff");
    }
}

fn refuses(request: Request<NoBody>, header: &str, value: &str) {
    let mut scene = trusting();
    let response = scene.call_with("asked", request).response();
    assert_eq!(response.status(), 400, "{header}: {value}");
    let rejection: &Rejection = response.extensions().get().unwrap();
    match rejection.reason() {
        Reason::InvalidHeader { name, .. } => assert_eq!(name, header, "{value}"),
        other => panic!("{header}: {value}: {other:?}"),
    }
    assert!(rejection.to_string().contains(header));
    let body = common::json(response.into_body());
    assert_eq!(body["error"]["header"], header);
    assert!(scene.has_a_free_slot(), "it took no slot");
}

#[test]
fn headers_that_the_policy_does_not_name_are_ignored() {
    let default_names: &[(&'static str, &str)] = &[
        ("x-raw", "1000"),
        ("x-raw-isl-tokens", "NaN"),
        ("x-cached-tokens", "-1"),
        ("x-strict-priority", "18446744073709551616"),
        ("x-priority-jump", "NaN"),
        ("x-worker", "nobody"),
        ("x-worker", "w2"),
        ("x-allowed-workers", "nobody"),
        ("x-model", "m1"),
    ];
    let mut scene = Scene::new(policy(POLICY));
    assert_eq!(
        believed(&mut scene, asked(default_names)),
        "std-small root w1"
    );
}

#[test]
fn the_two_hints_that_anyone_may_send_have_default_names_and_are_never_wrong() {
    let mut scene = Scene::new(policy(POLICY));
    let pro = asked(&[("x-dynamo-meta-policy-class", "pro")]);
    assert_eq!(believed(&mut scene, pro), "pro-small root w1");

    for name in ["x-dynamo-meta-policy-class", "x-promptforge-client"] {
        let mut request = asked(&[]);
        request
            .headers_mut()
            .insert(name, HeaderValue::from_bytes(b"\xff").unwrap());
        request
            .headers_mut()
            .append(name, HeaderValue::from_static("twice"));
        let mut scene = Scene::new(policy(POLICY));
        assert_eq!(believed(&mut scene, request), "std-small root w1", "{name}");
    }
}

#[test]
fn without_any_count_the_length_is_estimated_from_content_length() {
    let table: &[(&[(&'static str, &str)], &str)] = &[
        (&[("content-length", "396")], "std-small"),
        (&[("content-length", "400")], "std-large"),
        (&[("content-length", "18446744073709551615")], "std-large"),
        (&[("content-length", "none of your business")], "std-small"),
        (&[("content-length", "4000"), ("x-raw", "99")], "std-small"),
        (&[("content-length", "396"), ("x-raw", "100")], "std-large"),
        (&[("content-length", "4000"), ("x-raw", "0")], "std-small"),
        (
            &[("content-length", "800"), ("x-cached", "101")],
            "std-small",
        ),
        (
            &[("content-length", "800"), ("x-cached", "100")],
            "std-large",
        ),
    ];
    for (headers, class) in table {
        let mut scene = trusting();
        let expected = format!("{class} root w1");
        assert_eq!(
            believed(&mut scene, asked(headers)),
            expected,
            "{headers:?}"
        );
    }
}
