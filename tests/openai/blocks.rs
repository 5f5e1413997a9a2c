//! Equal beginnings of prompts have equal hashes.

use serde_json::{Value, json};
use tower_policy_queue::{
    QueueHints,
    openai::{OpenAiHintsLayer, PromptBlocks},
};

use crate::{CHAT, COMPLETIONS, RESPONSES, post, read, send_through};

fn blocks(path: &str, body: &Value) -> PromptBlocks {
    read(path, body.to_string()).blocks()
}

fn completion(prompt: &str) -> PromptBlocks {
    blocks(COMPLETIONS, &json!({"prompt": prompt}))
}

fn message(role: &str, content: impl Into<Value>) -> Value {
    json!({"role": role, "content": content.into()})
}

fn chat(messages: &[Value]) -> PromptBlocks {
    blocks(CHAT, &json!({"messages": messages}))
}

fn common(one: &PromptBlocks, other: &PromptBlocks) -> usize {
    let pairs = one.hashes().iter().zip(other.hashes());
    pairs.take_while(|(one, other)| one == other).count()
}

/// Texts of which no two blocks are equal.
fn text(bytes: usize) -> String {
    let mut text: String = (0..=bytes / 4).map(|word| format!("{word:4}")).collect();
    text.truncate(bytes);
    text
}

#[test]
fn a_block_is_256_bytes_and_the_last_one_must_be_full() {
    // Two bytes say that it is text.
    assert_eq!(completion(&"a".repeat(253)).hashes().len(), 0);
    assert_eq!(completion(&"a".repeat(254)).hashes().len(), 1);
    assert_eq!(completion(&"a".repeat(509)).hashes().len(), 1);
    assert_eq!(completion(&"a".repeat(510)).hashes().len(), 2);
}

#[test]
fn equal_prompts_have_equal_hashes_however_they_are_written() {
    let plain = read(
        COMPLETIONS,
        format!(r#"{{"prompt":"{}{}"}}"#, "é", text(1000)),
    );
    let other = format!(
        "{{\n  \"stream\": true, \"prompt\": \"\\u00e9{}\"}}",
        text(1000)
    );
    assert_eq!(plain.blocks(), read(COMPLETIONS, other).blocks());
}

#[test]
fn prompts_have_as_many_equal_hashes_as_equal_blocks_in_the_beginning() {
    let whole = text(4096);
    let mut changed = whole.clone();
    changed.replace_range(2000..2001, "x");
    let (whole, changed) = (completion(&whole), completion(&changed));
    assert_eq!(whole.hashes().len(), 16);
    assert_eq!(common(&whole, &changed), 2002 / 256);
    // Each hash is of all that is before it: equal ends do not count.
    assert_ne!(whole.hashes()[15], changed.hashes()[15]);
}

#[test]
fn a_conversation_that_goes_on_has_all_hashes_it_had() {
    let mut messages = vec![message("system", text(700)), message("user", text(500))];
    let before = chat(&messages);
    messages.push(message("assistant", "Yes."));
    messages.push(message("user", text(1000)));
    let after = chat(&messages);
    assert_eq!(before.hashes().len(), 4);
    assert!(after.hashes().len() > 4);
    assert_eq!(common(&before, &after), 4);
}

#[test]
fn who_says_it_makes_a_difference() {
    let (user, system) = ([message("user", text(600))], [message("system", text(600))]);
    assert_eq!(common(&chat(&user), &chat(&system)), 0);
}

#[test]
fn where_one_message_ends_makes_a_difference() {
    let whole = text(600);
    let (one, other) = whole.split_at(100);
    let apart = chat(&[message("user", one), message("user", other)]);
    assert_eq!(common(&apart, &chat(&[message("user", whole)])), 0);
}

#[test]
fn a_text_is_the_same_alone_and_as_the_only_piece() {
    let pieces = json!([{"type": "text", "text": text(600)}]);
    assert_eq!(
        chat(&[message("user", text(600))]),
        chat(&[message("user", pieces)])
    );
}

#[test]
fn a_string_of_input_is_what_the_user_says() {
    let string = json!({"input": text(600)});
    let item = json!({"input": [message("user", text(600))]});
    assert_eq!(blocks(RESPONSES, &string), blocks(RESPONSES, &item));
}

#[test]
fn other_tools_change_the_prompt_from_its_beginning() {
    let with = |tool: &str| {
        let messages = [message("user", text(600))];
        blocks(
            CHAT,
            &json!({"messages": messages, "tools": [{"name": tool}]}),
        )
    };
    assert_eq!(common(&with("a"), &with("b")), 0);
}

#[test]
fn each_model_has_hashes_of_its_own() {
    let of = |model: &str| blocks(COMPLETIONS, &json!({"model": model, "prompt": text(600)}));
    assert_eq!(common(&of("a"), &of("b")), 0);

    // The model that counts is the one a layer outside has said.
    let mut request = post(
        COMPLETIONS,
        json!({"model": "a", "prompt": text(600)}).to_string(),
    );
    request.extensions_mut().insert(QueueHints {
        model: Some("b".to_owned()),
        ..QueueHints::default()
    });
    let sent = send_through(&OpenAiHintsLayer::new(), request).unwrap();
    assert_eq!(sent.blocks(), of("b"));
}

#[test]
fn an_image_counts_by_what_it_is_not_by_its_bytes() {
    let image = |byte: &str| {
        let url = byte.repeat(100_000);
        let piece = json!({"type": "image_url", "image_url": {"url": url}});
        chat(&[message("user", json!([piece])), message("user", text(600))])
    };
    assert_eq!(image("A"), image("A"));
    assert_eq!(common(&image("A"), &image("B")), 0);
    assert!(image("A").hashes().len() < 4);
}

#[test]
fn token_ids_are_compared_too() {
    let ids = |count: usize| {
        let ids: Vec<_> = (1000..1000 + count).collect();
        blocks(COMPLETIONS, &json!({"prompt": ids}))
    };
    let (short, long) = (ids(200), ids(400));
    assert_eq!(short.hashes().len(), 200 * 6 / 256);
    assert_eq!(common(&short, &long), short.hashes().len());
    assert_eq!(long.tokens_per_block(), 400 * 256 / (400 * 6));
}

#[test]
fn blocks_never_have_more_tokens_than_the_prompt() {
    for bytes in [0, 1, 254, 255, 600, 5000] {
        let seen = read(COMPLETIONS, json!({"prompt": text(bytes)}).to_string());
        let blocks = seen.blocks();
        let in_blocks = blocks.hashes().len() as u64 * blocks.tokens_per_block();
        assert!(in_blocks <= seen.tokens(), "{bytes}");
    }
    assert_eq!(completion(&text(25_600)).tokens_per_block(), 63);
}

#[test]
fn the_tokens_are_those_that_a_layer_outside_has_counted() {
    let mut request = post(COMPLETIONS, json!({"prompt": text(1022)}).to_string());
    request.extensions_mut().insert(QueueHints {
        raw_isl_tokens: Some(400),
        ..QueueHints::default()
    });
    let sent = send_through(&OpenAiHintsLayer::new(), request).unwrap();
    assert!((99..=100).contains(&sent.blocks().tokens_per_block()));
}

#[test]
fn at_most_8_mib_are_hashed() {
    let layer = OpenAiHintsLayer::new().max_body_bytes(usize::MAX);
    let body = format!(r#"{{"prompt": "{}"}}"#, "a".repeat(9 << 20));
    let blocks = send_through(&layer, post(COMPLETIONS, body))
        .unwrap()
        .blocks();
    assert_eq!(blocks.hashes().len(), 32_768);
    assert_eq!(blocks.tokens_per_block(), 63);
}
