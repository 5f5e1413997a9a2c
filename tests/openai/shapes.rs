//! Where each API has its model and its prompt, part by part.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tower_policy_queue::openai::{OpenAiHintsLayer, Part, Prompt};

use crate::{CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, post, read, send_through};

/// The parts of a prompt in the words of `Debug`, which are short enough.
fn parts(path: &str, body: &Value) -> Vec<String> {
    let parts = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&parts);
    let layer = OpenAiHintsLayer::new().estimator(move |prompt: &Prompt<'_>| {
        prompt.for_each_part(|part| {
            note.lock().unwrap().push(match part {
                Part::Message { role, .. } => format!("{role}:"),
                Part::Text(text) => text.to_owned(),
                Part::Json(json) => json.to_owned(),
                Part::TokenId(id) => format!("#{id}"),
                Part::Image { source, detail, .. } => format!("image {source} {detail:?}"),
                Part::Audio { data, format, .. } => format!("audio {data} {format:?}"),
                other => panic!("{other:?}"),
            });
        });
        0
    });
    send_through(&layer, post(path, body.to_string())).unwrap();
    parts.lock().unwrap().clone()
}

#[test]
fn every_operation_names_its_model() {
    for path in [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES] {
        let hints = read(path, r#"{"stream": true, "model": "gpt-4o"}"#).hints();
        assert_eq!(hints.model.as_deref(), Some("gpt-4o"), "{path}");
        assert_eq!(hints.raw_isl_tokens, Some(0), "{path}: no prompt");
    }
}

#[test]
fn a_model_that_is_no_name_is_none() {
    let long = format!(r#"{{"model": "{}"}}"#, "m".repeat(1025));
    for body in [
        "{}",
        r#"{"model": null}"#,
        r#"{"model": 7}"#,
        r#"{"model": ""}"#,
        &long,
    ] {
        assert_eq!(read(CHAT, body.to_owned()).hints().model, None, "{body}");
    }
}

#[test]
fn a_key_and_a_model_may_be_written_with_escapes() {
    let hints = read(CHAT, r#"{"\u006dodel": "gpt\u002d4o"}"#).hints();
    assert_eq!(hints.model.as_deref(), Some("gpt-4o"));
}

#[test]
fn the_estimator_knows_the_model_wherever_it_is_written() {
    let layer = OpenAiHintsLayer::new()
        .estimator(|prompt: &Prompt<'_>| prompt.model().map_or(0, |model| model.len() as u64));
    let sent = send_through(&layer, post(CHAT, r#"{"messages": [], "model": "four"}"#));
    assert_eq!(sent.unwrap().tokens(), 4);
}

#[test]
fn a_chat_is_its_messages_in_order() {
    let body = json!({"messages": [
        {"role": "system", "content": "Be \"kind\".\n"},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, "A rose?"], "name": "ann"},
        {"role": "assistant", "content": null, "refusal": "No."},
        {"role": "user", "content": [{"type": "refusal", "refusal": "Neither."}]},
    ]});
    let expected = [
        "system:",
        "Be \"kind\".\n",
        "user:",
        "What is it?",
        "A rose?",
        "assistant:",
        "No.",
        "user:",
        "Neither.",
    ];
    assert_eq!(parts(CHAT, &body), expected);
}

#[test]
fn images_and_sound_are_parts_of_their_own() {
    let body = json!({"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "http://cat"}},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
    ]}]});
    let expected = [
        "user:",
        "image data:x Some(\"low\")",
        "image http://cat None",
        "audio UklG Some(\"wav\")",
    ];
    assert_eq!(parts(CHAT, &body), expected);
}

#[test]
fn tools_come_before_what_is_said_and_calls_where_they_were_made() {
    let body = json!({
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": "1"}]},
            {"role": "tool", "tool_call_id": "1", "content": "42"},
            {"role": "assistant", "function_call": {"name": "f"}},
        ],
        "tools": [{"type": "function"}],
        "functions": [{"name": "f"}],
    });
    let expected = [
        r#"[{"type":"function"}]"#,
        r#"[{"name":"f"}]"#,
        "assistant:",
        r#"[{"id":"1"}]"#,
        "tool:",
        "42",
        "assistant:",
        r#"{"name":"f"}"#,
    ];
    assert_eq!(parts(CHAT, &body), expected);
}

#[test]
fn a_completion_has_texts_or_token_ids() {
    let prompt = |prompt: Value| parts(COMPLETIONS, &json!({"prompt": prompt}));
    assert_eq!(prompt(json!("Once")), ["Once"]);
    assert_eq!(prompt(json!(["Once", "upon"])), ["Once", "upon"]);
    assert_eq!(prompt(json!([15, 7])), ["#15", "#7"]);
    assert_eq!(prompt(json!([[15, 7], [9]])), ["#15", "#7", "#9"]);
    assert!(prompt(json!(null)).is_empty());

    let infill = json!({"suffix": "}", "prompt": "{"});
    assert_eq!(parts(COMPLETIONS, &infill), ["{", "}"]);
}

#[test]
fn an_embedding_has_texts_or_token_ids() {
    let input = |input: Value| parts(EMBEDDINGS, &json!({"input": input}));
    assert_eq!(input(json!("Once")), ["Once"]);
    assert_eq!(input(json!(["Once", "upon"])), ["Once", "upon"]);
    assert_eq!(input(json!([15, 7])), ["#15", "#7"]);
    assert_eq!(input(json!([[15], [7, 9]])), ["#15", "#7", "#9"]);
}

#[test]
fn a_response_has_instructions_tools_and_input() {
    let body = json!({"input": "Hi", "tools": [{}], "instructions": "Be kind."});
    let expected = ["system:", "Be kind.", "[{}]", "user:", "Hi"];
    assert_eq!(parts(RESPONSES, &body), expected);
}

#[test]
fn a_response_takes_items_as_input() {
    let body = json!({"input": [
        {"role": "user", "content": "Hi"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "image_url": "data:x", "detail": "low"},
            {"type": "input_image", "file_id": "file-1"},
        ]},
        {"type": "function_call_output", "output": "42"},
    ]});
    let expected = [
        "user:",
        "Hi",
        "user:",
        "What is it?",
        "image data:x Some(\"low\")",
        "image file-1 None",
        r#"{"output":"42","type":"function_call_output"}"#,
    ];
    assert_eq!(parts(RESPONSES, &body), expected);
}

#[test]
fn each_operation_has_its_own_fields() {
    let body = json!({
        "messages": [{"role": "m", "content": "-"}], "prompt": "p", "input": "i",
    });
    assert_eq!(parts(CHAT, &body), ["m:", "-"]);
    assert_eq!(parts(COMPLETIONS, &body), ["p"]);
    assert_eq!(parts(EMBEDDINGS, &body), ["i"]);
    assert_eq!(parts(RESPONSES, &body), ["user:", "i"]);
}

#[test]
fn what_has_an_unknown_shape_is_there_as_json() {
    let file = json!({"type": "file", "file": {"file_id": "1"}});
    let body = json!({"messages": [
        {"role": "user", "content": [file.clone(), 7]},
        {"role": "user", "content": {"text": "x"}},
        {"content": "by nobody"},
        "loose",
    ]});
    let expected = [
        "user:",
        &file.to_string(),
        "7",
        "user:",
        r#"{"text":"x"}"#,
        r#"{"content":"by nobody"}"#,
        "\"loose\"",
    ];
    assert_eq!(parts(CHAT, &body), expected);
    assert_eq!(parts(CHAT, &json!({"messages": "Hi"})), ["\"Hi\""]);
    assert_eq!(
        parts(COMPLETIONS, &json!({"prompt": {"a": 1}})),
        [r#"{"a":1}"#]
    );
    assert_eq!(
        parts(EMBEDDINGS, &json!({"input": [[["deep"]]]})),
        [r#"["deep"]"#]
    );
    assert_eq!(parts(RESPONSES, &json!({"input": 7})), ["7"]);
}

#[test]
fn what_only_some_servers_know_is_there_too() {
    let schema = json!({"type": "json_schema", "json_schema": {"schema": "s".repeat(200)}});
    let video = json!({"url": "data:v"});
    for (path, body, expected) in [
        (
            EMBEDDINGS,
            json!({"messages": [{"role": "user", "content": "x"}]}),
            vec!["user:".to_owned(), "x".to_owned()],
        ),
        (
            COMPLETIONS,
            json!({"prompt_embeds": "e"}),
            vec!["\"e\"".to_owned()],
        ),
        (
            CHAT,
            json!({
                "documents": ["d"], "prediction": "p", "response_format": schema.clone(),
                "messages": [{"role": "assistant", "reasoning": "r", "parts": ["q"]}],
            }),
            vec![
                "[\"d\"]".to_owned(),
                "assistant:".to_owned(),
                "r".to_owned(),
                "[\"q\"]".to_owned(),
                "\"p\"".to_owned(),
                schema.to_string(),
            ],
        ),
        (
            CHAT,
            json!({"response_format": {"type": "json_object"}}),
            vec![],
        ),
        (
            CHAT,
            json!({"messages": [{"role": "user", "content": [
                {"text": "", "video_url": video},
                {"text": "", "type": "audio_url", "audio_url": video},
                {"text": "", "type": "image_embeds", "image_embeds": "i"},
                {"text": "", "type": "audio_embeds", "audio_embeds": "a"},
            ]}]}),
            vec![
                "user:".to_owned(),
                String::new(),
                video.to_string(),
                String::new(),
                video.to_string(),
                String::new(),
                "\"i\"".to_owned(),
                String::new(),
                "\"a\"".to_owned(),
            ],
        ),
        (
            RESPONSES,
            json!({"prompt": {"id": "p"}, "text": {"format": schema.clone()}}),
            vec![
                "{\"id\":\"p\"}".to_owned(),
                json!({"format": schema}).to_string(),
            ],
        ),
    ] {
        assert_eq!(parts(path, &body), expected, "{body}");
    }
}
