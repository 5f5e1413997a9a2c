//! Slots and the queue's length, changed while requests run and wait.

use tower_policy_queue::ChangeError;

use crate::hall::{Hall, ONE_SLOT, chat};

fn numbered(hall: &mut Hall, numbers: std::ops::Range<usize>) {
    for n in numbers {
        hall.arrive(&n.to_string());
    }
}

/// How many of the numbered requests run.
fn running(hall: &mut Hall, numbers: std::ops::Range<usize>) -> usize {
    let state = |n: usize| hall.state(&n.to_string());
    numbers
        .map(state)
        .filter(|&state| state == "running")
        .count()
}

#[test]
fn more_slots_are_handed_out_at_once() {
    let mut hall = Hall::new(ONE_SLOT);
    numbered(&mut hall, 0..6);
    assert_eq!(hall.counts(), (1, 5));
    hall.handle.set_max_concurrency("pool", Some(4)).unwrap();
    assert_eq!(hall.counts(), (4, 2), "whether they are polled or not");
    assert_eq!(running(&mut hall, 0..4), 4, "the first ones first");
    assert_eq!(running(&mut hall, 0..6), 4);
}

#[test]
fn fewer_slots_cut_nobody_off_and_none_is_handed_out_until_enough_are_back() {
    let mut hall = Hall::new("dominions: [{id: pool, max_concurrency: 5}]");
    numbered(&mut hall, 0..8);
    hall.handle.set_max_concurrency("pool", Some(2)).unwrap();
    assert_eq!(running(&mut hall, 0..8), 5, "who runs goes on");
    for (n, left) in [(0, 4), (1, 3), (2, 2)] {
        hall.finish(&n.to_string());
        assert_eq!(hall.counts(), (left, 3), "{left} slots are still too many");
    }
    hall.finish("3");
    assert_eq!(hall.counts(), (2, 2), "now one for one");
    assert_eq!(hall.state("5"), "running");
    hall.arrive("late");
    assert_eq!(hall.state("late"), "waiting");
}

#[test]
fn a_limit_lowered_under_load_and_raised_again_is_exact() {
    let mut hall = Hall::new("dominions: [{id: pool, max_concurrency: 10, max_queue: 1000}]");
    numbered(&mut hall, 0..6);
    hall.handle.set_max_concurrency("pool", Some(5)).unwrap();
    numbered(&mut hall, 6..30);
    assert_eq!(hall.counts(), (6, 24), "6 of 5 run on");
    hall.handle.set_max_concurrency("pool", Some(10)).unwrap();
    assert_eq!(hall.counts(), (10, 20), "10 and not 9 or 11");
    for n in 0..20 {
        hall.finish(&n.to_string());
        assert_eq!(hall.counts(), (10, 19 - n), "and so it stays");
    }
    hall.handle.set_max_concurrency("pool", Some(3)).unwrap();
    for n in 20..30 {
        hall.finish(&n.to_string());
    }
    assert_eq!(hall.counts(), (0, 0));
    for n in 100..110 {
        hall.arrive(&n.to_string());
    }
    assert_eq!(hall.counts(), (3, 7), "nothing was eroded");
}

#[test]
fn a_limit_lowered_while_a_grant_is_unpolled_takes_nothing_back() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("first");
    hall.arrive("second");
    hall.arrive("third");
    hall.freeze("second");
    hall.handle.set_max_concurrency("pool", Some(2)).unwrap();
    hall.handle.set_max_concurrency("pool", Some(1)).unwrap();
    hall.thaw("second");
    assert_eq!(
        hall.states(["first", "second", "third"]),
        ["running", "running", "waiting"]
    );
    hall.finish("first");
    assert_eq!(
        hall.state("third"),
        "waiting",
        "two were taken, and one is too many"
    );
    hall.finish("second");
    assert_eq!(hall.state("third"), "running");
}

#[test]
fn unlimited_lets_everybody_go_and_can_be_limited_again() {
    let mut hall = Hall::new(ONE_SLOT);
    numbered(&mut hall, 0..50);
    hall.handle.set_max_concurrency("pool", None).unwrap();
    assert_eq!(hall.counts(), (50, 0));
    hall.handle.set_max_concurrency("pool", Some(2)).unwrap();
    hall.arrive("next");
    for n in 0..48 {
        hall.finish(&n.to_string());
        assert_eq!(hall.state("next"), "waiting");
    }
    hall.finish("48");
    assert_eq!(hall.state("next"), "running");
}

#[test]
fn the_slots_of_one_dominion_are_not_those_of_another() {
    let yaml = "
dominions: [{id: a, max_concurrency: 1}, {id: b, max_concurrency: 1}]
default_dominion: a
";
    let mut hall = Hall::new(yaml);
    numbered(&mut hall, 0..3);
    hall.handle.set_max_concurrency("b", Some(3)).unwrap();
    assert_eq!(hall.counts(), (1, 2));
    hall.handle.set_max_concurrency("a", Some(3)).unwrap();
    assert_eq!(hall.counts(), (3, 0));
}

#[test]
fn a_queue_made_longer_takes_more_and_made_shorter_evicts_nobody() {
    let mut hall = Hall::new("dominions: [{id: pool, max_concurrency: 1, max_queue: 2}]");
    numbered(&mut hall, 0..4);
    assert_eq!(hall.state("3"), "queue_full");
    hall.handle.set_max_queue("pool", 4).unwrap();
    numbered(&mut hall, 4..7);
    assert_eq!(
        hall.states(["4", "5", "6"]),
        ["waiting", "waiting", "queue_full"]
    );
    hall.handle.set_max_queue("pool", 1).unwrap();
    assert_eq!(hall.counts(), (1, 4), "nobody is evicted");
    for (n, refused) in [(0, "7"), (1, "8"), (2, "9")] {
        hall.finish(&n.to_string());
        hall.arrive(refused);
        assert_eq!(
            hall.state(refused),
            "queue_full",
            "it is longer than it may be"
        );
    }
    hall.finish("4");
    hall.arrive("10");
    assert_eq!(hall.states(["5", "10"]), ["running", "waiting"]);
}

#[test]
fn the_refusal_names_the_limit_in_force() {
    let mut hall = Hall::new("dominions: [{id: pool, max_concurrency: 1, max_queue: 1}]");
    hall.handle.set_max_queue("pool", 2).unwrap();
    numbered(&mut hall, 0..4);
    let response = hall.response("3");
    let rejection: &tower_policy_queue::Rejection = response.extensions().get().unwrap();
    assert!(
        rejection.to_string().contains("at 2 waiting"),
        "{rejection}"
    );
}

#[test]
fn limits_of_nothing_and_of_no_dominion_are_refused_and_change_nothing() {
    let mut hall = Hall::new(&chat("", ONE_SLOT));
    let handle = hall.handle.clone();
    assert_eq!(
        handle.set_max_concurrency("pool", Some(0)),
        Err(ChangeError::Zero)
    );
    assert_eq!(handle.set_max_queue("pool", 0), Err(ChangeError::Zero));
    for error in [
        handle.set_max_concurrency("none", Some(1)),
        handle.set_max_concurrency("none", None),
        handle.set_max_queue("none", 1),
        handle.close_dominion("none"),
        handle.close_dominion(""),
    ] {
        let error = error.unwrap_err();
        assert!(
            matches!(error, ChangeError::UnknownDominion { .. }),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("there is no dominion"),
            "{error}"
        );
    }
    assert!(ChangeError::Zero.to_string().contains("at least 1"));
    numbered(&mut hall, 0..3);
    assert_eq!(hall.counts(), (1, 2));
}

#[test]
fn a_handle_is_a_value_like_others_and_no_way_in() {
    fn check<T: Clone + Send + Sync + std::fmt::Debug + 'static>(_: &T) {}
    let mut hall = Hall::new(ONE_SLOT);
    check(&hall.handle);
    assert!(format!("{:?}", hall.handle).contains("pool"));
    hall.arrive("running");
    hall.arrive("waiting");
    let Hall { scene, handle, .. } = hall;
    drop(scene);
    assert_eq!(
        (handle.usage().slots_in_use, handle.usage().waiting),
        (1, 0),
        "with the last way in the queue ends, whoever has a handle"
    );
}
