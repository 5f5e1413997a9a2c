//! A grant and a deadline in the same instant: it is one of the two, and no slot is lost or made.

use crate::hall::{Hall, ONE_SLOT, chat, with};

fn hall() -> Hall {
    Hall::new(&chat("max_queue_wait_ms: 100", ONE_SLOT))
}

/// That there is exactly one slot, which is free.
fn assert_one_free_slot(mut hall: Hall) {
    assert_eq!(hall.counts(), (0, 0), "nothing is left behind");
    hall.arrive("probe");
    hall.arrive("second-probe");
    assert_eq!(
        hall.states(["probe", "second-probe"]),
        ["running", "waiting"],
        "there is one slot, neither lost nor doubled"
    );
}

#[test]
fn who_leaves_between_grant_and_start_takes_no_turn_of_its_class() {
    let class = |name| {
        format!("  - {{name: {name}, policy_family: {name}, cache_bucket: any, quantum: 100}}\n")
    };
    let mut hall = Hall::new(&format!(
        "
default_policy_family: b
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
{}{}
{ONE_SLOT}
headers: {{raw_isl_tokens: x-raw}}
",
        class("a"),
        class("b")
    ));
    for id in ["b0", "a1", "a2", "b1", "b2"] {
        let headers = [("x-dynamo-meta-policy-class", &id[..1]), ("x-raw", "100")];
        hall.send(id, with(id, &headers));
    }
    hall.freeze("a1");
    hall.finish("b0");
    assert_eq!(hall.rings("a1"), 1, "the first turn is `a`'s");
    hall.leave("a1");
    assert_eq!(
        hall.states(["a2", "b1"]),
        ["running", "waiting"],
        "and still is"
    );
    hall.finish("a2");
    assert_eq!(hall.state("b1"), "running");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_before_the_deadline_is_good_after_it() {
    let mut hall = hall();
    hall.arrive("running");
    hall.arrive("waiting");
    hall.freeze("waiting");
    hall.pass(99).await;
    hall.finish("running");
    assert_eq!(hall.counts(), (1, 0), "the grant is the slot");
    hall.pass(1).await;
    hall.thaw("waiting");
    assert_eq!(hall.state("waiting"), "running", "it was granted in time");
    hall.finish("waiting");
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_noticed_before_the_grant_ends_the_wait() {
    let mut hall = hall();
    hall.arrive("running");
    hall.arrive("waiting");
    hall.pass(100).await;
    hall.finish("running");
    assert_eq!(hall.state("waiting"), "queue_timeout");
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn a_slot_freed_at_the_deadline_goes_to_who_has_not_noticed_it_yet() {
    let mut hall = hall();
    hall.arrive("running");
    hall.arrive("waiting");
    hall.freeze("waiting");
    hall.pass(100).await;
    assert_eq!(hall.rings("waiting"), 1, "the deadline woke it");
    hall.finish("running");
    hall.thaw("waiting");
    assert_eq!(
        hall.state("waiting"),
        "running",
        "it is granted, so it is not timed out as well"
    );
    hall.finish("waiting");
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn of_several_with_the_same_deadline_each_ends_one_way() {
    for freed_first in [true, false] {
        for polled_backwards in [true, false] {
            let mut hall = hall();
            hall.arrive("running");
            let mut ids = ["a", "b", "c", "d"];
            for id in ids {
                hall.arrive(id);
                hall.freeze(id);
            }
            if freed_first {
                hall.finish("running");
                hall.pass(100).await;
            } else {
                hall.pass(100).await;
                hall.finish("running");
            }
            assert_eq!(hall.counts(), (1, 3), "one was granted");
            if polled_backwards {
                ids.reverse();
            }
            for id in ids {
                hall.thaw(id);
            }
            assert_eq!(
                hall.states(["a", "b", "c", "d"]),
                ["running", "queue_timeout", "queue_timeout", "queue_timeout"],
                "freed first: {freed_first}, polled backwards: {polled_backwards}"
            );
            assert_eq!(hall.counts(), (1, 0));
            hall.finish("a");
            assert_one_free_slot(hall);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_dropped_after_grant_and_deadline_passes_the_slot_on() {
    let mut hall = hall();
    hall.arrive("running");
    for id in ["a", "b"] {
        hall.arrive(id);
        hall.freeze(id);
    }
    hall.pass(50).await;
    hall.arrive("late");
    hall.finish("running");
    hall.pass(50).await;
    hall.leave("a");
    assert_eq!(
        hall.counts(),
        (1, 1),
        "`b` was granted what `a` did not take"
    );
    hall.leave("b");
    assert_eq!(hall.state("late"), "running", "and `late` what `b` did not");
    hall.finish("late");
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_request_that_is_dropped_unread_gives_nothing_back() {
    let mut hall = hall();
    hall.arrive("running");
    hall.arrive("waiting");
    hall.pass(100).await;
    assert_eq!(hall.state("waiting"), "queue_timeout");
    hall.leave("waiting");
    assert_eq!(hall.counts(), (1, 0), "it had no slot");
    hall.finish("running");
    assert_one_free_slot(hall);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_timeouts_and_grants_in_turns_keep_the_count() {
    let mut hall = Hall::new(&chat(
        "max_queue_wait_ms: 100",
        "dominions: [{id: pool, kind: remote, max_concurrency: 3, max_queue: 100}]",
    ));
    let ids: Vec<String> = (0..103).map(|n| n.to_string()).collect();
    for id in &ids[..3] {
        hall.arrive(id);
    }
    for (n, id) in ids.iter().enumerate().skip(3) {
        if n % 10 == 0 {
            hall.pass(3).await;
        }
        hall.arrive(id);
    }
    let mut served = 0;
    for step in 0..60 {
        hall.pass(5).await;
        let running = ids.iter().find(|id| hall.state(id) == "running");
        if let Some(id) = running.filter(|_| step % 2 == 0) {
            hall.finish(id);
            served += 1;
        }
        let (in_use, waiting) = hall.counts();
        assert!(in_use <= 3, "never more than there are");
        assert!(
            in_use == 3 || waiting == 0,
            "no slot idles while somebody waits"
        );
    }
    let timed_out = ids
        .iter()
        .filter(|id| hall.state(id) == "queue_timeout")
        .count();
    let (in_use, waiting) = hall.counts();
    assert_eq!(waiting, 0);
    assert_eq!(
        served + timed_out + in_use,
        ids.len(),
        "each was served, is being served, or timed out"
    );
    assert!(timed_out > 50 && served > 10, "{timed_out} {served}");
}
