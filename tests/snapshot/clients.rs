//! Clients' labels: who waits under them, and when they are forgotten.

use tower_policy_queue::{ClientSnapshot, PolicyConfig, QueueHints};

use crate::{asks, gold_and_bulk, hall::Hall, pool};

const FAIR: &str = "
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 100, fair_scheduling: true}]";

fn of(client: &str) -> QueueHints {
    QueueHints {
        client: Some(client.to_owned()),
        ..asks("gold", 10)
    }
}

/// Labels with how many wait under them and how many were served.
fn clients(hall: &Hall) -> Vec<(String, usize, u64)> {
    let clients = pool(hall).clients.into_iter();
    let parts = |it: ClientSnapshot| (it.label.into(), it.waiting, it.served);
    clients.map(parts).collect()
}

fn row(label: &str, waiting: usize, served: u64) -> (String, usize, u64) {
    (label.to_owned(), waiting, served)
}

#[tokio::test(start_paused = true)]
async fn a_label_is_shown_while_somebody_waits_under_it() {
    let mut hall = Hall::new(&gold_and_bulk(FAIR));
    hall.hint("running", of("ann"));
    assert!(clients(&hall).is_empty(), "it did not have to wait");
    hall.hint("a1", of("ann"));
    hall.hint("a2", of("ann"));
    hall.hint("b1", of("bob"));
    hall.hint("x", of("no label"));
    assert_eq!(
        clients(&hall),
        [row("ann", 2, 0), row("bob", 1, 0), row("default", 1, 0)]
    );
    let waiting_under: Vec<_> = pool(&hall)
        .waiters
        .into_iter()
        .map(|it| it.client)
        .collect();
    let waiting_under: Vec<_> = waiting_under.iter().map(Option::as_deref).collect();
    assert_eq!(
        waiting_under,
        [Some("ann"), Some("bob"), Some("default"), Some("ann")]
    );

    hall.finish("running");
    assert_eq!(
        clients(&hall),
        [row("ann", 1, 1), row("bob", 1, 0), row("default", 1, 0)]
    );
    hall.finish("a1");
    assert_eq!(
        clients(&hall),
        [row("ann", 1, 1), row("default", 1, 0)],
        "nobody waits under bob"
    );
    hall.leave("a2");
    hall.finish("b1");
    assert_eq!(clients(&hall), [row("default", 0, 1)]);
    hall.hint("a3", of("ann"));
    assert_eq!(
        clients(&hall),
        [row("ann", 1, 0), row("default", 0, 1)],
        "what ann was served before is forgotten"
    );
}

#[tokio::test(start_paused = true)]
async fn there_are_33_labels_at_most() {
    let mut hall = Hall::new(&gold_and_bulk(FAIR));
    hall.hint("running", of("first"));
    for number in 0..50 {
        hall.hint(&format!("{number}"), of(&format!("client-{number}")));
    }
    let all = clients(&hall);
    assert_eq!(all.len(), 33);
    let default = all.iter().find(|(label, ..)| label == "default");
    assert_eq!(default, Some(&row("default", 18, 0)));
    assert_eq!(all.iter().map(|(_, waiting, _)| waiting).sum::<usize>(), 50);
}

#[tokio::test(start_paused = true)]
async fn without_turns_between_clients_there_are_no_labels() {
    let rest = FAIR.replace("fair_scheduling: true", "fair_scheduling: false");
    let mut hall = Hall::new(&gold_and_bulk(&rest));
    hall.hint("running", of("ann"));
    hall.hint("waiting", of("ann"));
    assert!(clients(&hall).is_empty());
    assert_eq!(pool(&hall).waiters[0].client, None);
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_ends_the_turns_between_clients_leaves_no_labels() {
    let mut hall = Hall::new(&gold_and_bulk(FAIR));
    hall.hint("running", of("ann"));
    hall.hint("waiting", of("ann"));
    let rest = FAIR.replace("fair_scheduling: true", "fair_scheduling: false");
    let unfair: PolicyConfig = gold_and_bulk(&rest).parse().unwrap();
    hall.handle.reload(unfair).unwrap();
    assert!(clients(&hall).is_empty());
    assert_eq!(pool(&hall).waiters[0].client, None);
}
