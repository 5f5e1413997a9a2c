//! Gauges follow what is, and histograms have what happened.

use tower_policy_queue::QueueHints;

use crate::{
    agree, hall,
    hall::{Hall, chat, hinted, with},
    ledger::Value,
    series::POLICY,
};

const CHAT: &str = "dominion=\"pool\",profile=\"\",class=\"chat\"";

#[tokio::test(start_paused = true)]
async fn waits_are_from_the_arrival_to_the_grant_and_nothing_for_who_did_not_wait() {
    let dominion = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
    let (mut hall, ledger) = hall(&chat("", dominion));
    let waits = format!("policy_queue_wait_seconds{{{CHAT}}}");
    let holds = format!("policy_queue_hold_seconds{{{CHAT}}}");
    hall.arrive("first");
    assert_eq!(ledger.samples(&waits), [0.0]);
    hall.arrive("second");
    hall.arrive("third");
    hall.pass(1500).await;
    hall.leave("third");
    hall.finish("first");
    assert_eq!(ledger.samples(&waits), [0.0, 1.5]);
    assert_eq!(ledger.samples(&holds), [1.5]);
    let (body, _feed) = hall.stream("second");
    hall.pass(250).await;
    drop(body);
    assert_eq!(ledger.samples(&holds), [1.5, 0.25]);
    assert_eq!(ledger.samples(&waits).len(), 2, "who left was not admitted");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_taken_back_is_as_long_as_it_was() {
    let dominion = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
    let (mut hall, ledger) = hall(&chat("max_hold_ms: 100", dominion));
    hall.arrive("first");
    let (_body, _feed) = hall.stream("first");
    hall.arrive("second");
    hall.pass(100).await;
    assert_eq!(hall.state("second"), "running", "its timekeeper took it");
    let holds = format!("policy_queue_hold_seconds{{{CHAT}}}");
    assert_eq!(ledger.samples(&holds), [0.1]);
}

#[test]
fn tokens_that_nobody_can_have_do_not_unsettle_a_gauge() {
    let (mut hall, ledger) = hall(POLICY);
    let huge = "18446744073709551615";
    hall.send("huge", with("huge", &[("x-raw", huge), ("x-worker", "w0")]));
    hall.send(
        "small",
        with("small", &[("x-raw", "3"), ("x-worker", "w0")]),
    );
    for (id, tokens) in [("3", huge), ("4", "5")] {
        hall.send(id, with(id, &[("x-raw", tokens)]));
    }
    let prefill = "policy_queue_worker_prefill_tokens{dominion=\"pool\",worker=\"w0\"}";
    let waiting = format!("policy_queue_waiting_tokens{{{CHAT}}}");
    let most = (1_u64 << 50) as f64;
    assert_eq!(
        (ledger.number(prefill), ledger.number(&waiting)),
        (most, most)
    );
    hall.finish("huge");
    hall.leave("3");
    hall.leave("4");
    agree(&ledger, &hall.handle);
    hall.finish("small");
    assert_eq!(
        (ledger.number(prefill), ledger.number(&waiting)),
        (0.0, 0.0)
    );
}

/// The next of a fixed sequence of numbers, below `bound`.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: usize) -> usize {
        // Knuth's constants; the upper bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[tokio::test(start_paused = true)]
async fn gauges_and_counters_are_what_a_snapshot_says_after_whatever_happens() {
    let (mut hall, ledger) = hall(POLICY);
    let mut dice = Dice(1);
    let mut here: Vec<String> = Vec::new();
    for step in 0..600 {
        let which = dice.roll(12);
        match which {
            0..=5 => {
                let id = format!("{step}");
                hall.send(&id, arbitrary(&id, &mut dice));
                here.push(id);
            }
            6 | 7 if !here.is_empty() => {
                let id = here.remove(dice.roll(here.len()));
                if hall.state(&id) == "running" {
                    hall.finish(&id);
                } else {
                    hall.leave(&id);
                }
            }
            8 if !here.is_empty() => hall.leave(&here.remove(dice.roll(here.len()))),
            9 => hall.pass(dice.roll(40) as u64).await,
            10 => limits(&hall, &mut dice),
            _ => {
                let workers = ["w0", "w1"];
                let worker = workers[dice.roll(2)];
                hall.handle.drain_worker(worker, dice.roll(2) == 0).unwrap();
                hall.settle();
            }
        }
        agree(&ledger, &hall.handle);
    }
    let admitted = ledger.number(&format!("policy_queue_admitted_total{{{CHAT}}}"));
    let waited = ledger.samples(&format!("policy_queue_wait_seconds{{{CHAT}}}"));
    assert!(admitted > 20.0 && waited.iter().any(|&wait| wait > 0.0));
    drop(hall);
    for (series, value) in ledger.values() {
        if let Value::Gauge(value) = value {
            assert_eq!(value, 0.0, "{series}: a layer that is gone has nothing");
        }
    }
}

fn arbitrary(id: &str, dice: &mut Dice) -> http::Request<crate::common::NoBody> {
    let policies = ["chat", "batch", "unknown"];
    let hints = QueueHints {
        policy: Some(policies[dice.roll(3)].to_owned()),
        model: (dice.roll(4) == 0).then(|| "org/large".to_owned()),
        worker: (dice.roll(5) == 0).then(|| "w1".to_owned()),
        raw_isl_tokens: Some(dice.roll(300) as u64),
        max_queue_wait_ms: (dice.roll(3) == 0).then_some(20),
        ..QueueHints::default()
    };
    hinted(id, hints)
}

fn limits(hall: &Hall, dice: &mut Dice) {
    let slots = [None, Some(1), Some(2), Some(5)][dice.roll(4)];
    hall.handle.set_max_concurrency("pool", slots).unwrap();
    let queue = 1 + dice.roll(8);
    hall.handle.set_max_queue("pool", queue).unwrap();
}
