//! Classes keep what is theirs by their names; what is gone is placed anew.

use tower_policy_queue::{PolicyConfig, Totals};

use super::{ONE, families};
use crate::hall::{Hall, with};

fn totals(hall: &Hall, class: &str) -> Totals {
    let snapshot = hall.handle.snapshot();
    let classes = &snapshot.dominions[0].classes;
    let class = classes.iter().find(|it| &*it.name == class);
    class.unwrap().totals.clone()
}

fn deficit(hall: &Hall, class: &str) -> i64 {
    let snapshot = hall.handle.snapshot();
    let classes = &snapshot.dominions[0].classes;
    classes
        .iter()
        .find(|it| &*it.name == class)
        .unwrap()
        .deficit
}

#[test]
fn waiters_stay_and_new_quanta_decide_from_then_on() {
    let mut hall = Hall::new(&families("quantum: 100", "quantum: 100", ONE));
    hall.ask("first", "a");
    let ids = [
        "a1", "a2", "a3", "a4", "a5", "a6", "b1", "b2", "b3", "b4", "b5", "b6",
    ];
    for id in ids {
        hall.ask(id, &id[..1]);
    }
    hall.reload(&families("quantum: 300", "quantum: 100", ONE));
    assert_eq!(
        hall.counts(),
        (1, 12),
        "nobody is lost and nobody goes early"
    );
    hall.finish("first");
    assert_eq!(hall.drain(&ids), "a1 a2 a3 b1 a4 a5 a6 b2 b3 b4 b5 b6");
}

#[test]
fn deficits_stay_with_their_classes_when_these_change_places() {
    let mut hall = Hall::new(&families("quantum: 30", "quantum: 40", ONE));
    hall.ask("first", "a");
    for id in ["a1", "a2", "b1", "b2"] {
        hall.ask(id, &id[..1]);
    }
    hall.finish("first");
    let before = (deficit(&hall, "a"), deficit(&hall, "b"));
    assert_eq!(before, (90, 20), "three rounds let b pay first");
    hall.reload(&format!(
        "
default_policy_family: b
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: new, policy_family: new, cache_bucket: any, quantum: 1}}
  - {{name: b, policy_family: b, cache_bucket: any, quantum: 40}}
  - {{name: a, policy_family: a, cache_bucket: any, quantum: 30}}
{ONE}
"
    ));
    assert_eq!((deficit(&hall, "a"), deficit(&hall, "b")), before);
    hall.finish("b1");
    assert_eq!(hall.drain(&["a1", "a2", "b2"]), "a1 b2 a2");
}

#[test]
fn who_waits_in_a_class_that_is_gone_is_placed_by_what_it_asked_for() {
    let mut hall = Hall::new(&families("quantum: 100", "quantum: 100", ONE));
    hall.ask("first", "a");
    // The policy does not know the family yet, and puts it with the default one.
    hall.ask("late", "c");
    hall.ask("b1", "b");
    assert_eq!(hall.states(["late", "b1"]), ["waiting", "waiting"]);
    hall.reload(&format!(
        "
default_policy_family: a
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: a, policy_family: a, cache_bucket: any, quantum: 100}}
  - {{name: c, policy_family: c, cache_bucket: any, quantum: 100}}
{ONE}
"
    ));
    let snapshot = hall.handle.snapshot();
    let classes = snapshot.dominions[0]
        .waiters
        .iter()
        .map(|it| &*it.class_name);
    assert_eq!(classes.collect::<Vec<_>>(), ["a", "c"]);
    hall.finish("first");
    assert_eq!(hall.drain(&["late", "b1"]), "b1 late");
}

#[test]
fn a_model_that_gets_a_profile_of_its_own_has_it_for_those_whose_class_is_gone() {
    let mut hall = Hall::new(&families(
        "quantum: 100",
        "quantum: 100",
        &format!("{ONE}\nendpoints: [{{id: w, dominion: pool, models: [m]}}]"),
    ));
    hall.ask("first", "a");
    let mut request = with("1", &[]);
    request.extensions_mut().insert(crate::hall::model("m"));
    hall.send("1", request);
    hall.reload(
        "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes: [{name: a, policy_family: a, cache_bucket: any, quantum: 1}]
models:
  m:
    default_policy_family: own
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: own, policy_family: own, cache_bucket: any, quantum: 1}]
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints: [{id: w, dominion: pool, models: [m]}]
",
    );
    hall.finish("first");
    let admission = hall.scene.desk.admission("1");
    assert_eq!((admission.class(), admission.profile()), ("own", Some("m")));
}

#[tokio::test(start_paused = true)]
async fn who_waits_keeps_the_time_of_its_arrival_in_another_order() {
    let mut hall = Hall::new(&families("quantum: 100", "quantum: 100", ONE));
    hall.ask("first", "a");
    for (id, tokens) in [("long", "900"), ("short", "5"), ("middle", "70")] {
        hall.pass(10).await;
        let headers = [("x-dynamo-meta-policy-class", "a"), ("x-tokens", tokens)];
        hall.send(id, with(id, &headers));
    }
    hall.reload(&families(
        "quantum: 100, queue_policy: wspt",
        "quantum: 100",
        ONE,
    ));
    let order = |hall: &Hall| -> Vec<u64> {
        let snapshot = hall.handle.snapshot();
        snapshot.dominions[0]
            .waiters
            .iter()
            .map(|it| it.cost)
            .collect()
    };
    assert_eq!(order(&hall), [5, 70, 900], "the shortest first");
    hall.reload(&families("quantum: 100", "quantum: 100", ONE));
    assert_eq!(order(&hall), [900, 5, 70], "as they came");
    let snapshot = hall.handle.snapshot();
    assert_eq!(snapshot.dominions[0].oldest_wait_ms, Some(20));
}

#[test]
fn who_runs_keeps_the_rules_it_was_let_in_by() {
    let headers = "quantum: 100, hold_until: headers";
    let mut hall = Hall::new(&families("quantum: 100", headers, ONE));
    hall.ask("1", "a");
    hall.reload(&families(headers, "quantum: 100", ONE));
    let (reading, _feed) = hall.stream("1");
    assert_eq!(
        hall.counts(),
        (1, 0),
        "it holds its slot to the end of its body"
    );
    drop(reading);
    assert_eq!(hall.counts(), (0, 0));
    hall.ask("2", "a");
    let (_reading, _feed) = hall.stream("2");
    assert_eq!(hall.counts(), (0, 0), "the next one does not");
}

#[test]
fn what_became_of_requests_is_counted_on() {
    let mut hall = Hall::new(&families("quantum: 100", "quantum: 100", ONE));
    hall.ask("1", "a");
    hall.finish("1");
    hall.ask("2", "b");
    hall.ask("3", "b");
    hall.ask("4", "a");
    let gone = "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes: [{name: a, policy_family: a, cache_bucket: any, quantum: 7}]
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
";
    hall.reload(gone);
    let a = totals(&hall, "a");
    assert_eq!(
        (a.arrived, a.completed),
        (3, 1),
        "the one that waited in b is counted in a"
    );
    hall.finish("2");
    assert_eq!(hall.drain(&["3", "4"]), "3 4");
    let former = hall.handle.snapshot().dominions[0].former_classes.clone();
    assert_eq!((former.arrived, former.completed), (1, 1));
    assert_eq!(totals(&hall, "a").completed, 3);
}

#[test]
fn a_reload_tells_what_it_changed() {
    let hall = Hall::new(&families("quantum: 100", "quantum: 100", ONE));
    let next = families("quantum: 300", "quantum: 100", ONE)
        .parse()
        .unwrap();
    let changes = hall.handle.reload(next).unwrap();
    assert_eq!(
        changes.to_string(),
        "~ policy_classes.a.quantum: 100 -> 300"
    );
    let same = families("quantum: 300", "quantum: 100", ONE)
        .parse()
        .unwrap();
    assert!(hall.handle.reload(same).unwrap().is_empty());
}

#[test]
fn a_policy_that_changes_nothing_disturbs_nobody() {
    let yaml = families("quantum: 30", "quantum: 40", ONE);
    let mut hall = Hall::new(&yaml);
    let mut undisturbed = Hall::new(&yaml);
    let ids = ["first", "a1", "b1", "a2", "b2", "a3", "b3", "b4"];
    for hall in [&mut hall, &mut undisturbed] {
        for id in ids {
            hall.ask(id, &id[..1]);
        }
    }
    let mut orders = [Vec::new(), Vec::new()];
    for (index, hall) in [&mut hall, &mut undisturbed].into_iter().enumerate() {
        let mut left = ids.to_vec();
        while let Some(next) = left.iter().position(|id| hall.state(id) == "running") {
            let id = left.remove(next);
            if index == 0 {
                hall.reload(&yaml);
            }
            hall.finish(id);
            orders[index].push(id);
        }
    }
    assert_eq!(orders[0], orders[1]);
    assert_eq!(orders[0].len(), ids.len());
}

#[test]
fn headers_bypass_and_answers_are_those_of_the_new_policy() {
    let mut hall =
        Hall::new("dominions: [{id: pool, kind: remote, policy: reject, max_concurrency: 1}]");
    hall.arrive("1");
    hall.arrive("2");
    assert_eq!(hall.response("2").status(), 429);
    let config: PolicyConfig = "
dominions: [{id: pool, kind: remote, policy: reject, max_concurrency: 1}]
statuses: {queue_rejected: 503}
bypass: [/free]
headers: {raw_isl_tokens: x-tokens}
"
    .parse()
    .unwrap();
    hall.handle.reload(config).unwrap();
    hall.arrive("3");
    assert_eq!(hall.response("3").status(), 503);
    hall.arrive("free");
    assert_eq!(hall.state("free"), "running");
    hall.send("4", with("4", &[("x-tokens", "many")]));
    assert_eq!(hall.state("4"), "invalid_queue_header");
}
