//! What becomes of admitted requests: each is counted under one outcome.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
};

use http::Method;
use tower_policy_queue::{Cancelled, Totals};

use crate::{
    asks, assert_that_it_adds_up,
    common::{
        desk::{Scene, Trouble, get, policy},
        feed::FedBody,
    },
    gold_and_bulk,
    hall::{Hall, ONE_SLOT, chat},
    look,
};

fn scene() -> Scene {
    Scene::new(policy(&gold_and_bulk(ONE_SLOT)))
}

/// The totals of the class `gold`, of which everybody is here.
fn gold(scene: &Scene) -> Totals {
    let snapshot = look(&scene.layer.handle());
    assert_that_it_adds_up(&snapshot);
    let [gold, ..] = &*snapshot.dominions[0].classes else {
        panic!("two classes");
    };
    gold.totals.clone()
}

/// The outcomes that were counted, by name.
fn outcomes(totals: &Totals) -> Vec<(&'static str, u64)> {
    let Cancelled {
        queued,
        granted,
        running,
        ..
    } = totals.cancelled;
    let outcomes = [
        ("completed", totals.completed),
        ("failed", totals.failed),
        ("revoked", totals.revoked),
        ("queued", queued),
        ("granted", granted),
        ("running", running),
    ];
    let outcomes = outcomes.into_iter().chain(totals.rejected.iter());
    outcomes.filter(|(_, count)| *count > 0).collect()
}

/// Expects a panic, and drops what panicked: as it unwinds, or later, as in a layer that catches the
/// panic and answers for it.
fn panics<T, U>(kept: bool, mut panicking: T, mut work: impl FnMut(&mut T) -> U) {
    let caught = match kept {
        true => catch_unwind(AssertUnwindSafe(|| drop(work(&mut panicking)))),
        false => catch_unwind(AssertUnwindSafe(move || drop(work(&mut { panicking })))),
    };
    assert!(caught.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_request_is_completed_when_its_body_has_ended() {
    let mut scene = scene();
    let mut client = scene.send("1");
    assert_eq!(outcomes(&gold(&scene)), []);
    drop(client.answer(FedBody::empty()));
    assert_eq!(outcomes(&gold(&scene)), [("completed", 1)]);

    let (mut body, feed) = scene.stream("2");
    feed.data("token");
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    assert_eq!(outcomes(&gold(&scene)), [("completed", 2)]);
    drop(body);

    let (mut body, feed) = scene.stream("3");
    feed.last_data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    drop(body);
    let totals = gold(&scene);
    assert_eq!(outcomes(&totals), [("completed", 3)]);
    assert_eq!((totals.arrived, totals.admitted, totals.waited), (3, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_head_is_complete_without_its_body() {
    let mut scene = scene();
    let mut request = get("1");
    *request.method_mut() = Method::HEAD;
    let mut client = scene.call_with("1", request);
    assert!(client.polled.poll().is_pending());
    let (body, _feed) = client.stream();
    // The slot is the body's until then.
    assert_eq!(outcomes(&gold(&scene)), []);
    // Servers drop the body of such an answer unread.
    drop(body);
    assert_eq!(outcomes(&gold(&scene)), [("completed", 1)]);
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_inner_service_and_of_its_body_are_failures() {
    let mut scene = scene();
    let mut client = scene.send("1");
    scene.desk.fail("1");
    assert!(matches!(client.polled.poll(), Poll::Ready(Err(_))));
    assert_eq!(outcomes(&gold(&scene)), [("failed", 1)]);

    scene.desk.trouble(Trouble::ReadinessFails);
    let mut client = scene.call("2");
    assert!(matches!(client.polled.poll(), Poll::Ready(Err(_))));
    assert_eq!(outcomes(&gold(&scene)), [("failed", 2)]);

    let (mut body, feed) = scene.stream("3");
    feed.error();
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
    drop(body);
    assert_eq!(outcomes(&gold(&scene)), [("failed", 3)]);
}

#[tokio::test(start_paused = true)]
async fn panics_are_failures_wherever_they_are_caught() {
    for kept in [true, false] {
        let mut scene = scene();
        for trouble in [Trouble::ReadinessPanics, Trouble::CallPanics] {
            scene.desk.trouble(trouble);
            let client = scene.call("1");
            panics(kept, client, |client| client.polled.poll());
        }
        assert_eq!(outcomes(&gold(&scene)), [("failed", 2)], "kept: {kept}");

        let client = scene.send("2");
        scene.desk.panic("2");
        panics(kept, client, |client| client.polled.poll());
        let (body, feed) = scene.stream("3");
        feed.panic();
        panics(kept, body, |body| body.poll_frame());
        assert_eq!(outcomes(&gold(&scene)), [("failed", 4)], "kept: {kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_that_go_away_are_told_apart_by_how_far_they_had_come() {
    let mut scene = scene();
    let first = scene.send("first");
    let (queued, granted) = (scene.send("queued"), scene.send("granted"));
    drop(queued);
    assert_eq!(outcomes(&gold(&scene)), [("queued", 1)]);

    drop(first);
    assert_eq!(outcomes(&gold(&scene)), [("queued", 1), ("running", 1)]);
    assert_eq!(
        granted.polled.rings(),
        1,
        "it has the slot and does not know"
    );
    drop(granted);
    // Granted at once, and not called yet either.
    drop(scene.call("unpolled"));
    assert_eq!(
        outcomes(&gold(&scene)),
        [("queued", 1), ("granted", 2), ("running", 1)]
    );

    let (body, _feed) = scene.stream("streaming");
    drop(body);
    let totals = gold(&scene);
    assert_eq!(
        outcomes(&totals),
        [("queued", 1), ("granted", 2), ("running", 2)]
    );
    assert_eq!((totals.arrived, totals.admitted, totals.waited), (5, 4, 1));
}

#[tokio::test(start_paused = true)]
async fn waiting_times_and_tokens_are_those_of_the_admitted() {
    let mut hall = Hall::new(&gold_and_bulk(ONE_SLOT));
    hall.hint("1", asks("gold", 100));
    hall.hint("2", asks("gold", 0));
    hall.pass(300).await;
    hall.hint("3", asks("gold", 30));
    hall.hint("4", asks("gold", 5000));
    hall.finish("1");
    hall.pass(500).await;
    hall.finish("2");
    hall.leave("4");
    let totals = look(&hall.handle).dominions[0].classes[0].totals.clone();
    assert_eq!((totals.arrived, totals.admitted, totals.waited), (4, 3, 2));
    assert_eq!((totals.wait_ms, totals.longest_wait_ms), (800, 500));
    assert_eq!(totals.tokens_served, 131, "a cached one counts as a token");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_holds_until_headers_has_completed_then() {
    for (until, after_head, after_data) in [
        ("headers", vec![("completed", 1)], vec![("completed", 1)]),
        ("first_byte", vec![], vec![("completed", 1)]),
        ("body_end", vec![], vec![]),
    ] {
        let hall = Hall::new(&chat(&format!("hold_until: {until}"), ONE_SLOT));
        let mut scene = hall.scene;
        let (mut body, feed) = scene.stream("1");
        assert_eq!(outcomes(&only(&scene)), after_head, "{until}");
        feed.data("token");
        assert!(body.poll_frame().is_ready());
        assert_eq!(outcomes(&only(&scene)), after_data, "{until}");
        feed.error();
        assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
        drop(body);
        let expected = if until == "body_end" {
            "failed"
        } else {
            "completed"
        };
        assert_eq!(outcomes(&only(&scene)), [(expected, 1)], "{until}");
    }
}

/// The totals of the only class.
fn only(scene: &Scene) -> Totals {
    let snapshot = look(&scene.layer.handle());
    assert_that_it_adds_up(&snapshot);
    snapshot.dominions[0].classes[0].totals.clone()
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_taken_back_is_a_rejection_before_the_head_and_a_revocation_after() {
    let mut hall = Hall::new(&chat("max_hold_ms: 100", ONE_SLOT));
    hall.arrive("1");
    hall.pass(100).await;
    assert_eq!(hall.state("1"), "hold_timeout");
    assert_eq!(outcomes(&only(&hall.scene)), [("hold_timeout", 1)]);

    hall.arrive("2");
    let (mut body, _feed) = hall.stream("2");
    assert!(body.poll_frame().is_pending());
    hall.pass(100).await;
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
    drop(body);
    assert_eq!(
        outcomes(&only(&hall.scene)),
        [("revoked", 1), ("hold_timeout", 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_held_on_to_has_its_outcome_when_it_is_back() {
    let mut scene = scene();
    let mut client = scene.send("1");
    let hold = scene.desk.admission("1").hold();
    drop(client.answer(FedBody::empty()));
    assert_eq!(outcomes(&gold(&scene)), [], "it is in use");
    drop(hold);
    assert_eq!(outcomes(&gold(&scene)), [("completed", 1)]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_come_to_no_class_are_counted_apart() {
    let mut hall = Hall::new(&gold_and_bulk(
        "
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
headers: {raw_isl_tokens: x-raw, worker: x-worker}
bypass: [/health]
",
    ));
    hall.arrive("parent");
    hall.arrive("health");
    let mut child = get("child");
    child
        .extensions_mut()
        .insert(hall.scene.desk.admission("parent"));
    hall.send("child", child);
    hall.send("header", crate::hall::with("header", &[("x-raw", "many")]));
    hall.send(
        "worker",
        crate::hall::with("worker", &[("x-worker", "nobody")]),
    );
    assert_eq!(
        hall.states(["health", "child", "header", "worker"]),
        [
            "running",
            "running",
            "invalid_queue_header",
            "no_eligible_worker"
        ]
    );
    let snapshot = look(&hall.handle);
    assert_that_it_adds_up(&snapshot);
    let unplaced = snapshot.unplaced;
    assert_eq!((unplaced.bypassed, unplaced.nested), (1, 1));
    assert_eq!(unplaced.rejected.get("invalid_queue_header"), 1);
    assert_eq!(unplaced.rejected.get("no_eligible_worker"), 1);
    assert_eq!(unplaced.rejected.total(), 2);
    let arrived = crate::totals(&snapshot.dominions[0]).map(|totals| totals.arrived);
    assert_eq!(arrived.sum::<u64>(), 1, "the parent alone");
    assert_eq!(snapshot.dominions[0].in_use, 1);
}
