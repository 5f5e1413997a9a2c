//! Replays the traces in `tests/traces` through the real layer.
//!
//! A trace is a policy, a sequence of operations, and what an independent model of the rules says
//! that each of them causes: which requests reach the inner service, and which are turned away.
//! What a trace says and this does not know is an error, or it would pass unread.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, path::Path};

use common::{Bench, Effect};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Number, from_str};
use serde_yaml::Value;
use tower_policy_queue::{PolicyConfig, PolicyQueueLayer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    name: String,
    #[serde(rename = "about")]
    _about: String,
    config: String,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    arrive: Option<Arrival>,
    first_byte: Option<String>,
    finish: Option<String>,
    cancel: Option<String>,
    advance_ms: Option<u64>,
    #[serde(default)]
    then: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arrival {
    id: String,
    policy: Option<String>,
    client: Option<String>,
    model: Option<String>,
    raw_isl: Option<Number>,
    cached: Option<Number>,
    strict_priority: Option<Number>,
    priority_jump: Option<Number>,
    worker: Option<String>,
    allowed_workers: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    id: String,
    dispatch: Option<Dispatch>,
    reject: Option<Reject>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dispatch {
    class: String,
    // Of these `null` is an answer, and to leave one out is none.
    #[serde(deserialize_with = "Option::deserialize")]
    profile: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    dominion: Option<String>,
    #[serde(deserialize_with = "Option::deserialize")]
    worker: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reject {
    status: u16,
    code: String,
}

#[tokio::test(start_paused = true)]
async fn every_trace_is_replayed_step_by_step() {
    let mut failures = Vec::new();
    for trace in traces() {
        if let Err(failure) = replay(&trace).await {
            failures.push(format!("{}: {failure}", trace.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_replay_notices_an_outcome_that_is_not_the_expected_one() {
    for mut trace in traces() {
        let last = |step: &Step| !step.then.is_empty();
        let last = trace.steps.iter().rposition(last).unwrap();
        let outcome = trace.steps[last].then.pop().unwrap();
        assert!(replay(&trace).await.is_err(), "{}: one more", trace.name);

        let other = |id: &str| Outcome {
            id: id.to_owned(),
            dispatch: outcome.dispatch.clone(),
            reject: outcome.reject.clone(),
        };
        trace.steps[last].then.push(other("another"));
        assert!(replay(&trace).await.is_err(), "{}: another", trace.name);

        trace.steps[last].then = vec![other(&outcome.id), other("another")];
        assert!(replay(&trace).await.is_err(), "{}: one less", trace.name);
    }
}

#[test]
fn a_step_that_says_what_nobody_reads_is_refused() {
    for step in [
        r#"{"arrives": {"id": "a"}}"#,
        r#"{"arrive": {"id": "a", "tenant": "t"}}"#,
        r#"{"finish": "a", "them": []}"#,
        r#"{"finish": "a", "then": {"id": "b"}}"#,
        r#"{"finish": "a", "then": [{"id": "b", "dispatch": {"class": "c"}}]}"#,
        r#"{"finish": "a", "then": [{"id": "b", "reject": {"status": 429, "code": "c", "type": "t"}}]}"#,
    ] {
        assert!(from_str::<Step>(step).is_err(), "{step}");
    }
}

fn traces() -> Vec<Trace> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "json"));
    files.sort();
    assert!(files.len() >= 40, "the traces are there");
    let read = |file: &Path| {
        let trace = from_str(&fs::read_to_string(file).unwrap());
        trace.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().map(|file| read(file)).collect()
}

async fn replay(trace: &Trace) -> Result<(), String> {
    let config: PolicyConfig = trace.config.parse().map_err(|e| format!("{e}"))?;
    let named = &serde_yaml::from_str::<Value>(&trace.config).unwrap()["headers"];
    let mut bench = Bench::new(&PolicyQueueLayer::new(config));
    for (number, step) in trace.steps.iter().enumerate() {
        let mut caused = operate(&mut bench, step, named).await;
        let mut expected: Vec<_> = step.then.iter().map(effect).collect();
        caused.sort();
        expected.sort();
        if caused != expected {
            return Err(format!("step {number} {step:?}\n  caused {caused:?}"));
        }
    }
    Ok(())
}

async fn operate(bench: &mut Bench, step: &Step, named: &Value) -> Vec<Effect> {
    let Step {
        arrive,
        first_byte,
        finish,
        cancel,
        advance_ms,
        then: _,
    } = step;
    match (arrive, first_byte, finish, cancel, *advance_ms) {
        (Some(arrival), None, None, None, None) => {
            bench.arrive(&arrival.id, headers(arrival, named))
        }
        (None, Some(id), None, None, None) => bench.first_byte(id),
        (None, None, Some(id), None, None) => bench.finish(id),
        (None, None, None, Some(id), None) => bench.cancel(id),
        (None, None, None, None, Some(milliseconds)) => bench.pass(milliseconds).await,
        _ => panic!("a step is one operation: {step:?}"),
    }
}

/// The fields of an arrival, in the headers that the policy names for them.
fn headers(arrival: &Arrival, named: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut put = |field: &str, unnamed: Option<&str>, text: Option<&str>| {
        let Some(text) = text else { return };
        let name = named[field].as_str().or(unnamed);
        let name = name.unwrap_or_else(|| panic!("the policy names no header for {field}"));
        headers.insert(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(text).unwrap(),
        );
    };
    let number = |number: &Option<Number>| number.as_ref().map(Number::to_string);
    let raw_isl = number(&arrival.raw_isl).unwrap_or_else(|| "1".to_owned());
    let allowed = arrival.allowed_workers.as_ref().map(|ids| ids.join(","));
    put(
        "policy",
        Some("x-dynamo-meta-policy-class"),
        arrival.policy.as_deref(),
    );
    put(
        "client",
        Some("x-promptforge-client"),
        arrival.client.as_deref(),
    );
    put("model", None, arrival.model.as_deref());
    put("raw_isl_tokens", None, Some(&raw_isl));
    put("cached_tokens", None, number(&arrival.cached).as_deref());
    put(
        "strict_priority",
        None,
        number(&arrival.strict_priority).as_deref(),
    );
    put(
        "priority_jump",
        None,
        number(&arrival.priority_jump).as_deref(),
    );
    put("worker", None, arrival.worker.as_deref());
    put("allowed_workers", None, allowed.as_deref());
    headers
}

fn effect(expected: &Outcome) -> Effect {
    let id = expected.id.clone();
    match (expected.dispatch.clone(), expected.reject.clone()) {
        (Some(dispatch), None) => Effect::Dispatch {
            id,
            class: dispatch.class,
            profile: dispatch.profile,
            dominion: dispatch.dominion,
            worker: dispatch.worker,
        },
        (None, Some(reject)) => Effect::Reject {
            id,
            status: reject.status,
            code: reject.code,
        },
        _ => panic!("an outcome is a dispatch or a rejection: {expected:?}"),
    }
}
