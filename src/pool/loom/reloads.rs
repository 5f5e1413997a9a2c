//! A reload while requests come, wait, take up their grants and go.

use std::sync::Arc;

use super::{super::Pool, *};
use crate::sync::Mutex;

/// The pool of the policy in force, as the layer keeps it.
#[derive(Clone)]
struct Hub(Arc<Mutex<Arc<Pool>>>);

impl Hub {
    fn new(pool: &Arc<Pool>) -> Self {
        Self(Arc::new(Mutex::new(Arc::clone(pool))))
    }

    fn current(&self) -> Arc<Pool> {
        Arc::clone(&self.0.lock().unwrap())
    }

    /// A request that comes under the old policy retries, and waits here for the new one.
    fn reload(&self, policy: &Arc<PolicyConfig>) {
        let mut current = self.0.lock().unwrap();
        let (next, wakes) = current.reload(policy, Some(0), &[], None);
        *current = next;
        drop(current);
        wakes.wake_all();
    }

    fn enter_and_wait(&self) -> Outcome {
        loop {
            match enter_and_wait(&self.current(), &arrival()) {
                Outcome::TurnedAway(Refusal::Reloaded) => {}
                other => return other,
            }
        }
    }
}

/// Replaces the policy in another thread.
fn reloading(hub: &Hub, next: &Arc<PolicyConfig>) -> JoinHandle<()> {
    let (hub, next) = (hub.clone(), Arc::clone(next));
    thread(move || hub.reload(&next))
}

#[test]
fn who_comes_while_the_policy_is_replaced_comes_under_the_new_one() {
    let policy_after = Arc::new(policy(1, "", ""));
    check(None, policy(1, "", ""), move |pool| {
        let hub = Hub::new(pool);
        let first = admitted(pool.enter(&arrival()));
        let newcomer = thread({
            let hub = hub.clone();
            move || match hub.enter_and_wait() {
                Outcome::Runs(permit) => drop(permit),
                other => panic!("{other:?}"),
            }
        });
        let reloading = reloading(&hub, &policy_after);
        drop(first);
        newcomer.join().unwrap();
        reloading.join().unwrap();
        let late = pool.enter(&arrival());
        assert!(matches!(late, Entrance::TurnedAway(Refusal::Reloaded)));
    });
}

#[test]
fn a_grant_taken_up_while_the_policy_is_replaced_is_one_slot_of_the_new_one() {
    let policy_after = Arc::new(policy(2, "", ""));
    check(3, policy(1, "", ""), move |pool| {
        let hub = Hub::new(pool);
        let first = admitted(pool.enter(&arrival()));
        let waiting = [(); 2].map(|()| parked(pool.enter(&arrival())));
        let waiting = waiting.map(|ticket| thread(move || wait(ticket).unwrap()));
        let reloading = reloading(&hub, &policy_after);
        // A slot of the old policy goes to those who wait, whichever policy is in force.
        drop(first);
        let permits = waiting.map(|waiting| waiting.join().unwrap());
        reloading.join().unwrap();
        assert_eq!(pool.counts().in_use, 2);
        drop(permits);
        assert_eq!(hub.current().counts().in_use, 0);
    });
}

/// Only the old policy limits the hold.
#[test]
fn a_hold_of_the_policy_before_ends_under_the_new_one() {
    let policy_after = Arc::new(policy(1, "", ""));
    check(2, policy(1, ", max_hold_ms: 10", ""), move |pool| {
        let hub = Hub::new(pool);
        let stuck = admitted(pool.enter(&arrival()));
        let next = parked(pool.enter(&arrival()));
        let next = thread(move || drop(wait(next).unwrap()));
        let reloading = reloading(&hub, &policy_after);
        let time = thread({
            let pool = Arc::clone(pool);
            move || clock::pass(&pool, Duration::from_millis(10))
        });
        join([next, reloading, time]);
        drop(stuck);
    });
}
