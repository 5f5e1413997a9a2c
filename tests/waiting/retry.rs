//! When it is worth coming again.

use tower_policy_queue::{QueueHints, Rejection};

use crate::{
    common::desk::get,
    hall::{Hall, chat, hinted, pinned, wait_ms, with},
};

/// What a response says: the seconds of `retry-after` and the milliseconds of `retry-after-ms`.
fn advice(hall: &mut Hall, id: &str) -> Option<(u64, u64)> {
    let response = hall.response(id);
    let rejection: &Rejection = response.extensions().get().unwrap();
    let headers = response.headers();
    assert_eq!(
        headers["x-policy-queue-reason"],
        rejection.code(),
        "the code is in a header too"
    );
    let number = |name: &str| {
        let value = headers.get(name)?.to_str().unwrap();
        Some(value.parse().expect("a whole number"))
    };
    let advice = number("retry-after").zip(number("retry-after-ms"));
    assert_eq!(
        advice.is_some(),
        headers.contains_key("retry-after") || headers.contains_key("retry-after-ms"),
        "both or neither"
    );
    assert_eq!(advice.is_some(), rejection.retry_after().is_some());
    if let Some((seconds, milliseconds)) = advice {
        assert!((1..=60).contains(&seconds), "{seconds} s");
        assert!(
            ((seconds - 1) * 1000..=seconds * 1000).contains(&milliseconds),
            "{seconds} s are {milliseconds} ms, rounded up"
        );
        assert!(milliseconds >= 1000);
    }
    advice
}

/// One slot whose requests took this long, in milliseconds, and room for so many to wait.
async fn seasoned(held: u64, room: usize) -> Hall {
    let mut hall = Hall::new(&format!(
        "dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: {room}}}]"
    ));
    for n in 0..20 {
        let id = format!("past-{n}");
        hall.arrive(&id);
        hall.pass(held).await;
        hall.finish(&id);
    }
    hall
}

fn sized(id: &str, tokens: Option<u64>) -> http::Request<crate::common::NoBody> {
    let hints = QueueHints {
        raw_isl_tokens: tokens,
        ..QueueHints::default()
    };
    hinted(id, hints)
}

/// The advice to who finds a full queue of this length, all costing the same.
async fn advice_of_a_queue_of(room: usize, held: u64, tokens: Option<u64>) -> (u64, u64) {
    let mut hall = Hall::new(&format!(
        "dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: {room}}}]"
    ));
    for n in 0..20 {
        let id = format!("past-{n}");
        hall.send(&id, sized(&id, tokens));
        hall.pass(held).await;
        hall.finish(&id);
    }
    hall.send("running", sized("running", tokens));
    for n in 0..room {
        let id = n.to_string();
        hall.send(&id, sized(&id, tokens));
    }
    hall.send("refused", sized("refused", tokens));
    assert_eq!(hall.state("refused"), "queue_full");
    advice(&mut hall, "refused").expect("a full queue drains")
}

#[tokio::test(start_paused = true)]
async fn the_longer_the_queue_the_later_it_is_worth_coming_again() {
    for tokens in [None, Some(1), Some(500)] {
        let mut last = 0;
        for room in [1, 4, 8, 16] {
            let (_, milliseconds) = advice_of_a_queue_of(room, 1000, tokens).await;
            let expected = 1000 * (room as u64 + 1);
            assert!(
                (expected..=expected * 5 / 4).contains(&milliseconds),
                "{room} wait, of {tokens:?} tokens and a second each: {milliseconds} ms"
            );
            assert!(milliseconds > last);
            last = milliseconds;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_a_second_at_least_and_a_minute_at_most() {
    let (_, milliseconds) = advice_of_a_queue_of(2, 1, None).await;
    assert!(
        (1000..=1250).contains(&milliseconds),
        "who is quick: {milliseconds} ms"
    );
    let (_, milliseconds) = advice_of_a_queue_of(100, 30_000, None).await;
    assert!(
        (48_000..=60_000).contains(&milliseconds),
        "who is slow: {milliseconds} ms"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dominion_that_has_served_nobody_yet_says_a_second_or_so() {
    let mut hall = Hall::new("dominions: [{id: pool, max_concurrency: 1, max_queue: 1}]");
    for id in ["running", "waiting", "refused", "refused-too"] {
        hall.arrive(id);
    }
    let (_, first) = advice(&mut hall, "refused").unwrap();
    let (_, second) = advice(&mut hall, "refused-too").unwrap();
    assert!((1000..=1250).contains(&first) && (1000..=1250).contains(&second));
    assert_ne!(first, second, "and not the same to everybody");
}

#[tokio::test(start_paused = true)]
async fn those_turned_away_together_are_spread_and_always_in_the_same_way() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut hall = seasoned(10_000, 1).await;
        hall.arrive("running");
        hall.arrive("waiting");
        let mut told = Vec::new();
        for n in 0..16 {
            let id = format!("refused-{n}");
            hall.arrive(&id);
            let (_, milliseconds) = advice(&mut hall, &id).unwrap();
            assert!(
                (20_000..=25_000).contains(&milliseconds),
                "by a quarter at most: {milliseconds}"
            );
            told.push(milliseconds);
        }
        runs.push(told.clone());
        told.sort_unstable();
        let closest = told.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(closest > Some(50), "no two come back together: {told:?}");
    }
    assert_eq!(runs[0], runs[1], "nothing is random about it");
}

#[tokio::test(start_paused = true)]
async fn more_slots_drain_faster() {
    let mut hall = seasoned(4_000, 8).await;
    for n in 0..9 {
        hall.arrive(&n.to_string());
    }
    hall.arrive("refused");
    let (one, _) = advice(&mut hall, "refused").unwrap();
    hall.handle.set_max_concurrency("pool", Some(9)).unwrap();
    hall.settle();
    for n in 10..18 {
        hall.arrive(&n.to_string());
    }
    hall.arrive("refused-again");
    let (nine, _) = advice(&mut hall, "refused-again").unwrap();
    assert!(nine * 5 < one, "nine slots: {nine} s, one: {one} s");
}

#[tokio::test(start_paused = true)]
async fn slots_taken_back_at_the_longest_hold_drain_too() {
    let yaml = chat(
        "max_hold_ms: 10000",
        "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]",
    );
    let mut hall = Hall::new(&yaml);
    for n in 0..5 {
        let id = format!("slow-{n}");
        hall.arrive(&id);
        hall.pass(10_000).await;
        assert_eq!(hall.state(&id), "hold_timeout");
    }
    for id in ["running", "waiting", "refused"] {
        hall.arrive(id);
    }
    let (seconds, _) = advice(&mut hall, "refused").unwrap();
    assert!(
        (20..=25).contains(&seconds),
        "ten seconds for each of two: {seconds}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_answer_that_is_worth_retrying_says_when_and_no_other_does() {
    let dominion = |fields: &str| {
        format!(
            "dominions: [{{id: pool, max_concurrency: 1, {fields}}}]\nheaders: {{max_queue_wait_ms: x-wait}}"
        )
    };
    let queue = dominion("max_queue: 1");
    let own = dominion("max_queue_per_client: 1");
    let reject = dominion("policy: reject");
    let limited = chat("request_queue_limit_per_worker: 0", &queue);
    let short_hold = chat("max_hold_ms: 10", &queue);
    let local = "
dominions: [{id: pool, kind: local, max_concurrency: 1}]
local_models: [{id: big, dominion: pool}, {id: small, dominion: pool}]
profiles: [{name: only-small, models: [small]}]
";
    let refused = || get("refused");
    for (code, yaml, before, request, retry) in [
        ("queue_rejected", &*reject, 1, refused(), true),
        ("queue_full", &queue, 2, refused(), true),
        ("client_queue_limit", &own, 2, refused(), true),
        ("policy_class_queue_limit", &limited, 1, refused(), true),
        (
            "queue_timeout",
            &queue,
            1,
            hinted("refused", wait_ms(5)),
            true,
        ),
        ("queue_unavailable", &queue, 1, refused(), true),
        (
            "profile_switch",
            local,
            1,
            hinted("refused", pinned("big")),
            true,
        ),
        (
            "profile_switch",
            local,
            0,
            hinted("refused", pinned("big")),
            true,
        ),
        (
            "no_eligible_worker",
            local,
            0,
            hinted("refused", pinned("none")),
            false,
        ),
        ("hold_timeout", &short_hold, 0, refused(), false),
        (
            "invalid_queue_header",
            &queue,
            0,
            with("refused", &[("x-wait", "?")]),
            false,
        ),
    ] {
        let mut hall = Hall::new(yaml);
        for n in 0..before {
            hall.arrive(&n.to_string());
        }
        hall.send("refused", request);
        match code {
            "profile_switch" => hall.handle.switch_profile("only-small").unwrap(),
            "queue_unavailable" => hall.handle.shutdown(),
            _ => hall.pass(10).await,
        }
        assert_eq!(hall.state("refused"), code);
        let advice = advice(&mut hall, "refused");
        assert_eq!(advice.is_some(), retry, "{code}: {advice:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_admitted_response_says_nothing_of_it() {
    let mut hall = seasoned(1000, 1).await;
    hall.arrive("running");
    hall.scene
        .desk
        .answer("running", crate::common::feed::FedBody::empty());
    let response = hall.response("running");
    for name in ["retry-after", "retry-after-ms", "x-policy-queue-reason"] {
        assert!(!response.headers().contains_key(name), "{name}");
    }
}
