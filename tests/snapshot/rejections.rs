//! Requests that are turned away: each is counted under the code that it is answered with.

use tower_policy_queue::{Rejected, Totals};

use crate::{
    asks, assert_that_it_adds_up, gold_and_bulk,
    hall::{Hall, chat, hinted, pinned, wait_ms},
    look,
    stage::{ONE_SLOT, Stage, head, soon, whole},
};

/// The codes under which somebody was counted, in all classes and dominions.
fn codes(hall: &Hall) -> Vec<(&'static str, u64)> {
    let snapshot = look(&hall.handle);
    assert_that_it_adds_up(&snapshot);
    let rejected: Vec<Rejected> = snapshot
        .dominions
        .iter()
        .flat_map(crate::totals)
        .map(|totals: &Totals| totals.rejected)
        .collect();
    let total = |code| rejected.iter().map(|it| it.get(code)).sum();
    let codes = Rejected::default();
    let counts = codes.iter().map(|(code, _)| (code, total(code)));
    counts.filter(|(_, count)| *count > 0).collect()
}

#[tokio::test(start_paused = true)]
async fn those_that_cannot_even_wait() {
    let mut hall = Hall::new(&gold_and_bulk(
        "dominions: [{id: pool, kind: remote, max_concurrency: 1, policy: reject}]",
    ));
    hall.arrive("1");
    hall.arrive("2");
    assert_eq!(hall.state("2"), "queue_rejected");
    assert_eq!(codes(&hall), [("queue_rejected", 1)]);

    let one_place = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]";
    let mut hall = Hall::new(&gold_and_bulk(one_place));
    for id in ["1", "2", "3"] {
        hall.arrive(id);
    }
    assert_eq!(hall.state("3"), "queue_full");
    assert_eq!(codes(&hall), [("queue_full", 1)]);
    hall.handle.shutdown();
    hall.arrive("4");
    assert_eq!(hall.states(["2", "4"]), ["queue_unavailable"; 2]);
    assert_eq!(codes(&hall), [("queue_full", 1), ("queue_unavailable", 2)]);

    let one_slot = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
    let mut hall = Hall::new(&chat("request_queue_limit_per_worker: 0", one_slot));
    hall.arrive("1");
    hall.arrive("2");
    assert_eq!(hall.state("2"), "policy_class_queue_limit");
    assert_eq!(codes(&hall), [("policy_class_queue_limit", 1)]);
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_too_long() {
    let one_slot = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
    let mut hall = Hall::new(&gold_and_bulk(one_slot));
    hall.arrive("1");
    hall.hint("2", wait_ms(50));
    hall.hint("3", asks("gold", 1));
    hall.pass(50).await;
    assert_eq!(hall.states(["2", "3"]), ["queue_timeout", "waiting"]);
    assert_eq!(codes(&hall), [("queue_timeout", 1)]);
}

#[tokio::test(start_paused = true)]
async fn those_whose_workers_are_gone() {
    let mut hall = Hall::new(&gold_and_bulk(
        "
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints: [{id: a, dominion: pool}, {id: b, dominion: pool}]
",
    ));
    hall.arrive("1");
    hall.send("2", hinted("2", pinned("a")));
    hall.handle.remove_worker("a").unwrap();
    assert_eq!(hall.state("2"), "no_eligible_worker");
    assert_eq!(codes(&hall), [("no_eligible_worker", 1)]);
    hall.handle.drain_worker("b", true).unwrap();
    hall.send("3", hinted("3", pinned("b")));
    assert_eq!(hall.state("3"), "no_eligible_worker");
    assert_eq!(codes(&hall), [("no_eligible_worker", 2)]);
    assert_eq!(look(&hall.handle).unplaced.rejected.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn those_whose_model_is_not_in_the_profile() {
    let mut hall = Hall::new(&gold_and_bulk(
        "
dominions: [{id: pool, kind: local, max_concurrency: 2}]
local_models: [{id: phi, dominion: pool}, {id: qwen, dominion: pool}]
profiles: [{name: day, models: [qwen]}]
",
    ));
    for id in ["head", "stream", "queued", "granted"] {
        hall.send(id, hinted(id, pinned("phi")));
    }
    let (mut body, _feed) = hall.stream("stream");
    hall.freeze("granted");
    hall.leave("queued");
    hall.send("queued", hinted("queued", pinned("phi")));
    hall.handle.set_max_concurrency("pool", Some(3)).unwrap();
    assert_eq!(hall.rings("granted"), 1);
    hall.handle.switch_profile("day").unwrap();
    assert!(body.poll_frame().is_ready());
    drop(body);
    hall.thaw("granted");
    assert_eq!(
        hall.states(["head", "queued", "granted"]),
        ["profile_switch"; 3]
    );
    assert_eq!(codes(&hall), [("profile_switch", 3)]);
    let totals = &look(&hall.handle).dominions[0].classes[0].totals;
    assert_eq!((totals.revoked, totals.cancelled.queued), (1, 1));
    assert_eq!(totals.settled(), 5);
}

#[tokio::test]
async fn those_whose_bodies_fail_while_they_wait() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut stage = Stage::with(ONE_SLOT).await;
    let mut first =
        crate::stage::Connection::open(crate::stage::Protocol::Http1, stage.address).await;
    let sent = first.get("first");
    let order = stage.orders.next().await;
    let mut socket = tokio::net::TcpStream::connect(stage.address).await.unwrap();
    let request = "POST /parked HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\nhello\r\nno chunk\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon("the answer", socket.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400 "));
    order.answer(crate::stage::text("done"));
    whole(head(sent).await.into_body()).await;
    stage
        .usage_soon("all are done", |usage| usage.slots_in_use == 0)
        .await;

    let snapshot = look(&stage.handle());
    assert_that_it_adds_up(&snapshot);
    let totals = &snapshot.dominions[0].classes[0].totals;
    assert_eq!((totals.arrived, totals.completed), (2, 1));
    assert_eq!(totals.rejected.get("request_body_error"), 1);
    assert_eq!(totals.settled(), 2);
}

#[test]
fn every_code_has_a_place_and_an_unknown_one_has_none() {
    let rejected = Rejected::default();
    let codes: Vec<_> = rejected.iter().map(|(code, _)| code).collect();
    assert_eq!(
        codes,
        [
            "queue_rejected",
            "queue_full",
            "client_queue_limit",
            "policy_class_queue_limit",
            "queue_timeout",
            "queue_unavailable",
            "no_eligible_worker",
            "profile_switch",
            "hold_timeout",
            "request_body_error",
            "invalid_queue_header",
        ]
    );
    assert_eq!(rejected.get("no_such_code"), 0);
}
