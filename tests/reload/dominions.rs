//! Dominions keep their waiters and slots by their ids; those of one that is gone are told so.

use tower_policy_queue::ChangeError;

use super::{ONE, families};
use crate::{
    common::desk::policy,
    hall::{Hall, chat},
};

fn slots(number: usize) -> String {
    chat(
        "",
        &format!(
            "dominions: [{{id: pool, kind: remote, max_concurrency: {number}, max_queue: 3}}]"
        ),
    )
}

#[test]
fn more_slots_are_handed_out_at_once_and_fewer_take_none_back() {
    let mut hall = Hall::new(&slots(1));
    for id in ["1", "2", "3", "4"] {
        hall.arrive(id);
    }
    hall.reload(&slots(3));
    assert_eq!(
        hall.states(["1", "2", "3", "4"]),
        ["running", "running", "running", "waiting"]
    );
    hall.reload(&slots(1));
    assert_eq!(hall.counts(), (3, 1));
    for id in ["1", "2"] {
        hall.finish(id);
        assert_eq!(hall.state("4"), "waiting", "two were too many");
    }
    hall.finish("3");
    assert_eq!(hall.state("4"), "running");
}

#[test]
fn a_shorter_queue_evicts_nobody_and_lets_nobody_else_in() {
    let mut hall = Hall::new(&slots(1));
    for id in ["1", "2", "3", "4"] {
        hall.arrive(id);
    }
    hall.reload(&chat(
        "",
        "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]",
    ));
    assert_eq!(hall.counts(), (1, 3));
    hall.arrive("5");
    assert_eq!(hall.state("5"), "queue_full");
}

#[test]
fn what_the_handle_had_changed_is_as_the_policy_says() {
    let mut hall = Hall::new(&slots(1));
    hall.handle.set_max_concurrency("pool", Some(7)).unwrap();
    hall.reload(&slots(1));
    hall.arrive("1");
    hall.arrive("2");
    assert_eq!(hall.states(["1", "2"]), ["running", "waiting"]);
}

#[test]
fn those_of_a_dominion_that_is_gone_are_turned_away_and_its_running_ones_finish() {
    let two = "
dominions: [{id: pool, kind: remote, max_concurrency: 1}, {id: old, kind: remote, max_concurrency: 1}]
default_dominion: old
";
    let mut hall = Hall::new(&families("quantum: 1", "quantum: 1", two));
    hall.ask("1", "a");
    hall.ask("2", "a");
    hall.reload(&families("quantum: 1", "quantum: 1", ONE));
    assert_eq!(hall.states(["1", "2"]), ["running", "queue_unavailable"]);
    assert_eq!(hall.counts(), (1, 0), "it still has its slot");
    hall.ask("3", "a");
    assert_eq!(hall.scene.desk.admission("3").dominion(), Some("pool"));
    let (reading, _feed) = hall.stream("1");
    drop(reading);
    hall.finish("3");
    assert_eq!(hall.counts(), (0, 0));
}

#[tokio::test]
async fn draining_waits_for_those_of_a_dominion_that_is_gone() {
    let mut hall = Hall::new(&families("quantum: 1", "quantum: 1", ONE));
    hall.ask("1", "a");
    hall.reload(&families("quantum: 1", "quantum: 1", ""));
    let handle = hall.handle.clone();
    let mut drained = tokio_test::task::spawn(handle.drained());
    assert!(drained.poll().is_pending());
    hall.finish("1");
    assert!(drained.is_woken());
    assert!(drained.poll().is_ready());
}

#[test]
fn a_route_whose_dominion_is_gone_is_unavailable_until_it_is_back() {
    let both =
        "dominions: [{id: pool, kind: remote}, {id: own, kind: remote}]\ndefault_dominion: pool";
    let mut hall = Hall::new(&chat("", both));
    let mut route = hall.scene.bound_to("own");
    let mut ask = |id: &str| {
        drop(route.call(id).polled.poll());
        let running = route.desk.has(id);
        running.then(|| route.desk.admission(id).dominion().map(str::to_owned))
    };
    assert_eq!(ask("1"), Some(Some("own".to_owned())));
    hall.reload(&chat("", "dominions: [{id: pool, kind: remote}]"));
    assert_eq!(ask("2"), None, "no other dominion stands in for it");
    hall.reload(&chat("", both));
    assert_eq!(ask("3"), Some(Some("own".to_owned())));
}

#[test]
fn a_dominion_that_was_closed_stays_closed() {
    let mut hall = Hall::new(&slots(1));
    hall.handle.close_dominion("pool").unwrap();
    hall.reload(&slots(2));
    hall.arrive("1");
    assert_eq!(hall.state("1"), "queue_unavailable");
}

#[test]
fn a_layer_that_was_shut_down_stays_so_whatever_policy_comes() {
    let mut hall = Hall::new(&slots(1));
    hall.arrive("1");
    hall.arrive("2");
    hall.handle.shutdown();
    hall.reload("dominions: [{id: other, kind: remote, max_concurrency: 9}]");
    hall.arrive("3");
    hall.reload("{}");
    hall.arrive("4");
    assert_eq!(
        hall.states(["1", "2", "3", "4"]),
        [
            "running",
            "queue_unavailable",
            "queue_unavailable",
            "queue_unavailable"
        ]
    );
    let handle = hall.handle.clone();
    let mut drained = tokio_test::task::spawn(handle.drained());
    assert!(drained.poll().is_pending());
    hall.finish("1");
    assert!(drained.poll().is_ready());
}

#[test]
fn labels_are_forgotten_when_clients_take_no_turns_any_more() {
    let with = |fair: bool| {
        chat(
            "",
            &format!(
                "dominions: [{{id: pool, kind: remote, max_concurrency: 1, fair_scheduling: {fair}}}]"
            ),
        )
    };
    let mut hall = Hall::new(&with(true));
    let ask = |hall: &mut Hall, id: &str| {
        let client = [("x-promptforge-client", &id[..1])];
        hall.send(id, crate::hall::with(id, &client));
    };
    for id in ["x0", "x1", "x2", "y1", "y2"] {
        ask(&mut hall, id);
    }
    hall.reload(&with(false));
    hall.finish("x0");
    assert_eq!(hall.drain(&["x1", "x2", "y1"]), "x1 x2 y1", "as they came");
    ask(&mut hall, "z1");
    hall.reload(&with(true));
    ask(&mut hall, "x3");
    assert_eq!(
        hall.drain(&["y2", "z1", "x3"]),
        "y2 z1 x3",
        "who waited has no label"
    );
    let snapshot = hall.handle.snapshot();
    let waiting = snapshot.dominions[0].clients.iter().map(|it| it.waiting);
    assert_eq!(waiting.sum::<usize>(), 0);
}

#[test]
fn who_waits_is_not_sent_to_a_model_that_the_profile_in_force_leaves_out() {
    let local = |slots: u32, more: &str| {
        format!(
            "
dominions: [{{id: gpu, kind: local, max_concurrency: {slots}}}]
local_models: [{{id: a, dominion: gpu}}{more}]
profiles: [{{name: day, models: [a]}}]
"
        )
    };
    let mut hall = Hall::new(&local(1, ""));
    hall.handle.switch_profile("day").unwrap();
    hall.arrive("first");
    hall.arrive("waits");
    hall.reload(&local(2, ", {id: b, dominion: gpu}"));
    assert_eq!(hall.states(["first", "waits"]), ["running", "running"]);
    assert_eq!(
        hall.worker("waits").as_deref(),
        Some("a"),
        "`b` is less loaded, and not loaded at all"
    );
}

#[test]
fn a_profile_in_force_stays_so_and_must_be_one_of_the_new_policy() {
    let local = |profiles: &str| {
        format!(
            "
dominions: [{{id: gpu, kind: local, max_concurrency: 4}}]
local_models: [{{id: m, dominion: gpu}}, {{id: n, dominion: gpu}}]
profiles: [{profiles}]
"
        )
    };
    let mut hall = Hall::new(&local(
        "{name: day, models: [m]}, {name: night, models: [n]}",
    ));
    hall.handle.switch_profile("day").unwrap();
    let error = hall
        .handle
        .reload(policy(&local("{name: night, models: [n]}")))
        .unwrap_err();
    assert!(matches!(error, ChangeError::ProfileInForce { .. }));
    assert!(error.to_string().contains("`day`"), "{error}");
    // A request on the model that the profile will leave out.
    hall.send("1", crate::hall::hinted("1", crate::hall::model("m")));
    assert_eq!(hall.state("1"), "running");
    hall.reload(&local("{name: day, models: [n]}"));
    assert_eq!(hall.state("1"), "profile_switch");
    hall.send("2", crate::hall::hinted("2", crate::hall::model("n")));
    assert_eq!(hall.state("2"), "running");
}

#[test]
fn no_request_is_lost_between_two_policies_that_follow_one_another_fast() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let policies = [slots(2), families("quantum: 9", "quantum: 5", ONE)];
    let layer = tower_policy_queue::PolicyQueueLayer::new(policy(&policies[0]));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reloads = scope.spawn(|| {
            let handle = layer.handle();
            let mut reloads = 0;
            while !over.load(Ordering::Relaxed) {
                handle.reload(policy(&policies[reloads % 2])).unwrap();
                reloads += 1;
            }
            reloads
        });
        let client = || {
            let mut hall = Hall::around(&layer);
            for id in (0..500).map(|number| number.to_string()) {
                hall.arrive(&id);
                while hall.state(&id) == "waiting" {
                    std::thread::yield_now();
                }
                assert_eq!(hall.state(&id), "running");
                hall.finish(&id);
                hall.leave(&id);
            }
        };
        let clients = [
            scope.spawn(client),
            scope.spawn(client),
            scope.spawn(client),
        ];
        for client in clients {
            client.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        assert!(reloads.join().unwrap() > 10);
    });
    let usage = layer.handle().usage();
    assert_eq!((usage.slots_in_use, usage.waiting), (0, 0));
}
