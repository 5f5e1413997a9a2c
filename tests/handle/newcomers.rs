//! Workers that come while requests wait: who goes to them, and how much of an allow-list is kept for
//! them.

use tower_policy_queue::{QueueHints, WorkerSpec};

use crate::{
    common::desk::policy,
    hall::{Hall, chat, hinted, model, pinned},
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

#[test]
fn a_worker_that_comes_is_for_those_who_name_it_and_whose_model_it_serves() {
    let yaml = |more: &str| {
        let endpoints = format!("endpoints: [{{id: w1, dominion: pool, models: [m]}}{more}]");
        let rest = format!("dominions: [{{id: pool, max_concurrency: 9}}]\n{endpoints}");
        chat("prefill_busy_threshold: 0", &rest)
    };
    for by_reload in [false, true] {
        for (list, serves, state) in [
            (["w1", "w2"], "m", "running"),
            (["w1", "w3"], "m", "waiting"),
            (["w1", "w2"], "x", "waiting"),
        ] {
            let mut hall = Hall::new(&yaml(""));
            for id in ["first", "waits"] {
                let hints = QueueHints {
                    raw_isl_tokens: Some(10),
                    allowed_workers: Some(list.map(str::to_owned).to_vec()),
                    ..model("m")
                };
                hall.send(id, hinted(id, hints));
            }
            assert_eq!(hall.states(["first", "waits"]), ["running", "waiting"]);
            if by_reload {
                let two = yaml(&format!(", {{id: w2, dominion: pool, models: [{serves}]}}"));
                hall.handle.reload(policy(&two)).unwrap();
            } else {
                let spec = WorkerSpec::new("w2").dominion("pool").models([serves]);
                hall.handle.add_worker(spec).unwrap();
            }
            assert_eq!(hall.state("waits"), state, "{list:?} {serves}");
        }
    }
}

/// Two workers that are busy, and a request that waits until one of the two on its list is not.
fn both_busy(names_before: &[String]) -> (Hall, String) {
    let endpoints = "endpoints: [{id: w1, dominion: pool}, {id: w2, dominion: pool}]";
    let yaml = chat(
        "prefill_busy_threshold: 0, busy_worker_ratio: 0.6",
        &format!("dominions: [{{id: pool, max_concurrency: 9}}]\n{endpoints}"),
    );
    let mut hall = Hall::new(&yaml);
    let sized = |hints: QueueHints| QueueHints {
        raw_isl_tokens: Some(10),
        ..hints
    };
    for worker in ["w1", "w2"] {
        hall.send(worker, hinted(worker, sized(pinned(worker))));
    }
    let both = ["w1", "w2"].map(str::to_owned);
    let allowed = QueueHints {
        allowed_workers: Some([names_before, &both].concat()),
        ..QueueHints::default()
    };
    hall.send("waits", hinted("waits", sized(allowed)));
    (hall, yaml)
}

#[test]
fn a_worker_that_comes_back_is_on_an_allow_list_once() {
    let (mut hall, _) = both_busy(&[]);
    hall.handle.remove_worker("w2").unwrap();
    let spec = WorkerSpec::new("w2").dominion("pool");
    hall.handle.add_worker(spec).unwrap();
    assert_eq!(hall.state("waits"), "waiting", "both are busy");
    hall.finish("w1");
    assert_eq!(hall.state("waits"), "running", "half of them are");
}

#[test]
fn a_worker_that_stays_is_on_an_allow_list_once() {
    // The name of `w1` is kept, that of `w2` is not.
    let (mut hall, yaml) = both_busy(&["x".repeat(1021)]);
    hall.handle.reload(policy(&yaml)).unwrap();
    assert_eq!(hall.state("waits"), "waiting", "both are busy");
    hall.finish("w2");
    assert_eq!(hall.state("waits"), "running", "half of them are");
}

#[test]
fn who_waits_for_one_worker_goes_to_no_other_that_comes() {
    let models = "dominions: [{id: pool, max_concurrency: 9}]\n\
                  endpoints: [{id: w1, dominion: pool, models: [m]}]";
    let mut hall = Hall::new(&chat("prefill_busy_threshold: 5", models));
    for (id, tokens) in [("small", 1), ("large", 10), ("waits", 1)] {
        let hints = QueueHints {
            raw_isl_tokens: Some(tokens),
            worker: Some("w1".to_owned()),
            ..model("m")
        };
        hall.send(id, hinted(id, hints));
    }
    let spec = WorkerSpec::new("w2").dominion("pool").models(["m"]);
    hall.handle.add_worker(spec).unwrap();
    assert_eq!(hall.state("waits"), "waiting");
    hall.finish("large");
    let worker = hall.worker("waits");
    assert_eq!(worker.as_deref(), Some("w1"), "though `w2` is less loaded");
}

#[test]
fn a_worker_that_comes_back_larger_is_as_busy_as_its_new_size_makes_it() {
    let fields = "prefill_busy_threshold_frac: 1.0";
    let pool = "dominions: [{id: pool, max_concurrency: 9}]\n\
                endpoints: [{id: other, dominion: pool}]";
    let mut hall = Hall::new(&chat(fields, pool));
    let sized = |tokens| {
        let spec = WorkerSpec::new("w").dominion("pool");
        spec.max_num_batched_tokens(tokens)
    };
    let send = |hall: &mut Hall, id: &str| {
        let hints = QueueHints {
            raw_isl_tokens: Some(10),
            ..pinned("w")
        };
        hall.send(id, hinted(id, hints));
        hall.state(id)
    };
    hall.handle.add_worker(sized(5)).unwrap();
    assert_eq!(send(&mut hall, "1"), "running");
    assert_eq!(send(&mut hall, "2"), "waiting");
    hall.leave("2");
    hall.handle.remove_worker("w").unwrap();
    hall.handle.add_worker(sized(15)).unwrap();
    assert_eq!(send(&mut hall, "3"), "running", "10 of 15 tokens");
    assert_eq!(send(&mut hall, "4"), "waiting", "20 of 15");
}
