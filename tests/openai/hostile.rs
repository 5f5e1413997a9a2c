//! Bodies that mean harm.

use serde_json::json;
use tower_policy_queue::openai::UnreadableBody;

use crate::{CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, read, refused};

fn is_invalid(body: impl Into<bytes::Bytes>) -> String {
    let refused = refused(CHAT, body);
    assert_eq!(refused.status, 400);
    assert_eq!(refused.error["code"], "invalid_json");
    assert_eq!(refused.error["type"], "invalid_request_error");
    assert_eq!(refused.headers["x-policy-queue-reason"], "invalid_json");
    let message = refused.error["message"].as_str().unwrap();
    assert_eq!(message, refused.why.to_string());
    message.to_owned()
}

#[test]
fn what_is_no_json_is_400() {
    for body in [
        "",
        " ",
        "{",
        "}",
        "nonsense",
        "{\"model\": }",
        "{\"model\": \"m\"",
        "{} {}",
        "{\"a\": 1,}",
        "{'a': 1}",
        "{\"a\": 01}",
        "{\"a\": NaN}",
        "{\"a\": \"\n\"}",
        "{\"a\": \"\\x\"}",
        "{\"a\": \"\\u12\"}",
        "[1",
        "\u{feff}{}",
    ] {
        let message = is_invalid(body);
        assert!(
            message.starts_with("the request body is not valid JSON: "),
            "{body:?}"
        );
    }
}

#[test]
fn what_is_no_object_is_400() {
    for body in [
        "null",
        "7",
        "\"{}\"",
        "[]",
        "[{\"model\": \"m\"}]",
        " \t\r\n true ",
    ] {
        let message = is_invalid(body);
        assert_eq!(
            message, "the request body must be a JSON object",
            "{body:?}"
        );
    }
    assert_eq!(refused(CHAT, "[]").why, UnreadableBody::NotAnObject);
}

#[test]
fn invalid_utf_8_is_400_wherever_it_is() {
    for body in [
        &b"\xff"[..],
        b"{\"model\": \"\xff\"}",
        b"{\"unknown\": \"\xc3\"}",
        b"{\"\xed\xa0\x80\": 1}",
        b"{} \xff",
    ] {
        is_invalid(body);
    }
}

#[test]
fn a_field_that_is_there_twice_is_400() {
    let message = is_invalid(r#"{"model": "cheap", "messages": [], "model": "dear"}"#);
    assert!(message.contains("duplicate field `model`"), "{message}");
    is_invalid(r#"{"model": "cheap", "\u006dodel": "dear"}"#);
    is_invalid(r#"{"messages": [], "messages": [{"role": "user", "content": "long"}]}"#);
    // Those that are not read are not this layer's business.
    read(CHAT, r#"{"seed": 1, "seed": 2}"#);
}

#[test]
fn depth_is_not_followed() {
    let depth = 50_000;
    let nest = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for path in [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES] {
        for field in [
            "unknown",
            "model",
            "messages",
            "prompt",
            "input",
            "tools",
            "instructions",
        ] {
            read(path, format!(r#"{{"{field}": {nest}}}"#));
        }
        for content in [&nest, &format!("[{nest}]")] {
            let item = format!(r#"[{{"role": "user", "content": {content}}}]"#);
            read(path, format!(r#"{{"messages": {item}, "input": {item}}}"#));
        }
    }
    let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    read(CHAT, objects);
    // It is still read to its end.
    is_invalid(format!(r#"{{"unknown": {}}}"#, "[".repeat(depth)));
}

#[test]
fn numbers_may_be_as_large_as_they_like() {
    let digits = "9".repeat(100_000);
    for number in [
        &digits,
        &format!("-{digits}"),
        &format!("1e{digits}"),
        "1e400",
        "-0.0",
    ] {
        let body = format!(r#"{{"prompt": [{number}], "n": {number}, "model": {number}}}"#);
        let seen = read(COMPLETIONS, body);
        assert_eq!(seen.tokens(), 1);
        assert_eq!(seen.hints().model, None);
    }
}

#[test]
fn half_an_emoji_is_the_servers_to_judge() {
    let cut = read(COMPLETIONS, r#"{"prompt": "a \ud83d", "model": "\udc00m"}"#);
    let other = read(COMPLETIONS, r#"{"prompt": "a \ud83e", "model": "\udc00m"}"#);
    assert_eq!(cut.tokens(), other.tokens());
    assert!(cut.tokens() >= 1);
    assert!(cut.hints().model.is_some_and(|model| model.ends_with('m')));
}

#[test]
fn many_small_parts_are_read_as_they_come() {
    let count = 200_000;
    let list = |element: &str| format!("[{}]", vec![element; count].join(","));
    let seen = read(COMPLETIONS, format!(r#"{{"prompt": {}}}"#, list("1")));
    assert_eq!(seen.tokens(), count as u64);
    let seen = read(EMBEDDINGS, format!(r#"{{"input": {}}}"#, list("[]")));
    assert_eq!(seen.tokens(), 0);
    let seen = read(COMPLETIONS, format!(r#"{{"prompt": {}}}"#, list(r#""""#)));
    assert_eq!(seen.tokens(), 0);
    let seen = read(CHAT, format!(r#"{{"messages": {}}}"#, list("{}")));
    assert_eq!(seen.tokens(), count as u64);
    let seen = read(
        CHAT,
        format!(
            r#"{{"messages": [{{"role": "user", "content": {}}}]}}"#,
            list("{}")
        ),
    );
    assert_eq!(seen.tokens(), 4 + count as u64);
}

#[test]
fn many_keys_are_passed_over() {
    let keys: Vec<_> = (0..200_000)
        .map(|key| format!(r#""key{key}": {key}"#))
        .collect();
    let seen = read(CHAT, format!(r#"{{{}, "model": "m"}}"#, keys.join(",")));
    assert_eq!(seen.hints().model.as_deref(), Some("m"));
}

#[test]
fn a_text_of_escapes_alone_is_what_it_means() {
    let text = "\\u0061".repeat(400_000);
    let seen = read(COMPLETIONS, format!(r#"{{"prompt": "{text}"}}"#));
    assert_eq!(seen.tokens(), 100_000);
}

#[test]
fn an_answer_does_not_repeat_what_was_sent() {
    let message = is_invalid(r#"{"model": <script>alert(1)</script>}"#);
    assert!(!message.contains("script"), "{message}");
}

#[test]
fn prompts_are_not_printed() {
    let seen = read(
        CHAT,
        json!({"messages": [{"role": "user", "content": "secret"}]}).to_string(),
    );
    assert!(!format!("{:?}", seen.parts.extensions).contains("secret"));
}
