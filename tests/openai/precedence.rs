//! What a layer outside has said is kept.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tower_policy_queue::{
    QueueHints,
    openai::{OpenAiHintsLayer, Prompt, PromptBlocks},
};

use crate::{CHAT, COMPLETIONS, post, send_through};

const BODY: &str = r#"{"model": "asked", "prompt": "abcd"}"#;

fn told(hints: &QueueHints) -> QueueHints {
    let mut request = post(COMPLETIONS, BODY);
    request.extensions_mut().insert(hints.clone());
    let sent = send_through(&OpenAiHintsLayer::new(), request);
    sent.unwrap().hints()
}

#[test]
fn a_request_without_hints_gets_the_two() {
    let sent = send_through(&OpenAiHintsLayer::new(), post(COMPLETIONS, BODY));
    let expected = QueueHints {
        model: Some("asked".to_owned()),
        raw_isl_tokens: Some(1),
        ..QueueHints::default()
    };
    assert_eq!(sent.unwrap().hints(), expected);
}

#[test]
fn hints_of_other_fields_are_kept_and_completed() {
    let hints = QueueHints {
        client: Some("ann".to_owned()),
        cached_tokens: Some(1),
        ..QueueHints::default()
    };
    let expected = QueueHints {
        model: Some("asked".to_owned()),
        raw_isl_tokens: Some(1),
        ..hints.clone()
    };
    assert_eq!(told(&hints), expected);
}

#[test]
fn a_model_that_was_said_outside_wins() {
    let hints = told(&QueueHints {
        model: Some("allowed".to_owned()),
        ..QueueHints::default()
    });
    assert_eq!(hints.model.as_deref(), Some("allowed"));
    assert_eq!(hints.raw_isl_tokens, Some(1));
}

#[test]
fn tokens_that_were_counted_outside_win_and_are_not_counted_again() {
    let asked = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&asked);
    let layer = OpenAiHintsLayer::new().estimator(move |_: &Prompt<'_>| {
        note.store(true, Ordering::Relaxed);
        7
    });
    let mut request = post(COMPLETIONS, BODY);
    request.extensions_mut().insert(QueueHints {
        raw_isl_tokens: Some(0),
        ..QueueHints::default()
    });
    let hints = send_through(&layer, request).unwrap().hints();
    assert_eq!(hints.raw_isl_tokens, Some(0));
    assert_eq!(hints.model.as_deref(), Some("asked"));
    assert!(!asked.load(Ordering::Relaxed));
}

#[test]
fn blocks_that_are_there_are_kept() {
    let mut request = post(CHAT, format!(r#"{{"messages": "{}"}}"#, "a".repeat(1000)));
    request.extensions_mut().insert(PromptBlocks::default());
    let sent = send_through(&OpenAiHintsLayer::new(), request).unwrap();
    assert_eq!(sent.blocks(), PromptBlocks::default());
}

#[test]
fn other_extensions_are_kept() {
    let mut request = post(COMPLETIONS, BODY);
    request.extensions_mut().insert("mine");
    let sent = send_through(&OpenAiHintsLayer::new(), request).unwrap();
    assert_eq!(sent.parts.extensions.get(), Some(&"mine"));
}
