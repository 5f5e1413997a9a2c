//! Places in the queue, taken by the thousand: what a limit for each client leaves to the others.

use http::Request;
use tower_policy_queue::PolicyConfig;

use crate::{
    common::{NoBody, desk::get, json},
    hall::{Hall, with},
};

/// One slot, and room for many, but only so many of one client.
fn limited(max_queue: usize, per_client: usize) -> String {
    format!(
        "dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: {max_queue}, \
         max_queue_per_client: {per_client}}}]"
    )
}

fn labelled(id: &str, label: &str) -> Request<NoBody> {
    with(id, &[("x-promptforge-client", label)])
}

/// A hall in which one request runs.
fn busy(yaml: &str) -> Hall {
    let mut hall = Hall::new(yaml);
    hall.send("running", labelled("running", "flood"));
    assert_eq!(hall.state("running"), "running");
    hall
}

/// Many requests arrive, each under a label of its number's; how many of them wait.
fn flood(hall: &mut Hall, requests: usize, label: impl Fn(usize) -> String) -> usize {
    let states = (0..requests).map(|number| {
        let id = format!("flood-{number}");
        hall.send(&id, labelled(&id, &label(number)));
        hall.state(&id)
    });
    states.filter(|&state| state == "waiting").count()
}

#[test]
fn a_client_that_has_its_places_leaves_the_others_theirs() {
    let mut hall = busy(&limited(8, 3));
    assert_eq!(flood(&mut hall, 1000, |_| "flood".to_owned()), 3);
    assert_eq!(hall.state("flood-3"), "client_queue_limit");
    for id in ["1", "2", "3"] {
        hall.send(id, labelled(id, "honest"));
        assert_eq!(hall.state(id), "waiting");
    }
    hall.send("4", labelled("4", "honest"));
    assert_eq!(hall.state("4"), "client_queue_limit", "the same for all");
    for id in ["5", "6", "7"] {
        hall.send(id, labelled(id, "another"));
    }
    let states = hall.states(["5", "6", "7"]);
    assert_eq!(states, ["waiting", "waiting", "queue_full"]);
}

#[test]
fn the_answer_says_so_even_where_the_queue_is_full_of_others() {
    let mut hall = busy(&limited(2, 1));
    for label in ["a", "b"] {
        hall.send(label, labelled(label, label));
    }
    hall.send("again", labelled("again", "a"));
    let response = hall.response("again");
    assert_eq!(response.status(), 429);
    assert_eq!(
        response.headers()["x-policy-queue-reason"],
        "client_queue_limit"
    );
    assert!(response.headers().contains_key("retry-after"));
    let error = &json(response.into_body())["error"];
    assert_eq!(error["type"], "rate_limit_error");
    let said = "1 requests of this client wait in `pool` already, as many as may; retry later";
    assert_eq!(error["message"], said);
}

#[test]
fn it_keeps_nobody_from_a_slot_that_is_free() {
    let mut hall =
        Hall::new("dominions: [{id: pool, max_concurrency: 3, max_queue_per_client: 1}]");
    for id in ["1", "2", "3", "4", "5"] {
        hall.send(id, labelled(id, "one"));
    }
    let states = hall.states(["1", "2", "3", "4", "5"]);
    let [.., fourth, fifth] = states;
    assert_eq!(states[..3], ["running"; 3]);
    assert_eq!((fourth, fifth), ("waiting", "client_queue_limit"));
}

#[test]
fn a_place_is_free_again_once_its_request_starts_or_leaves() {
    let mut hall = busy(&limited(100, 2));
    flood(&mut hall, 2, |_| "flood".to_owned());
    hall.leave("flood-1");
    hall.send("1", labelled("1", "flood"));
    assert_eq!(hall.state("1"), "waiting");
    hall.finish("running");
    assert_eq!(hall.state("flood-0"), "running");
    hall.send("2", labelled("2", "flood"));
    hall.send("3", labelled("3", "flood"));
    assert_eq!(hall.states(["2", "3"]), ["waiting", "client_queue_limit"]);
}

#[test]
fn those_without_a_label_have_the_places_of_one_client() {
    let mut hall = busy(&limited(100, 2));
    hall.arrive("1");
    hall.send("2", labelled("2", "no good"));
    hall.send("3", labelled("3", "default"));
    hall.arrive("4");
    assert_eq!(hall.states(["1", "2"]), ["waiting"; 2]);
    assert_eq!(hall.states(["3", "4"]), ["client_queue_limit"; 2]);
}

#[test]
fn whoever_mints_labels_has_the_places_of_thirty_three_clients_at_most() {
    let mut hall = busy(&limited(10_000, 2));
    let waiting = flood(&mut hall, 3000, |number| format!("minted-{}", number / 10));
    assert_eq!(
        waiting,
        33 * 2,
        "32 labels are told apart, and the shared one"
    );
    // Who waited under its own label before has its places.
    hall.finish("running");
    assert_eq!(hall.counts(), (1, 33 * 2 - 1));
}

#[test]
fn a_reload_changes_how_many_places_a_client_has() {
    let mut hall = busy(&limited(100, 3));
    flood(&mut hall, 3, |_| "flood".to_owned());
    let policy = |per_client| -> PolicyConfig { limited(100, per_client).parse().unwrap() };
    let fewer = hall.handle.reload(policy(1)).unwrap();
    let change = "~ dominions.pool.max_queue_per_client: 3 -> 1";
    assert_eq!(fewer.to_string(), change);
    assert_eq!(hall.counts(), (1, 3), "who waits goes on waiting");
    hall.send("1", labelled("1", "flood"));
    hall.handle.reload(policy(4)).unwrap();
    hall.send("2", labelled("2", "flood"));
    hall.send("3", labelled("3", "flood"));
    let states = hall.states(["1", "2", "3"]);
    let limit = "client_queue_limit";
    assert_eq!(states, [limit, "waiting", limit]);
    let snapshot = hall.handle.snapshot();
    let pool = &snapshot.dominions[0];
    assert_eq!(pool.max_queue_per_client, Some(4));
    assert_eq!(pool.classes[0].totals.rejected.get(limit), 2);
}

#[test]
fn where_nothing_is_enforced_it_is_only_counted() {
    let shadow =
        "dominions: [{id: pool, max_concurrency: 1, max_queue_per_client: 1, enforce: false}]";
    let mut hall = Hall::new(shadow);
    for id in ["1", "2", "3"] {
        hall.send(id, get(id));
    }
    assert_eq!(hall.states(["1", "2", "3"]), ["running"; 3]);
    let snapshot = hall.handle.snapshot();
    let would_be = snapshot.dominions[0].would_be.as_ref().unwrap();
    let rejected = &would_be.classes[0].totals.rejected;
    assert_eq!(rejected.get("client_queue_limit"), 1);
}
