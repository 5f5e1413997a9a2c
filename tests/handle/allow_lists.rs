//! Allow-lists of requests that wait while workers come: how much of one is kept.

use tower_policy_queue::{QueueHints, WorkerSpec};

use crate::{
    common::desk::policy,
    hall::{Hall, chat, hinted},
};

const ONE_WORKER: &str =
    "dominions: [{id: pool, max_concurrency: 9}]\nendpoints: [{id: w1, dominion: pool}]";

/// One worker, which is busy, and a request that waits, with an allow-list in which a name of so
/// many bytes comes first.
fn waiting(bytes: usize, then: &[&str]) -> Hall {
    let mut hall = Hall::new(&chat("prefill_busy_threshold: 0", ONE_WORKER));
    let mut send = |id: &str, allowed: Vec<String>| {
        let hints = QueueHints {
            raw_isl_tokens: Some(10),
            allowed_workers: Some(allowed),
            ..QueueHints::default()
        };
        hall.send(id, hinted(id, hints));
    };
    let names = then.iter().map(|&id| id.to_owned());
    send("first", vec!["w1".to_owned()]);
    send(
        "waits",
        std::iter::once("x".repeat(bytes)).chain(names).collect(),
    );
    assert_eq!(hall.states(["first", "waits"]), ["running", "waiting"]);
    hall
}

/// `w2` comes: by the handle, or by a reload.
fn second_worker(hall: &Hall, by_reload: bool) {
    if by_reload {
        let two = format!("{ONE_WORKER}, {{id: w2, dominion: pool}}]").replace("], {", ", {");
        let two = chat("prefill_busy_threshold: 0", &two);
        hall.handle.reload(policy(&two)).unwrap();
    } else {
        let spec = WorkerSpec::new("w2").dominion("pool");
        hall.handle.add_worker(spec).unwrap();
    }
}

#[test]
fn of_an_allow_list_1024_bytes_of_names_are_kept_for_workers_that_come() {
    for by_reload in [false, true] {
        let mut fits = waiting(1020, &["w1", "w2"]);
        second_worker(&fits, by_reload);
        assert_eq!(fits.worker("waits").as_deref(), Some("w2"));

        let mut long = waiting(1021, &["w1", "w2"]);
        second_worker(&long, by_reload);
        assert_eq!(long.state("waits"), "waiting", "the last one is not kept");

        // Were names beyond a long one kept, who sends them could not tell which are.
        let mut behind = waiting(1025, &["w1", "w2"]);
        second_worker(&behind, by_reload);
        assert_eq!(behind.state("waits"), "waiting", "nor what is behind one");
    }
}

#[test]
fn the_workers_there_were_stay_on_an_allow_list_that_is_longer_than_is_kept() {
    for by_reload in [false, true] {
        let mut hall = waiting(1025, &["w1"]);
        second_worker(&hall, by_reload);
        assert_eq!(hall.state("waits"), "waiting", "`w1` is busy");
        hall.finish("first");
        assert_eq!(hall.worker("waits").as_deref(), Some("w1"));
    }
}
