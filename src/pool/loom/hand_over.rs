//! A slot on its way from one request to the next.

use std::{sync::Arc, task::Poll};

use super::{
    super::{Pool, Refused},
    *,
};

#[test]
fn a_newcomer_gets_a_slot_that_is_released_meanwhile() {
    check(None, policy(1, "", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let desk = Desk::default();
        let newcomer = thread({
            let (pool, desk) = (Arc::clone(pool), desk.clone());
            move || match enter_and_wait(&pool, &arrival()) {
                Outcome::Runs(permit) => desk.serve(permit, 1),
                other => panic!("{other:?}"),
            }
        });
        desk.serve(first, 1);
        newcomer.join().unwrap();
    });
}

#[test]
fn two_newcomers_share_one_slot() {
    check(None, policy(1, "", ""), |pool| {
        let desk = Desk::default();
        let newcomers = [(); 2].map(|()| {
            let (pool, desk) = (Arc::clone(pool), desk.clone());
            thread(move || match enter_and_wait(&pool, &arrival()) {
                Outcome::Runs(permit) => desk.serve(permit, 1),
                other => panic!("{other:?}"),
            })
        });
        join(newcomers);
    });
}

#[test]
fn the_slot_of_a_waiter_that_leaves_goes_to_the_next() {
    check(None, policy(1, "", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let mut leaving = parked(pool.enter(&arrival()));
        let next = parked(pool.enter(&arrival()));
        let leaving = thread(move || {
            // Its client goes away right after, whether or not it has its slot.
            drop(poll_once(|cx| leaving.poll_granted(cx)));
            drop(leaving);
        });
        let next = thread(move || drop(wait(next).unwrap()));
        drop(first);
        leaving.join().unwrap();
        next.join().unwrap();
    });
}

#[test]
fn two_slots_reach_two_waiters() {
    check(None, policy(2, "", ""), |pool| {
        let desk = Desk::default();
        let pairs = [(); 2].map(|()| admitted(pool.enter(&arrival())));
        let pairs = pairs.map(|permit| (permit, parked(pool.enter(&arrival()))));
        let threads = pairs.map(|(permit, ticket)| {
            let desk = desk.clone();
            thread(move || {
                drop(permit);
                desk.serve(wait(ticket).unwrap(), 2);
            })
        });
        join(threads);
    });
}

#[test]
fn a_waiter_whose_wait_is_over_is_granted_or_refused_and_the_next_runs() {
    check(2, policy(1, ", max_queue_wait_ms: 20", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        // Its own limit is shorter than its class's.
        let short = parked(pool.enter(&Arrival {
            max_queue_wait: Some(Duration::from_millis(10)),
            ..arrival()
        }));
        let short = thread(move || match wait(short) {
            Ok(permit) => drop(permit),
            Err(refused) => assert_eq!(refused, Refused::TimedOut),
        });
        let time = thread({
            let pool = Arc::clone(pool);
            move || clock::pass(&pool, Duration::from_millis(10))
        });
        let next = thread({
            let pool = Arc::clone(pool);
            move || {
                drop(first);
                match enter_and_wait(&pool, &arrival()) {
                    Outcome::Runs(permit) => drop(permit),
                    other => panic!("{other:?}"),
                }
            }
        });
        join([short, time, next]);
    });
}

#[test]
fn who_comes_while_the_queue_closes_is_not_left_waiting() {
    check(3, policy(1, "", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let waiting = parked(pool.enter(&arrival()));
        let waiting = thread(move || match wait(waiting) {
            Ok(permit) => drop(permit),
            Err(refused) => assert_eq!(refused, Refused::Closed),
        });
        let newcomer = thread({
            let pool = Arc::clone(pool);
            move || match enter_and_wait(&pool, &arrival()) {
                Outcome::Runs(permit) => drop(permit),
                Outcome::TurnedAway(refusal) => assert_eq!(refusal, Refusal::Closed),
                Outcome::Refused(refused) => assert_eq!(refused, Refused::Closed),
            }
        });
        let closing = thread({
            let pool = Arc::clone(pool);
            move || pool.close().wake_all()
        });
        drop(first);
        join([waiting, newcomer, closing]);
        let late = pool.enter(&arrival());
        assert!(matches!(late, Entrance::TurnedAway(Refusal::Closed)));
    });
}

/// Waits until no slot is in use.
fn idle(pool: &Pool) {
    let mut idle = std::pin::pin!(pool.idle());
    block_on(|cx| idle.as_mut().poll(cx));
}

#[test]
fn whoever_waits_for_the_last_slot_learns_that_it_came_back() {
    check(None, policy(2, "", ""), |pool| {
        let permits = [(); 2].map(|()| admitted(pool.enter(&arrival())));
        let threads = permits.map(|permit| thread(move || drop(permit)));
        idle(pool);
        assert!(pool.is_idle());
        join(threads);
    });
}

#[test]
fn whoever_waits_for_the_last_slot_ends_the_hold_of_a_grant_taken_up_meanwhile() {
    check(3, policy(1, ", max_hold_ms: 10", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let next = parked(pool.enter(&arrival()));
        drop(first);
        // It is granted, but its response is not read to its end.
        let next = thread(move || wait(next).unwrap());
        let idle = thread({
            let pool = Arc::clone(pool);
            move || idle(&pool)
        });
        let permit = next.join().unwrap();
        clock::pass(pool, LATER);
        idle.join().unwrap();
        drop(permit);
    });
}

#[test]
fn a_poll_after_the_answer_gets_none() {
    check(None, policy(1, "", ""), |pool| {
        let first = admitted(pool.enter(&arrival()));
        let mut next = parked(pool.enter(&arrival()));
        let next = thread(move || {
            let permit = block_on(|cx| next.poll_granted(cx)).unwrap();
            let again = poll_once(|cx| next.poll_granted(cx));
            assert!(matches!(again, Poll::Pending), "the slot is given once");
            drop((next, permit));
        });
        drop(first);
        next.join().unwrap();
    });
}
