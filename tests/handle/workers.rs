//! Workers that come and go, are drained, overloaded or tainted.

use tower_policy_queue::{ChangeError, PolicyQueueLayer, QueueHints, WorkerSpec};

use crate::{
    common::desk::policy,
    hall::{Hall, chat, hinted, model, pinned},
};

const WORKERS: &str = "
dominions: [{id: pool, kind: remote, max_concurrency: 4}, {id: other, kind: remote, max_concurrency: 4}]
default_dominion: pool
endpoints:
  - {id: a, dominion: pool, models: [m]}
  - {id: b, dominion: pool, models: [m, n]}
  - {id: z, dominion: other, models: [o]}
";

/// Workers that are busy with a token, in a dominion of many slots.
fn busy() -> Hall {
    Hall::new(&chat("prefill_busy_threshold: 0", WORKERS))
}

/// 10 tokens besides.
fn sized(hints: QueueHints) -> QueueHints {
    QueueHints {
        raw_isl_tokens: Some(10),
        ..hints
    }
}

fn tolerating(taints: &[&str], hints: QueueHints) -> QueueHints {
    QueueHints {
        tolerations: Some(taints.iter().map(|&taint| taint.to_owned()).collect()),
        ..hints
    }
}

impl Hall {
    fn hint(&mut self, id: &str, hints: QueueHints) {
        self.send(id, hinted(id, sized(hints)));
    }

    fn any(&mut self, id: &str) {
        self.hint(id, QueueHints::default());
    }
}

#[test]
fn an_added_worker_takes_who_waits_at_once() {
    let mut hall = busy();
    for id in ["1", "2", "3"] {
        hall.any(id);
    }
    assert_eq!(
        hall.states(["1", "2", "3"]),
        ["running", "running", "waiting"]
    );
    let spec = WorkerSpec::new("c").dominion("pool");
    hall.handle.add_worker(spec).unwrap();
    assert_eq!(hall.state("3"), "running");
    assert_eq!(hall.worker("3").as_deref(), Some("c"));
}

#[test]
fn an_added_worker_takes_those_whose_allow_list_names_it() {
    let yaml = chat(
        "prefill_busy_threshold: 0",
        "dominions: [{id: pool, max_concurrency: 9}]\nendpoints: [{id: w1, dominion: pool}]",
    );
    let allowed = |allowed: &[&str]| QueueHints {
        allowed_workers: Some(allowed.iter().map(|id| (*id).to_owned()).collect()),
        ..QueueHints::default()
    };
    // By the handle, after it was removed, and by a reload.
    for comes in [0, 1, 2] {
        let mut hall = Hall::new(&yaml);
        if comes == 1 {
            let spec = WorkerSpec::new("w2").dominion("pool");
            hall.handle.add_worker(spec).unwrap();
        }
        hall.hint("first", allowed(&["w1"]));
        hall.hint("second", allowed(&["w2", "w1"]));
        hall.hint("listed", allowed(&["w1", "w2"]));
        hall.hint("another", allowed(&["w1", "w3"]));
        assert_eq!(hall.states(["listed", "another"]), ["waiting", "waiting"]);
        if comes == 1 {
            hall.handle.remove_worker("w2").unwrap();
            hall.finish("second");
        } else {
            assert_eq!(hall.state("second"), "waiting", "`w1` is busy");
            hall.leave("second");
        }
        if comes == 2 {
            let two = yaml.replace("[{id: w1", "[{id: w2, dominion: pool}, {id: w1");
            hall.handle.reload(policy(&two)).unwrap();
        } else {
            let spec = WorkerSpec::new("w2").dominion("pool");
            hall.handle.add_worker(spec).unwrap();
        }
        assert_eq!(hall.state("listed"), "running");
        assert_eq!(hall.worker("listed").as_deref(), Some("w2"));
        assert_eq!(hall.state("another"), "waiting", "it does not name it");
    }
}

#[test]
fn the_first_worker_to_serve_a_model_is_waited_for_by_who_waits_for_the_model() {
    let yaml = |models: &str| {
        format!(
            "dominions: [{{id: pool, max_concurrency: 1}}]\n\
             endpoints: [{{id: other, dominion: pool, models: [x]}}{models}]"
        )
    };
    for by_reload in [false, true] {
        let mut hall = Hall::new(&yaml(""));
        hall.hint("first", model("m"));
        hall.hint("waits", model("m"));
        assert_eq!(
            hall.worker("first").as_deref(),
            Some("other"),
            "if none does"
        );
        if by_reload {
            let two = yaml(", {id: own, dominion: pool, models: [m]}");
            hall.handle.reload(policy(&two)).unwrap();
        } else {
            let spec = WorkerSpec::new("own").dominion("pool").models(["m"]);
            hall.handle.add_worker(spec).unwrap();
        }
        hall.handle.set_overloaded("own", true).unwrap();
        hall.finish("first");
        assert_eq!(hall.state("waits"), "waiting", "`other` does not serve it");
        hall.handle.set_overloaded("own", false).unwrap();
        assert_eq!(hall.worker("waits").as_deref(), Some("own"));
    }
}

#[test]
fn an_added_worker_is_told_to_the_inner_service_as_it_was_specified() {
    let mut hall = busy();
    let spec = WorkerSpec::new("c")
        .dominion("pool")
        .models(["x", "y"])
        .protocol("openai")
        .base_url("http://c")
        .api_key("secret");
    assert!(
        !format!("{spec:?}").contains("secret"),
        "a key is never printed"
    );
    hall.handle.add_worker(spec).unwrap();
    for model_of_c in ["x", "y"] {
        hall.hint(model_of_c, tolerating(&[], model(model_of_c)));
    }
    assert_eq!(
        hall.states(["x", "y"]),
        ["running", "waiting"],
        "`c` alone serves them"
    );
    let admission = hall.scene.desk.admission("x");
    let endpoint = admission.endpoint().unwrap();
    assert_eq!(admission.dominion(), Some("pool"));
    assert_eq!(endpoint.id(), "c");
    assert_eq!(endpoint.protocol(), Some("openai"));
    assert_eq!(endpoint.base_url(), Some("http://c"));
    assert_eq!(endpoint.api_key(), Some("secret"));
}

#[test]
fn an_added_worker_without_models_serves_the_one_of_its_name() {
    let mut hall = busy();
    let spec = WorkerSpec::new("c").dominion("other");
    hall.handle.add_worker(spec).unwrap();
    hall.hint("1", model("c"));
    assert_eq!(hall.worker("1").as_deref(), Some("c"));
    assert_eq!(hall.scene.desk.admission("1").dominion(), Some("other"));
    hall.hint("2", pinned("c"));
    assert_eq!(hall.state("2"), "waiting", "and can be pinned to");
}

#[test]
fn an_added_worker_without_a_dominion_is_unlimited() {
    let mut hall = Hall::new(WORKERS);
    hall.handle.add_worker(WorkerSpec::new("free")).unwrap();
    for n in 0..20 {
        hall.hint(&n.to_string(), pinned("free"));
    }
    assert_eq!(hall.counts(), (20, 0));
    assert_eq!(hall.scene.desk.admission("0").dominion(), None);
}

#[test]
fn the_batch_size_of_an_added_worker_counts_for_its_threshold() {
    let yaml = chat(
        "prefill_busy_threshold_frac: 2",
        "dominions: [{id: pool, kind: remote, max_concurrency: 9}]",
    );
    let mut hall = Hall::new(&yaml);
    let spec = WorkerSpec::new("w")
        .dominion("pool")
        .max_num_batched_tokens(5);
    hall.handle.add_worker(spec).unwrap();
    for id in ["1", "2", "3"] {
        hall.any(id);
    }
    assert_eq!(
        hall.states(["1", "2", "3"]),
        ["running", "running", "waiting"],
        "busy above twice 5 tokens: 10 are not, 20 are"
    );
}

#[test]
fn the_first_worker_of_a_dominion_takes_the_place_of_none() {
    let yaml = chat(
        "prefill_busy_threshold: 0",
        "dominions: [{id: pool, kind: remote, max_concurrency: 9}]",
    );
    let mut hall = Hall::new(&yaml);
    hall.any("1");
    hall.any("2");
    assert_eq!(hall.states(["1", "2"]), ["running", "waiting"]);
    assert_eq!(hall.worker("1"), None, "nobody in particular");
    hall.handle
        .add_worker(WorkerSpec::new("w").dominion("pool"))
        .unwrap();
    assert_eq!(hall.state("2"), "running");
    assert_eq!(hall.worker("2").as_deref(), Some("w"));
    hall.any("3");
    hall.finish("1");
    assert_eq!(hall.state("3"), "waiting", "the implicit worker is no more");
    hall.finish("2");
    assert_eq!(hall.worker("3").as_deref(), Some("w"));
}

#[test]
fn removing_a_worker_answers_those_who_could_go_to_no_other() {
    let mut hall = busy();
    hall.hint("runs-on-b", pinned("b"));
    hall.hint("pinned", pinned("b"));
    hall.hint("only-model", model("n"));
    let listed = QueueHints {
        allowed_workers: Some(vec!["b".to_owned()]),
        ..QueueHints::default()
    };
    hall.hint("listed", listed);
    let both = QueueHints {
        allowed_workers: Some(vec!["a".to_owned(), "b".to_owned()]),
        ..QueueHints::default()
    };
    hall.hint("runs-on-a", pinned("a"));
    hall.hint("either", both);
    assert_eq!(hall.counts(), (2, 4));

    hall.handle.remove_worker("b").unwrap();
    for id in ["pinned", "only-model", "listed"] {
        assert_eq!(hall.state(id), "no_eligible_worker", "{id}");
        assert_eq!(hall.response(id).status(), 503);
    }
    assert_eq!(
        hall.states(["runs-on-b", "runs-on-a"]),
        ["running", "running"]
    );
    assert_eq!(hall.state("either"), "waiting", "`a` is left for it");
    hall.finish("runs-on-a");
    assert_eq!(hall.worker("either").as_deref(), Some("a"));
    hall.finish("runs-on-b");
    hall.finish("either");
    assert_eq!(hall.counts(), (0, 0));
    assert_eq!(hall.handle.usage().prefill_tokens, 0);
}

#[test]
fn who_is_granted_and_not_yet_polled_keeps_a_worker_that_is_removed() {
    let mut hall = busy();
    hall.hint("first", pinned("b"));
    hall.hint("second", pinned("b"));
    hall.freeze("second");
    hall.finish("first");
    hall.handle.remove_worker("b").unwrap();
    hall.thaw("second");
    assert_eq!(hall.state("second"), "running", "it is in flight");
    assert_eq!(hall.worker("second").as_deref(), Some("b"));
}

#[test]
fn a_removed_worker_is_unknown_and_may_come_again() {
    let mut hall = busy();
    hall.handle.remove_worker("b").unwrap();
    hall.hint("pinned", pinned("b"));
    assert_eq!(hall.state("pinned"), "no_eligible_worker");
    hall.hint("model", model("n"));
    assert_eq!(
        hall.worker("model").as_deref(),
        Some("a"),
        "nobody claims that model any more, so any worker will do"
    );
    let spec = WorkerSpec::new("b").dominion("other").models(["n"]);
    hall.handle.add_worker(spec).unwrap();
    hall.hint("again", pinned("b"));
    hall.hint("model-again", model("n"));
    assert_eq!(
        hall.states(["again", "model-again"]),
        ["running", "waiting"]
    );
    let admission = hall.scene.desk.admission("again");
    assert_eq!(admission.dominion(), Some("other"), "elsewhere");
}

#[test]
fn the_last_worker_s_removal_leaves_nobody_to_serve() {
    let mut hall = Hall::new(
        "dominions: [{id: pool, max_concurrency: 1}]\nendpoints: [{id: w, dominion: pool}]",
    );
    hall.arrive("running");
    hall.arrive("waiting");
    hall.handle.remove_worker("w").unwrap();
    hall.arrive("late");
    assert_eq!(
        hall.states(["running", "waiting", "late"]),
        ["running", "no_eligible_worker", "no_eligible_worker"]
    );
    hall.handle
        .add_worker(WorkerSpec::new("v").dominion("pool"))
        .unwrap();
    hall.arrive("next");
    assert_eq!(hall.state("next"), "waiting", "the slot is still taken");
    hall.finish("running");
    assert_eq!(hall.worker("next").as_deref(), Some("v"));
}

#[test]
fn a_removal_unblocks_who_waits_behind_those_it_answers() {
    let mut hall = busy();
    hall.hint("on-b", pinned("b"));
    let listed = QueueHints {
        allowed_workers: Some(vec!["b".to_owned()]),
        ..QueueHints::default()
    };
    hall.hint("head", listed);
    hall.any("behind");
    assert_eq!(hall.states(["head", "behind"]), ["waiting", "waiting"]);
    hall.handle.remove_worker("b").unwrap();
    assert_eq!(
        hall.states(["head", "behind"]),
        ["no_eligible_worker", "running"]
    );
}

#[test]
fn a_drained_worker_finishes_what_it_has_and_gets_no_more() {
    let mut hall = busy();
    hall.hint("on-b", pinned("b"));
    hall.hint("waits-for-b", pinned("b"));
    hall.handle.drain_worker("b", true).unwrap();
    hall.hint("refused", pinned("b"));
    assert_eq!(
        hall.states(["on-b", "refused"]),
        ["running", "no_eligible_worker"]
    );
    hall.any("1");
    hall.any("2");
    assert_eq!(hall.worker("1").as_deref(), Some("a"));
    assert_eq!(hall.state("2"), "waiting", "`b` is no choice");
    hall.finish("on-b");
    assert_eq!(hall.states(["waits-for-b", "2"]), ["waiting", "waiting"]);
    hall.handle.drain_worker("b", false).unwrap();
    assert_eq!(
        hall.counts(),
        (2, 1),
        "it goes on at once, with one of them"
    );
}

#[test]
fn an_overloaded_worker_is_spared_until_it_is_not() {
    let mut hall = busy();
    hall.handle.set_overloaded("a", true).unwrap();
    hall.handle.set_overloaded("a", true).unwrap();
    hall.any("1");
    hall.any("2");
    assert_eq!(hall.worker("1").as_deref(), Some("b"));
    assert_eq!(hall.state("2"), "waiting");
    hall.hint("pinned", pinned("a"));
    assert_eq!(hall.state("pinned"), "no_eligible_worker");
    hall.handle.set_overloaded("a", false).unwrap();
    assert_eq!(hall.state("2"), "running", "once is enough to take it back");
    assert_eq!(hall.worker("2").as_deref(), Some("a"));
    for worker in ["a", "b"] {
        hall.handle.set_overloaded(worker, true).unwrap();
    }
    hall.any("3");
    assert_eq!(hall.state("3"), "no_eligible_worker", "all are overloaded");
    assert_eq!(hall.states(["1", "2"]), ["running", "running"]);
}

#[test]
fn a_taint_keeps_away_who_does_not_tolerate_it() {
    let mut hall = busy();
    hall.handle.set_taint("a", "slow", true).unwrap();
    hall.handle.set_taint("a", "beta", true).unwrap();
    hall.hint("1", QueueHints::default());
    hall.hint("2", QueueHints::default());
    assert_eq!(hall.worker("1").as_deref(), Some("b"));
    assert_eq!(hall.state("2"), "waiting");
    hall.hint("one", tolerating(&["slow"], pinned("a")));
    assert_eq!(
        hall.state("one"),
        "no_eligible_worker",
        "each must be tolerated"
    );
    hall.hint("both", tolerating(&["beta", "slow", "other"], pinned("a")));
    assert_eq!(hall.worker("both").as_deref(), Some("a"));
    hall.finish("both");
    assert_eq!(
        hall.state("2"),
        "waiting",
        "a toleration of another's is not its own"
    );
    hall.handle.set_taint("a", "slow", false).unwrap();
    assert_eq!(hall.state("2"), "waiting", "one taint is left");
    hall.handle.set_taint("a", "beta", false).unwrap();
    hall.handle.set_taint("a", "beta", false).unwrap();
    assert_eq!(hall.worker("2").as_deref(), Some("a"));
}

#[test]
fn who_tolerates_waits_for_tainted_workers_too_and_takes_the_less_loaded() {
    let mut hall = busy();
    hall.handle.set_taint("a", "slow", true).unwrap();
    hall.hint("1", tolerating(&["slow"], QueueHints::default()));
    hall.hint("2", tolerating(&["slow"], QueueHints::default()));
    hall.hint("3", tolerating(&["slow"], QueueHints::default()));
    assert_eq!(hall.worker("1").as_deref(), Some("a"));
    assert_eq!(hall.worker("2").as_deref(), Some("b"));
    assert_eq!(hall.state("3"), "waiting");
    hall.finish("1");
    assert_eq!(hall.worker("3").as_deref(), Some("a"));
}

#[test]
fn a_condition_set_on_a_busy_worker_keeps_the_count_of_the_busy() {
    let yaml = chat("prefill_busy_threshold: 0, busy_worker_ratio: 0.5", WORKERS);
    let mut hall = Hall::new(&yaml);
    hall.hint("on-a", pinned("a"));
    hall.any("waits");
    assert_eq!(hall.state("waits"), "waiting", "half of them are busy");
    hall.handle.drain_worker("a", true).unwrap();
    assert_eq!(
        hall.worker("waits").as_deref(),
        Some("b"),
        "none of those that are left"
    );
    hall.finish("on-a");
    hall.any("next");
    assert_eq!(hall.state("next"), "waiting", "`b` is busy");
    hall.handle.drain_worker("a", false).unwrap();
    assert_eq!(hall.state("next"), "waiting", "half of them are");
    hall.finish("waits");
    assert_eq!(hall.worker("next").as_deref(), Some("a"));
}

#[test]
fn class_limits_follow_the_number_of_workers_and_evict_nobody() {
    let yaml = chat(
        "request_queue_limit_per_worker: 1",
        "
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints: [{id: a, dominion: pool}, {id: b, dominion: pool}]
",
    );
    let mut hall = Hall::new(&yaml);
    hall.arrive("running");
    for id in ["1", "2", "3"] {
        hall.arrive(id);
    }
    let full = "policy_class_queue_limit";
    assert_eq!(hall.states(["1", "2", "3"]), ["waiting", "waiting", full]);
    hall.handle
        .add_worker(WorkerSpec::new("c").dominion("pool"))
        .unwrap();
    for id in ["4", "5"] {
        hall.arrive(id);
    }
    assert_eq!(
        hall.states(["4", "5"]),
        ["waiting", full],
        "three workers, three requests"
    );
    for worker in ["b", "c"] {
        hall.handle.remove_worker(worker).unwrap();
    }
    assert_eq!(hall.counts(), (1, 3), "nobody who is queued is evicted");
    hall.finish("running");
    hall.finish("1");
    hall.arrive("6");
    assert_eq!(
        hall.states(["2", "4", "6"]),
        ["running", "waiting", full],
        "one worker, one request"
    );
    hall.finish("2");
    hall.arrive("7");
    assert_eq!(hall.states(["4", "7"]), ["running", "waiting"]);
    hall.handle.remove_worker("a").unwrap();
    assert_eq!(hall.state("7"), "no_eligible_worker");
}

#[test]
fn a_model_has_the_workers_that_claim_it_now() {
    let mut hall = busy();
    hall.hint("n1", model("n"));
    hall.hint("n2", model("n"));
    assert_eq!(
        hall.states(["n1", "n2"]),
        ["running", "waiting"],
        "`b` alone serves `n`"
    );
    let spec = WorkerSpec::new("c").dominion("pool").models(["n", "m"]);
    hall.handle.add_worker(spec).unwrap();
    assert_eq!(hall.worker("n2").as_deref(), Some("c"), "and `c` now");
    hall.hint("n3", model("n"));
    hall.handle.remove_worker("b").unwrap();
    assert_eq!(hall.state("n3"), "waiting", "`c` is left");
    hall.finish("n2");
    assert_eq!(hall.worker("n3").as_deref(), Some("c"));
    hall.handle.remove_worker("c").unwrap();
    assert_eq!(hall.state("n3"), "running");
}

#[test]
fn a_model_that_moves_with_its_worker_takes_its_requests_along() {
    let mut hall = busy();
    hall.handle.remove_worker("z").unwrap();
    let spec = WorkerSpec::new("z2").dominion("pool").models(["o"]);
    hall.handle.add_worker(spec).unwrap();
    hall.hint("1", model("o"));
    let admission = hall.scene.desk.admission("1");
    assert_eq!(
        (admission.dominion(), admission.worker()),
        (Some("pool"), Some("z2"))
    );
}

#[test]
fn changes_that_cannot_be_meant_are_refused_and_change_nothing() {
    let mut hall = busy();
    let handle = hall.handle.clone();
    let add = |spec: WorkerSpec| handle.add_worker(spec).unwrap_err();
    for id in ["", "no good", "é", "a/b"] {
        let error = add(WorkerSpec::new(id).dominion("pool"));
        assert!(matches!(&error, ChangeError::InvalidWorker { id: named, .. } if named == id));
        assert!(error.to_string().contains("is no id"), "{error}");
    }
    for models in [&["m", "x", "x"][..], &["x", " "], &[""]] {
        let error = add(WorkerSpec::new("c")
            .dominion("pool")
            .models(models.to_vec()));
        let wrong = models[models.len() - 1];
        assert!(matches!(&error, ChangeError::InvalidModel { model, .. } if model == wrong));
    }
    let error = add(WorkerSpec::new("c").dominion("none"));
    assert!(
        matches!(error, ChangeError::UnknownDominion { .. }),
        "{error:?}"
    );
    let local = PolicyQueueLayer::new(policy("dominions: [{id: gpu, kind: local}]")).handle();
    let error = local
        .add_worker(WorkerSpec::new("c").dominion("gpu"))
        .unwrap_err();
    assert!(
        matches!(&error, ChangeError::LocalDominion { id, .. } if id == "gpu"),
        "{error:?}"
    );
    for dominion in ["pool", "other"] {
        let error = add(WorkerSpec::new("a").dominion(dominion));
        assert!(
            matches!(error, ChangeError::WorkerExists { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("`a`"), "{error}");
    }
    let error = add(WorkerSpec::new("c").dominion("other").models(["fine", "n"]));
    assert!(matches!(&error, ChangeError::ModelElsewhere { model, .. } if model == "n"));
    assert!(error.to_string().contains("another dominion"), "{error}");
    let error = add(WorkerSpec::new("n"));
    assert!(
        matches!(error, ChangeError::ModelElsewhere { .. }),
        "its own name is a model"
    );
    for error in [
        handle.remove_worker("none"),
        handle.drain_worker("none", true),
        handle.set_overloaded("none", true),
        handle.set_taint("none", "slow", true),
    ] {
        let error = error.unwrap_err();
        assert!(
            matches!(error, ChangeError::UnknownWorker { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("`none`"), "{error}");
    }
    hall.hint("fine", model("fine"));
    assert_eq!(
        hall.worker("fine").as_deref(),
        Some("a"),
        "no place was left behind for it"
    );
    handle
        .add_worker(WorkerSpec::new("c").dominion("other"))
        .unwrap();
}

#[test]
fn a_worker_that_comes_back_has_what_it_still_serves_and_is_one() {
    let mut hall = busy();
    hall.hint("1", pinned("a"));
    hall.handle.remove_worker("a").unwrap();
    for _ in 0..3 {
        let spec = WorkerSpec::new("a").dominion("pool").models(["m"]);
        hall.handle.add_worker(spec).unwrap();
        hall.hint("2", pinned("a"));
        assert_eq!(hall.state("2"), "waiting", "it is busy with the first");
        hall.leave("2");
        let pool = &hall.handle.snapshot().dominions[0];
        let rows = pool
            .workers
            .iter()
            .filter(|it| it.id.as_deref() == Some("a"));
        let rows: Vec<_> = rows.map(|it| (it.in_flight, it.prefill_tokens)).collect();
        assert_eq!(rows, [(1, 10)]);
        hall.handle.remove_worker("a").unwrap();
    }
    let spec = WorkerSpec::new("a").dominion("pool").models(["m"]);
    hall.handle.add_worker(spec).unwrap();
    hall.hint("other", model("m"));
    assert_eq!(hall.worker("other").as_deref(), Some("b"), "the idle one");
    hall.hint("waits", model("m"));
    assert_eq!(hall.state("waits"), "waiting", "both are busy");
    hall.finish("1");
    assert_eq!(hall.worker("waits").as_deref(), Some("a"));
    hall.finish("other");
    hall.finish("waits");
    assert_eq!(
        (hall.counts(), hall.handle.usage().prefill_tokens),
        ((0, 0), 0)
    );
}
