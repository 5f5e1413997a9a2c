//! Slots that are taken back while their requests run, end, or are held on to.

use std::{collections::HashSet, sync::Arc};

use super::{
    super::{Refused, Revoked},
    *,
};

const LOCAL: &str = "
local_models: [{id: small, dominion: pool}]
profiles: [{name: with, models: [small]}, {name: without, models: []}]
";

/// The hold expires while its request ends and somebody waits for the slot.
#[test]
fn a_slot_whose_hold_is_over_is_freed_once_whoever_is_faster() {
    check(2, policy(1, ", max_hold_ms: 10", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        // It is the timekeeper.
        let next = parked(pool.enter(&arrival()));
        let first = thread(move || {
            first.end_prefill();
            drop(first);
        });
        let next = thread(move || drop(wait(next).unwrap()));
        let time = thread({
            let pool = Arc::clone(pool);
            move || clock::pass(&pool, Duration::from_millis(10))
        });
        join([first, next, time]);
    });
}

/// The response is never read to its end, so those who wait take the slot back themselves: the second keeps
/// the time when the first leaves.
#[test]
fn a_hold_ends_though_nobody_polls_it_and_its_timekeeper_leaves() {
    check(2, policy(1, ", max_hold_ms: 10", ""), |pool| {
        let stuck = admitted(pool.enter(&arrival()));
        let mut keeper = parked(pool.enter(&arrival()));
        let next = parked(pool.enter(&arrival()));
        let keeper = thread(move || {
            drop(poll_once(|cx| keeper.poll_granted(cx)));
            drop(keeper);
        });
        let next = thread(move || drop(wait(next).unwrap()));
        let time = thread({
            let pool = Arc::clone(pool);
            move || clock::pass(&pool, Duration::from_millis(10))
        });
        join([keeper, next, time]);
        assert!(
            stuck.grant().share().is_none(),
            "it is not its slot any more"
        );
        drop(stuck);
    });
}

#[test]
fn a_slot_that_is_shared_released_and_revoked_at_once_is_freed_once() {
    check(2, policy(1, ", max_hold_ms: 10", ""), |pool| {
        let permit = admitted(pool.enter(&arrival()));
        let next = parked(pool.enter(&arrival()));
        let grant = Arc::clone(permit.grant());
        let sharing = thread({
            let grant = Arc::clone(&grant);
            move || {
                let share = grant.share();
                drop(share.clone());
                drop(share);
            }
        });
        let ending = thread(move || drop(permit));
        let revoking = thread({
            let pool = Arc::clone(pool);
            move || pool.revoke(&grant, Revoked::HoldExpired)
        });
        drop(wait(next).unwrap());
        join([sharing, ending, revoking]);
    });
}

#[test]
fn a_request_that_keeps_its_prefill_past_its_slot_loads_its_worker_once() {
    check(None, policy(2, ", max_hold_ms: 10", ""), |pool| {
        let other = admitted(pool.enter(&arrival()));
        let permit = admitted(pool.enter(&arrival()));
        let grant = Arc::clone(permit.grant());
        let ending = thread(move || {
            let prefill = permit.into_prefill();
            prefill.end();
            drop(prefill);
        });
        let revoking = thread({
            let pool = Arc::clone(pool);
            move || pool.revoke(&grant, Revoked::HoldExpired)
        });
        ending.join().unwrap();
        revoking.join().unwrap();
        assert_eq!(pool.counts().prefill, 3, "the other's, whole");
        drop(other);
    });
}

#[test]
fn whoever_runs_under_a_slot_learns_that_it_was_taken_back() {
    check(None, policy(1, "", LOCAL), |pool| {
        let mut permit = admitted(pool.enter(&arrival()));
        let running = thread(move || {
            let reason = block_on(|cx| permit.poll_revoked(cx));
            assert_eq!(reason, Revoked::ProfileSwitch);
            drop(permit);
        });
        pool.switch_profile(&HashSet::new()).settle();
        running.join().unwrap();
    });
}

#[test]
fn a_grant_taken_up_while_its_model_is_unloaded_ends() {
    check(3, policy(1, "", LOCAL), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let next = parked(pool.enter(&arrival()));
        let next = thread(move || match wait(next) {
            // It runs until it is told to stop.
            Ok(mut permit) => {
                let reason = block_on(|cx| permit.poll_revoked(cx));
                assert_eq!(reason, Revoked::ProfileSwitch);
            }
            Err(refused) => assert_eq!(refused, Refused::ProfileSwitch),
        });
        let switching = thread({
            let pool = Arc::clone(pool);
            move || pool.switch_profile(&HashSet::new()).settle()
        });
        drop(first);
        next.join().unwrap();
        switching.join().unwrap();
        pool.switch_profile(&HashSet::from(["small"])).settle();
        drop(admitted(pool.enter(&arrival())));
    });
}

/// The permit ends its own hold while an arrival does the same.
#[test]
fn a_hold_that_its_request_and_a_newcomer_end_is_ended_once() {
    check(None, policy(1, ", max_hold_ms: 10", ""), |pool| {
        let mut permit = admitted(pool.enter(&arrival()));
        clock::pass(pool, LATER);
        let running = thread(move || {
            let reason = block_on(|cx| permit.poll_revoked(cx));
            assert_eq!(reason, Revoked::HoldExpired);
            drop(permit);
        });
        match enter_and_wait(pool, &arrival()) {
            Outcome::Runs(permit) => drop(permit),
            other => panic!("{other:?}"),
        }
        running.join().unwrap();
    });
}
