//! How many tokens that is.

use std::num::NonZeroU32;

use serde_json::{Value, json};
use tower_policy_queue::openai::{BytesPerToken, OpenAiHintsLayer, Prompt};

use crate::{CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, post, read, send_through};

fn tokens(path: &str, body: &Value) -> u64 {
    read(path, body.to_string()).tokens()
}

/// Without the four of the message around it.
fn piece(piece: Value) -> u64 {
    tokens(
        CHAT,
        &json!({"messages": [{"role": "user", "content": [piece]}]}),
    ) - 4
}

#[test]
fn four_bytes_of_text_are_a_token_and_a_message_has_four_more() {
    let message = |text: &str| json!({"messages": [{"role": "user", "content": text}]});
    assert_eq!(tokens(CHAT, &message("")), 4);
    assert_eq!(tokens(CHAT, &message("a")), 5);
    assert_eq!(tokens(CHAT, &message(&"a".repeat(4000))), 1004);
    assert_eq!(
        tokens(COMPLETIONS, &json!({"prompt": "a".repeat(4000)})),
        1000
    );
    assert_eq!(tokens(EMBEDDINGS, &json!({"input": ["a", "bcdef"]})), 3);
    assert_eq!(tokens(RESPONSES, &json!({"input": "abcd"})), 5);
}

#[test]
fn text_is_as_long_as_it_is_without_escapes() {
    let plain = read(COMPLETIONS, r#"{"prompt": "你好你好"}"#);
    let escaped = read(COMPLETIONS, r#"{"prompt": "\u4f60\u597d\u4f60\u597d"}"#);
    assert_eq!(plain.tokens(), 3);
    assert_eq!(escaped.tokens(), 3);
}

#[test]
fn each_token_id_is_a_token() {
    assert_eq!(tokens(COMPLETIONS, &json!({"prompt": [1, 20000, 3]})), 3);
    assert_eq!(tokens(EMBEDDINGS, &json!({"input": [[1, 2], [3]]})), 3);
}

#[test]
fn an_image_is_as_long_as_it_looks_not_as_it_is_written() {
    let url = format!("data:image/png;base64,{}", "A".repeat(1_000_000));
    let image =
        |detail: Value| json!({"type": "image_url", "image_url": {"url": url, "detail": detail}});
    assert_eq!(piece(image(json!(null))), 765);
    assert_eq!(piece(image(json!("high"))), 765);
    assert_eq!(piece(image(json!("low"))), 85);
}

#[test]
fn ten_seconds_of_speech_are_about_a_hundred_tokens() {
    let audio = |format: &str, bytes_a_second: usize| {
        let base64 = "A".repeat(bytes_a_second * 10 * 4 / 3);
        piece(json!({"type": "input_audio", "input_audio": {"data": base64, "format": format}}))
    };
    assert_eq!(audio("mp3", 8_000), 105);
    assert_eq!(audio("wav", 32_000), 105);
}

#[test]
fn tools_and_calls_count_as_the_json_they_are() {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let written = tools.to_string().len() as u64;
    assert_eq!(tokens(CHAT, &json!({"tools": tools})), written.div_ceil(4));

    let calls = json!({"messages": [{"role": "assistant", "tool_calls": tools}]});
    assert_eq!(tokens(CHAT, &calls), 4 + written.div_ceil(4));
}

#[test]
fn what_the_answer_may_cost_is_not_counted() {
    let body = json!({"prompt": "abcd", "max_tokens": 100_000, "n": 8});
    assert_eq!(tokens(COMPLETIONS, &body), 1);
}

#[test]
fn unknown_shapes_are_not_free() {
    let text = "a".repeat(4000);
    assert!(tokens(CHAT, &json!({"messages": text})) >= 1000);
    assert!(tokens(CHAT, &json!({"messages": {"content": text}})) >= 1000);
    assert!(tokens(COMPLETIONS, &json!({"prompt": {"text": text}})) >= 1000);
    assert!(piece(json!({"type": "file", "file": {"file_data": text}})) >= 1000);
    // A message that can be read in two ways.
    let twice =
        format!(r#"{{"messages": [{{"role": "user", "content": "{text}", "content": ""}}]}}"#);
    assert!(read(CHAT, twice).tokens() >= 1000);
}

#[test]
fn an_estimator_of_ones_own_has_the_word() {
    let layer = OpenAiHintsLayer::new().estimator(|_: &Prompt<'_>| 42);
    let sent = send_through(&layer, post(CHAT, "{}"));
    assert_eq!(sent.unwrap().tokens(), 42);
}

#[test]
fn a_token_may_have_other_than_four_bytes() {
    let layer = OpenAiHintsLayer::new().estimator(BytesPerToken::new(NonZeroU32::MIN));
    let sent = send_through(&layer, post(COMPLETIONS, r#"{"prompt": "abcd"}"#));
    assert_eq!(sent.unwrap().tokens(), 4);
}

#[test]
fn an_absurd_estimate_is_handed_on_as_it_is() {
    let layer = OpenAiHintsLayer::new().estimator(|_: &Prompt<'_>| u64::MAX);
    let sent = send_through(&layer, post(COMPLETIONS, r#"{"prompt": "abcd"}"#)).unwrap();
    assert_eq!(sent.tokens(), u64::MAX);
    assert_eq!(sent.blocks().tokens_per_block(), u64::MAX);
}
