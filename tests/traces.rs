//! Replays the traces in `tests/traces` through the real layer.
//!
//! A trace is a policy, a sequence of operations, and what an independent model of the rules says
//! that each of them causes: which requests reach the inner service, and which are turned away.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, path::Path, time::Duration};

use common::{Bench, Effect};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tower_policy_queue::{PolicyConfig, PolicyQueueLayer};

#[tokio::test(start_paused = true)]
async fn every_trace_is_replayed_step_by_step() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "json"));
    files.sort();
    assert!(files.len() >= 40, "the traces are there");

    let mut failures = Vec::new();
    for file in files {
        let trace: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        if let Err(failure) = replay(&trace).await {
            failures.push(format!("{}: {failure}", trace["name"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn replay(trace: &Value) -> Result<(), String> {
    let config: PolicyConfig = trace["config"]
        .as_str()
        .unwrap()
        .parse()
        .map_err(|e| format!("{e}"))?;
    let mut bench = Bench::new(&PolicyQueueLayer::new(config));
    for (number, step) in trace["steps"].as_array().unwrap().iter().enumerate() {
        let mut caused = operate(&mut bench, step).await;
        let expected = step["then"].as_array().into_iter().flatten();
        let mut expected: Vec<_> = expected.map(effect).collect();
        caused.sort();
        expected.sort();
        if caused != expected {
            return Err(format!("step {number} {step}\n  caused {caused:?}"));
        }
    }
    Ok(())
}

async fn operate(bench: &mut Bench, step: &Value) -> Vec<Effect> {
    let id = |operation: &str| step[operation].as_str();
    if let Some(arrival) = step.get("arrive") {
        return bench.arrive(arrival["id"].as_str().unwrap(), headers(arrival));
    }
    if let Some(id) = id("first_byte") {
        return bench.first_byte(id);
    }
    if let Some(id) = id("finish") {
        return bench.finish(id);
    }
    if let Some(id) = id("cancel") {
        return bench.cancel(id);
    }
    let milliseconds = step["advance_ms"].as_u64().expect("a known operation");
    tokio::time::advance(Duration::from_millis(milliseconds)).await;
    Vec::new()
}

fn headers(arrival: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |name: &'static str, value: &Value| {
        let text = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            Value::Array(items) => items
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(","),
            other => other.to_string(),
        };
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_str(&text).unwrap(),
        );
    };
    put("x-dynamo-meta-policy-class", &arrival["policy"]);
    put("x-promptforge-client", &arrival["client"]);
    put("x-model", &arrival["model"]);
    put(
        "x-raw-isl-tokens",
        &arrival.get("raw_isl").cloned().unwrap_or(Value::from(1)),
    );
    put("x-cached-tokens", &arrival["cached"]);
    put("x-strict-priority", &arrival["strict_priority"]);
    put("x-priority-jump", &arrival["priority_jump"]);
    put("x-worker", &arrival["worker"]);
    put("x-allowed-workers", &arrival["allowed_workers"]);
    headers
}

fn effect(expected: &Value) -> Effect {
    let id = expected["id"].as_str().unwrap().to_owned();
    if let Some(reject) = expected.get("reject") {
        return Effect::Reject {
            id,
            status: reject["status"].as_u64().unwrap() as u16,
            code: reject["code"].as_str().unwrap().to_owned(),
        };
    }
    let dispatch = &expected["dispatch"];
    let text = |field: &str| dispatch[field].as_str().map(str::to_owned);
    Effect::Dispatch {
        id,
        class: text("class").unwrap(),
        profile: text("profile"),
        dominion: text("dominion"),
        worker: text("worker"),
    }
}
