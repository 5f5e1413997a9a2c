//! One absolute deadline, set at the arrival: the class's, the file's, or the request's own.

use std::{task::Poll, time::Duration};

use tower::{Layer, Service, timeout::Timeout};
use tower_policy_queue::QueueHints;

use crate::{
    common::{
        bell::Polled,
        desk::{Desk, get, policy},
        json,
    },
    hall::{Hall, ONE_SLOT, chat, hinted, pinned, wait_ms, with},
};

/// When, in milliseconds, the request that waits behind another one times out; none: not in an hour.
async fn times_out_after(yaml: &str, request: http::Request<crate::common::NoBody>) -> Option<u64> {
    let mut hall = Hall::new(yaml);
    hall.arrive("running");
    hall.send("waiting", request);
    let begin = tokio::time::Instant::now();
    for step in [1, 9, 10, 10, 20, 40, 10, 50, 50, 100, 3_600_000] {
        assert_eq!(hall.state("running"), "running", "who runs has no deadline");
        if hall.state("waiting") != "waiting" {
            break;
        }
        hall.pass(step).await;
    }
    let passed = begin.elapsed().as_millis() as u64;
    (hall.state("waiting") == "queue_timeout").then_some(passed)
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_as_long_as_its_class_allows_and_no_longer() {
    let mut hall = Hall::new(&chat("max_queue_wait_ms: 100", ONE_SLOT));
    hall.arrive("running");
    hall.arrive("waiting");
    hall.pass(99).await;
    assert_eq!(hall.state("waiting"), "waiting", "its time is not over");
    hall.pass(1).await;
    assert_eq!(
        hall.state("waiting"),
        "queue_timeout",
        "it is answered at its deadline, not when a slot frees"
    );
    let response = hall.response("waiting");
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key("retry-after"));
    let body = json(response.into_body());
    assert_eq!(body["error"]["code"], "queue_timeout");
    assert_eq!(body["error"]["type"], "server_error");
    assert_eq!(hall.counts(), (1, 0), "and it has left the queue");
}

#[tokio::test(start_paused = true)]
async fn a_class_without_a_longest_wait_has_the_file_s() {
    let classes = "
default_policy_family: plain
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: plain, policy_family: plain, cache_bucket: any, quantum: 1}
  - {name: hasty, quantum: 1, max_queue_wait_ms: 50}
  - {name: patient, quantum: 1, max_queue_wait_ms: 200}
models:
  m:
    default_policy_family: own
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: own, policy_family: own, cache_bucket: any, quantum: 1}]
";
    let classes = format!("{classes}\n{ONE_SLOT}");
    let file = format!("max_queue_wait_ms: 100\n{classes}");
    let request = |policy: &str, model: Option<&str>| {
        let hints = QueueHints {
            policy: Some(policy.to_owned()),
            model: model.map(str::to_owned),
            ..QueueHints::default()
        };
        hinted("waiting", hints)
    };
    for (policy, model, in_file, without) in [
        ("plain", None, Some(100), None),
        ("hasty", None, Some(50), Some(50)),
        ("patient", None, Some(200), Some(200)),
        ("own", Some("m"), Some(100), None),
    ] {
        let passed = times_out_after(&file, request(policy, model)).await;
        assert_eq!(passed, in_file, "{policy}, with a default of the file");
        let passed = times_out_after(&classes, request(policy, model)).await;
        assert_eq!(passed, without, "{policy}, without one");
    }
    let no_classes = format!("max_queue_wait_ms: 100\n{ONE_SLOT}");
    let passed = times_out_after(&no_classes, get("waiting")).await;
    assert_eq!(passed, Some(100), "the class of a file without classes");
}

#[tokio::test(start_paused = true)]
async fn a_request_may_shorten_its_wait_and_never_lengthen_it() {
    let header = "headers: {max_queue_wait_ms: x-wait}";
    let limited = chat("max_queue_wait_ms: 100", &format!("{ONE_SLOT}\n{header}"));
    let unlimited = chat("", &format!("{ONE_SLOT}\n{header}"));
    for (own, of_100, of_none) in [
        (20, 20, 20),
        (100, 100, 100),
        (150, 100, 150),
        (u64::MAX, 100, 0),
    ] {
        let by_header = || with("waiting", &[("x-wait", &own.to_string())]);
        let by_hint = || hinted("waiting", wait_ms(own));
        let of_none = (of_none > 0).then_some(of_none);
        for (source, request) in [("header", by_header()), ("hint", by_hint())] {
            let passed = times_out_after(&limited, request).await;
            assert_eq!(
                passed,
                Some(of_100),
                "{own} by {source}: the shorter counts"
            );
        }
        for (source, request) in [("header", by_header()), ("hint", by_hint())] {
            let passed = times_out_after(&unlimited, request).await;
            assert_eq!(passed, of_none, "{own} by {source}, in a class without any");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_believed_before_the_header_and_an_unnamed_header_not_at_all() {
    let named = chat(
        "",
        &format!("{ONE_SLOT}\nheaders: {{max_queue_wait_ms: x-wait}}"),
    );
    let both = || {
        let mut request = with("waiting", &[("x-wait", "20")]);
        request.extensions_mut().insert(wait_ms(50));
        request
    };
    assert_eq!(times_out_after(&named, both()).await, Some(50));
    let passed = times_out_after(&chat("", ONE_SLOT), with("waiting", &[("x-wait", "20")])).await;
    assert_eq!(passed, None, "the policy names no header for it");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_cannot_be_read_is_an_error() {
    let yaml = chat(
        "",
        &format!("{ONE_SLOT}\nheaders: {{max_queue_wait_ms: x-wait}}"),
    );
    for wrong in ["soon", "-1", "1.5", "99999999999999999999", ""] {
        let mut hall = Hall::new(&yaml);
        hall.send("odd", with("odd", &[("x-wait", wrong)]));
        assert_eq!(hall.state("odd"), "invalid_queue_header", "{wrong:?}");
        let response = hall.response("odd");
        assert_eq!(response.status(), 400);
        assert_eq!(json(response.into_body())["error"]["header"], "x-wait");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_the_arrival_whenever_the_request_is_polled() {
    let mut hall = Hall::new(&chat("max_queue_wait_ms: 100", ONE_SLOT));
    hall.arrive("running");
    hall.call("late", get("late"));
    hall.pass(60).await;
    hall.thaw("late");
    for _ in 0..39 {
        hall.pass(1).await;
        assert_eq!(hall.state("late"), "waiting");
    }
    hall.pass(1).await;
    assert_eq!(
        hall.state("late"),
        "queue_timeout",
        "neither the first poll nor a later one starts it anew"
    );

    hall.call("never", get("never"));
    hall.pass(1000).await;
    hall.thaw("never");
    assert_eq!(
        hall.state("never"),
        "queue_timeout",
        "it was over before the first poll"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_nothing_starts_at_once_or_not_at_all() {
    let mut hall = Hall::new(&chat("", ONE_SLOT));
    hall.send("first", hinted("first", wait_ms(0)));
    hall.send("second", hinted("second", wait_ms(0)));
    hall.pass(0).await;
    assert_eq!(
        hall.states(["first", "second"]),
        ["running", "queue_timeout"]
    );
}

#[tokio::test(start_paused = true)]
async fn each_has_a_deadline_of_its_own() {
    let mut hall = Hall::new(&chat("max_queue_wait_ms: 100", ONE_SLOT));
    hall.arrive("running");
    for (id, wait) in [("c", 30), ("a", 10), ("b", 20), ("d", 400)] {
        hall.send(id, hinted(id, wait_ms(wait)));
    }
    for over in 0..=3 {
        let left = ["a", "b", "c"].map(|id| hall.state(id) == "waiting");
        assert_eq!(left, [over < 1, over < 2, over < 3], "after {over}0 ms");
        assert_eq!(
            hall.counts(),
            (1, 4 - over),
            "who waits no longer is not counted"
        );
        hall.pass(10).await;
    }
    assert_eq!(hall.state("d"), "waiting");
    hall.pass(60).await;
    assert_eq!(hall.state("d"), "queue_timeout");
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_request_frees_its_place_at_once() {
    let config = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]";
    let mut hall = Hall::new(&chat("max_queue_wait_ms: 100", config));
    hall.arrive("running");
    hall.arrive("waiting");
    hall.arrive("refused");
    assert_eq!(
        hall.states(["waiting", "refused"]),
        ["waiting", "queue_full"]
    );
    hall.pass(100).await;
    hall.arrive("next");
    assert_eq!(
        hall.states(["waiting", "next"]),
        ["queue_timeout", "waiting"],
        "though its answer is still there and its future too"
    );
    hall.finish("running");
    assert_eq!(hall.state("next"), "running");
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_request_counts_no_more_toward_the_limits_of_its_class() {
    let fields = "max_queue_wait_ms: 100, raw_isl_token_queue_limit_per_worker: 50";
    let sized = |id: &str| {
        let hints = QueueHints {
            raw_isl_tokens: Some(50),
            ..QueueHints::default()
        };
        hinted(id, hints)
    };
    let mut hall = Hall::new(&chat(fields, ONE_SLOT));
    hall.arrive("running");
    hall.send("waiting", sized("waiting"));
    hall.send("refused", sized("refused"));
    hall.pass(100).await;
    hall.send("next", sized("next"));
    assert_eq!(
        hall.states(["waiting", "refused", "next"]),
        ["queue_timeout", "policy_class_queue_limit", "waiting"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_blocked_head_that_times_out_unblocks_its_lane() {
    let yaml = chat(
        "prefill_busy_threshold: 0",
        "
dominions: [{id: pool, kind: remote, max_concurrency: 10}]
endpoints: [{id: a, dominion: pool}, {id: b, dominion: pool}]
",
    );
    let sized = |hints: QueueHints| QueueHints {
        raw_isl_tokens: Some(10),
        ..hints
    };
    let mut hall = Hall::new(&yaml);
    hall.send("running", hinted("running", sized(pinned("a"))));
    let head = QueueHints {
        allowed_workers: Some(vec!["a".to_owned()]),
        ..sized(wait_ms(50))
    };
    hall.send("head", hinted("head", head));
    hall.send("next", hinted("next", sized(QueueHints::default())));
    assert_eq!(
        hall.states(["head", "next"]),
        ["waiting", "waiting"],
        "nobody overtakes a head in its lane, though `b` is idle"
    );
    hall.pass(50).await;
    assert_eq!(hall.states(["head", "next"]), ["queue_timeout", "running"]);
    assert_eq!(hall.worker("next").as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_outside_of_the_layer_ends_the_wait_and_frees_the_place() {
    let layer = tower_policy_queue::PolicyQueueLayer::new(policy(ONE_SLOT));
    let desk = Desk::default();
    let mut service = Timeout::new(layer.layer(desk.clone()), Duration::from_millis(100));
    let mut first = Polled::new(service.call(get("first")));
    assert!(first.poll().is_pending());
    tokio::time::advance(Duration::from_millis(50)).await;
    let mut second = Polled::new(service.call(get("second")));
    assert!(second.poll().is_pending());
    tokio::time::advance(Duration::from_millis(50)).await;
    assert!(
        matches!(first.poll(), Poll::Ready(Err(error)) if error.is::<tower::timeout::error::Elapsed>()),
        "the timeout covers the work"
    );
    drop(first);
    assert_eq!(second.rings(), 1, "the slot goes to the next one");
    assert!(second.poll().is_pending());
    let mut third = Polled::new(service.call(get("third")));
    assert!(third.poll().is_pending());
    tokio::time::advance(Duration::from_millis(99)).await;
    drop(second);
    let mut fourth = Polled::new(service.call(get("fourth")));
    assert!(fourth.poll().is_pending());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(
        matches!(third.poll(), Poll::Ready(Err(_))),
        "and it covers the waiting"
    );
    assert_eq!(layer.handle().usage().waiting, 1, "the fourth one");
    drop(third);
    assert_eq!(layer.handle().usage().waiting, 0);
    assert_eq!(fourth.rings(), 1, "a slot granted to who timed out goes on");
}
