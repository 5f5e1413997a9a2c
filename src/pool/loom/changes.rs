//! Workers and limits that change while requests come, wait and go.

use std::sync::Arc;

use super::{super::Refused, *};

const ONE_WORKER: &str = "endpoints: [{id: w0, dominion: pool}]";

#[test]
fn a_request_for_a_worker_that_goes_away_runs_or_is_refused() {
    check(3, policy(1, "", ONE_WORKER), |pool| {
        let first = admitted(pool.enter(&pinned("w0")));
        let waiting = parked(pool.enter(&pinned("w0")));
        let waiting = thread(move || match wait(waiting) {
            Ok(permit) => drop(permit),
            Err(refused) => assert_eq!(refused, Refused::NoEligibleWorker),
        });
        let removing = thread({
            let pool = Arc::clone(pool);
            move || pool.remove_worker("w0").1.wake_all()
        });
        let newcomer = thread({
            let pool = Arc::clone(pool);
            move || match enter_and_wait(&pool, &pinned("w0")) {
                Outcome::Runs(permit) => drop(permit),
                Outcome::TurnedAway(refusal) => assert_eq!(refusal, Refusal::NoEligibleWorker),
                Outcome::Refused(refused) => assert_eq!(refused, Refused::NoEligibleWorker),
            }
        });
        drop(first);
        join([waiting, removing, newcomer]);
    });
}

#[test]
fn a_request_for_a_worker_that_is_drained_and_comes_back_runs() {
    check(None, policy(1, "", ONE_WORKER), |pool| {
        let first = admitted(pool.enter(&pinned("w0")));
        let waiting = parked(pool.enter(&pinned("w0")));
        let waiting = thread(move || drop(wait(waiting).unwrap()));
        let draining = thread({
            let pool = Arc::clone(pool);
            move || {
                pool.set_condition("w0", |it| it.draining = true);
                pool.set_condition("w0", |it| it.draining = false);
            }
        });
        drop(first);
        waiting.join().unwrap();
        draining.join().unwrap();
    });
}

/// Either of the two may go to a worker only while that has no prefill of the other.
#[test]
fn a_request_that_waits_for_a_worker_with_room_gets_one_that_is_added() {
    let busy = ", prefill_busy_threshold: 0";
    check(None, policy(2, busy, ONE_WORKER), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let second = thread({
            let pool = Arc::clone(pool);
            move || match enter_and_wait(&pool, &arrival()) {
                Outcome::Runs(permit) => drop(permit),
                other => panic!("{other:?}"),
            }
        });
        let adding = thread({
            let pool = Arc::clone(pool);
            move || {
                pool.add_worker(fixtures::worker("w1", &[], false))
                    .wake_all()
            }
        });
        second.join().unwrap();
        adding.join().unwrap();
        drop(first);
    });
}

#[test]
fn a_request_that_waits_for_a_first_byte_goes_when_it_comes() {
    let busy = ", prefill_busy_threshold: 0";
    check(None, policy(2, busy, ONE_WORKER), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let second = thread({
            let pool = Arc::clone(pool);
            move || match enter_and_wait(&pool, &arrival()) {
                Outcome::Runs(permit) => drop(permit),
                other => panic!("{other:?}"),
            }
        });
        first.end_prefill();
        second.join().unwrap();
        drop(first);
    });
}

#[test]
fn a_slot_more_and_a_slot_released_reach_two_waiters() {
    check(3, policy(1, "", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let waiting = [(); 2].map(|()| parked(pool.enter(&arrival())));
        let waiting = waiting.map(|ticket| thread(move || wait(ticket).unwrap()));
        let raising = thread({
            let pool = Arc::clone(pool);
            move || pool.set_max_concurrency(Some(2))
        });
        drop(first);
        let permits = waiting.map(|waiting| waiting.join().unwrap());
        raising.join().unwrap();
        assert_eq!(pool.counts().in_use, 2, "both run at the same time");
        drop(permits);
    });
}

#[test]
fn a_slot_less_lets_the_next_wait_for_two_releases_at_most() {
    check(None, policy(2, "", ""), |pool| {
        let running = [(); 2].map(|()| admitted(pool.enter(&arrival())));
        let waiting = parked(pool.enter(&arrival()));
        let waiting = thread(move || drop(wait(waiting).unwrap()));
        let lowering = thread({
            let pool = Arc::clone(pool);
            move || pool.set_max_concurrency(Some(1))
        });
        drop(running);
        waiting.join().unwrap();
        lowering.join().unwrap();
        let only = admitted(pool.enter(&arrival()));
        drop(parked(pool.enter(&arrival())));
        drop(only);
    });
}
