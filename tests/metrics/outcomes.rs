//! Every request comes to one outcome, and is told under it, once.

use std::{collections::BTreeMap, task::Poll};

use futures::FutureExt;
use http::{Request, Response};
use tokio::runtime::Runtime;
use tower::{Layer, Service, service_fn};
use tower_policy_queue::{PolicyQueueLayer, RequestBody};

use crate::{
    agree,
    common::{
        desk::policy,
        feed::{Broken, FedBody, Feed},
    },
    hall,
    hall::{Hall, chat, hinted, pinned, with},
    ledger::{Ledger, Value},
};

const OUTCOMES: [&str; 5] = ["completed", "failed", "revoked", "cancelled", "rejected"];

const ONE_SLOT: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]";

/// What happens to one request.
struct Case {
    /// The series that counts it, without its prefix, and with the labels of class `chat` left out.
    outcome: &'static str,
    /// Fields of the class.
    class: &'static str,
    rest: &'static str,
    /// What was before.
    before: fn(&mut Hall),
    /// From the request's arrival to its outcome.
    story: fn(&mut Hall, &Runtime),
}

fn nothing(_: &mut Hall) {}

fn one_runs(hall: &mut Hall) {
    hall.arrive("first");
}

fn one_runs_and_one_waits(hall: &mut Hall) {
    hall.arrive("first");
    hall.arrive("second");
}

fn arrives(hall: &mut Hall, _: &Runtime) {
    hall.arrive("it");
}

const CASES: &[Case] = &[
    Case {
        outcome: "completed_total",
        class: "",
        rest: ONE_SLOT,
        before: nothing,
        story: |hall, _| {
            hall.arrive("it");
            hall.finish("it");
        },
    },
    Case {
        outcome: "failed_total",
        class: "",
        rest: ONE_SLOT,
        before: nothing,
        story: |hall, _| {
            hall.arrive("it");
            let (mut body, feed) = hall.stream("it");
            feed.error();
            assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
        },
    },
    Case {
        outcome: "revoked_total",
        class: "max_hold_ms: 50",
        rest: ONE_SLOT,
        before: nothing,
        story: |hall, runtime| {
            hall.arrive("it");
            let (mut body, _feed) = hall.stream("it");
            runtime.block_on(hall.pass(60));
            assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
        },
    },
    Case {
        outcome: "cancelled_total,stage=\"queued\"",
        class: "",
        rest: ONE_SLOT,
        before: one_runs,
        story: |hall, _| {
            hall.arrive("it");
            hall.leave("it");
        },
    },
    Case {
        outcome: "cancelled_total,stage=\"granted\"",
        class: "",
        rest: ONE_SLOT,
        before: nothing,
        story: |hall, _| {
            hall.call("it", with("it", &[]));
            hall.leave("it");
        },
    },
    Case {
        outcome: "cancelled_total,stage=\"running\"",
        class: "",
        rest: ONE_SLOT,
        before: nothing,
        story: |hall, _| {
            hall.arrive("it");
            hall.leave("it");
        },
    },
    Case {
        outcome: "rejected_total,code=\"queue_rejected\"",
        class: "",
        rest: "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]",
        before: one_runs,
        story: arrives,
    },
    Case {
        outcome: "rejected_total,code=\"queue_full\"",
        class: "",
        rest: ONE_SLOT,
        before: one_runs_and_one_waits,
        story: arrives,
    },
    Case {
        outcome: "rejected_total,code=\"client_queue_limit\"",
        class: "",
        rest: "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue_per_client: 1}]",
        before: one_runs_and_one_waits,
        story: arrives,
    },
    Case {
        outcome: "rejected_total,code=\"policy_class_queue_limit\"",
        class: "request_queue_limit_per_worker: 1",
        rest: ONE_SLOT,
        before: one_runs_and_one_waits,
        story: arrives,
    },
    Case {
        outcome: "rejected_total,code=\"queue_timeout\"",
        class: "max_queue_wait_ms: 50",
        rest: ONE_SLOT,
        before: one_runs,
        story: |hall, runtime| {
            hall.arrive("it");
            runtime.block_on(hall.pass(60));
        },
    },
    Case {
        outcome: "rejected_total,code=\"queue_unavailable\"",
        class: "",
        rest: ONE_SLOT,
        before: one_runs,
        story: |hall, _| {
            hall.arrive("it");
            hall.handle.close_dominion("pool").unwrap();
            hall.settle();
        },
    },
    Case {
        outcome: "rejected_total,code=\"no_eligible_worker\"",
        class: "",
        rest: "
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints: [{id: w0, dominion: pool}]",
        before: |hall| hall.handle.drain_worker("w0", true).unwrap(),
        story: |hall, _| hall.send("it", hinted("it", pinned("w0"))),
    },
    Case {
        outcome: "rejected_total,code=\"profile_switch\"",
        class: "",
        rest: "
dominions: [{id: pool, kind: local, max_concurrency: 1}]
local_models: [{id: day-model, dominion: pool}, {id: night-model, dominion: pool}]
profiles: [{name: day, models: [day-model]}, {name: night, models: [night-model]}]",
        before: |hall| hall.send("first", hinted("first", pinned("night-model"))),
        story: |hall, _| {
            hall.send("it", hinted("it", pinned("day-model")));
            hall.handle.switch_profile("night").unwrap();
            hall.settle();
        },
    },
    Case {
        outcome: "rejected_total,code=\"hold_timeout\"",
        class: "max_hold_ms: 50",
        rest: ONE_SLOT,
        before: nothing,
        story: |hall, runtime| {
            hall.arrive("it");
            runtime.block_on(hall.pass(60));
        },
    },
];

fn outcomes(values: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let is_outcome = |series: &str| {
        OUTCOMES
            .iter()
            .any(|outcome| series.starts_with(&format!("policy_queue_{outcome}_total")))
    };
    values
        .into_iter()
        .filter(|(series, _)| is_outcome(series))
        .collect()
}

#[track_caller]
fn one_outcome(ledger: &Ledger, before: &BTreeMap<String, Value>, series: &str) {
    let changed = outcomes(ledger.since(before));
    assert_eq!(
        changed,
        BTreeMap::from([(series.to_owned(), Value::Counter(1))])
    );
}

#[test]
fn each_outcome_adds_one_to_one_series() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _inside = runtime.enter();
    for case in CASES {
        let (mut hall, ledger) = hall(&chat(case.class, case.rest));
        (case.before)(&mut hall);
        let before = ledger.values();
        (case.story)(&mut hall, &runtime);
        let (name, label) = case.outcome.split_once(',').unwrap_or((case.outcome, ""));
        let label = match label {
            "" => String::new(),
            label => format!(",{label}"),
        };
        one_outcome(
            &ledger,
            &before,
            &format!("policy_queue_{name}{{dominion=\"pool\",profile=\"\",class=\"chat\"{label}}}"),
        );
        agree(&ledger, &hall.handle);
        let came = "policy_queue_requests_total{dominion=\"pool\",profile=\"\",class=\"chat\"}";
        let (Some(Value::Counter(before)), now) = (before.get(came), ledger.number(came)) else {
            panic!("{came}");
        };
        assert_eq!(*before + 1, now as u64, "{}", case.outcome);
    }
}

#[test]
fn the_table_has_every_code_that_a_class_can_have() {
    let (_hall, ledger) = hall(&chat("", ONE_SLOT));
    let code = |series: String| {
        let code = series.split_once("code=\"")?.1.split('"').next()?;
        Some(code.to_owned())
    };
    let mut codes: Vec<String> = ledger.values().into_keys().filter_map(code).collect();
    codes.sort();
    codes.dedup();
    assert_eq!(codes.len(), 11);
    // The two that other tests here are about.
    codes.retain(|code| code != "request_body_error" && code != "invalid_queue_header");
    for code in codes {
        let outcome = format!("rejected_total,code={code:?}");
        assert!(
            CASES.iter().any(|case| case.outcome == outcome),
            "{outcome}"
        );
    }
}

#[test]
fn a_body_that_fails_while_it_waits_is_told_as_rejected() {
    let ledger = Ledger::default();
    let layer = ledger.during(|| PolicyQueueLayer::new(policy(&chat("", ONE_SLOT))));
    let mut service = layer.layer(service_fn(|_: Request<RequestBody<FedBody>>| {
        std::future::pending::<Result<Response<FedBody>, Broken>>()
    }));
    let _running = service.call(Request::new(FedBody::empty()));
    let before = ledger.values();
    let feed = Feed::new();
    let waiting = service.call(Request::new(feed.body()));
    feed.error();
    let response = waiting.now_or_never().unwrap().unwrap();
    assert_eq!(response.status(), 400);
    let labels = "dominion=\"pool\",profile=\"\",class=\"chat\",code=\"request_body_error\"";
    one_outcome(
        &ledger,
        &before,
        &format!("policy_queue_rejected_total{{{labels}}}"),
    );
    agree(&ledger, &layer.handle());
}

#[test]
fn requests_that_come_to_no_class_are_told_too() {
    let yaml = format!("{ONE_SLOT}\nheaders: {{strict_priority: x-tier}}\nbypass: [/health]");
    let (mut hall, ledger) = hall(&chat("", &yaml));
    let nowhere = "dominion=\"\",profile=\"\",class=\"\"";

    let before = ledger.values();
    hall.send("bad", with("bad", &[("x-tier", "high")]));
    assert_eq!(hall.state("bad"), "invalid_queue_header");
    let series = format!("policy_queue_rejected_total{{{nowhere},code=\"invalid_queue_header\"}}");
    assert_eq!(
        ledger.since(&before),
        BTreeMap::from([(series, Value::Counter(1))])
    );

    let before = ledger.values();
    hall.send("lost", hinted("lost", pinned("nobody")));
    let series = format!("policy_queue_rejected_total{{{nowhere},code=\"no_eligible_worker\"}}");
    assert_eq!(
        ledger.since(&before),
        BTreeMap::from([(series, Value::Counter(1))])
    );

    let before = ledger.values();
    hall.arrive("health");
    let bypassed = "policy_queue_bypassed_total".to_owned();
    assert_eq!(
        ledger.since(&before),
        BTreeMap::from([(bypassed, Value::Counter(1))])
    );

    hall.arrive("parent");
    let before = ledger.values();
    let mut child = with("child", &[]);
    let admission = hall.scene.desk.admission("parent");
    child.extensions_mut().insert(admission);
    hall.send("child", child);
    let nested = "policy_queue_nested_total".to_owned();
    assert_eq!(
        ledger.since(&before),
        BTreeMap::from([(nested, Value::Counter(1))])
    );
    agree(&ledger, &hall.handle);
}
