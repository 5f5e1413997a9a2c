//! A dominion that is not enforced: as it is, and as it would be.

use crate::{
    agree,
    common::desk::policy,
    hall,
    hall::{Hall, chat},
    ledger::Ledger,
};

fn pool(enforce: bool) -> String {
    let limits = "kind: remote, max_concurrency: 1, max_queue: 1";
    chat(
        "",
        &format!("dominions: [{{id: pool, {limits}, enforce: {enforce}}}]"),
    )
}

/// What was told of the dominion as it would be.
fn would_be(ledger: &Ledger, name: &str, more: &str) -> f64 {
    let labels = format!("dominion=\"pool (if enforced)\"{more}");
    ledger.number(&format!("policy_queue_{name}{{{labels}}}"))
}

const CLASS: &str = ",profile=\"\",class=\"chat\"";

fn three_come(hall: &mut Hall) {
    for id in ["1", "2", "3"] {
        hall.arrive(id);
        assert_eq!(hall.state(id), "running");
    }
}

#[tokio::test(start_paused = true)]
async fn what_would_be_is_told_beside_what_is() {
    let (mut hall, ledger) = hall(&pool(false));
    agree(&ledger, &hall.handle);
    three_come(&mut hall);
    agree(&ledger, &hall.handle);
    assert_eq!(would_be(&ledger, "slots", ""), 1.0);
    assert_eq!(would_be(&ledger, "waiting_requests", CLASS), 1.0);
    let full = format!("{CLASS},code=\"queue_full\"");
    assert_eq!(would_be(&ledger, "rejected_total", &full), 1.0);
    let pool = format!("policy_queue_admitted_total{{dominion=\"pool\"{CLASS}}}");
    assert_eq!(ledger.number(&pool), 3.0);

    hall.pass(1_000).await;
    for id in ["1", "2", "3"] {
        hall.finish(id);
    }
    hall.pass(1_000).await;
    // What has come due is played when something happens.
    hall.arrive("4");
    agree(&ledger, &hall.handle);
    let labels = format!("dominion=\"pool (if enforced)\"{CLASS}");
    let seconds = |name: &str| ledger.samples(&format!("policy_queue_{name}{{{labels}}}"));
    assert_eq!(seconds("wait_seconds"), [0.0, 1.0, 0.0]);
    assert_eq!(seconds("hold_seconds"), [1.0, 1.0]);
}

#[test]
fn once_it_is_enforced_nothing_would_be() {
    let (mut hall, ledger) = hall(&pool(false));
    three_come(&mut hall);
    ledger.during(|| hall.handle.reload(policy(&pool(true))).unwrap());
    for (name, labels) in [
        ("slots", ""),
        ("slots_in_use", ""),
        ("waiting_requests", CLASS),
        ("quantum_tokens", CLASS),
    ] {
        assert_eq!(would_be(&ledger, name, labels), 0.0, "{name}");
    }
    let in_use = "policy_queue_slots_in_use{dominion=\"pool\"}";
    assert_eq!(ledger.number(in_use), 3.0);
}
