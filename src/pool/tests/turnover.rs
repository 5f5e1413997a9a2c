//! Workers that come and go under ever new names.

use super::*;
use crate::pool::{
    eligible::Among,
    fixtures::{admitted, arrival, parked, worker},
    workers::Parked,
};

impl World {
    /// So many workers come and go that those that went before are forgotten.
    pub(super) fn turn_over(&mut self, pool: &Pool) {
        turn_over(pool, self.strangers, 30);
        self.strangers += 30;
    }

    /// Checks that whoever keeps an index means the worker that has it.
    pub(super) fn check_names(&self, state: &State) {
        let id = |index: u32| state.workers.id(index);
        let running = self.running.iter().map(|running| running.permit.grant());
        let held = self.held.iter().map(Share::grant);
        for grant in running.chain(held).filter(|grant| !is_revoked(grant)) {
            let assigned = &grant.assigned;
            let named = assigned
                .worker
                .as_ref()
                .map(|worker| Arc::clone(&worker.id));
            assert_eq!(id(assigned.index), named, "who runs on it");
        }
        for entry in state.schedule.entries() {
            let Parked { waiter, eligible } = &entry.payload;
            let mut parked = self.parked.iter();
            let (fields, _) = parked
                .find(|(_, ticket)| ticket.waiter() == *waiter)
                .unwrap();
            for index in eligible.named() {
                let id = id(index).unwrap();
                let asked = fields.allowed.iter().flatten().chain(&fields.worker);
                let mut asked = asked.chain(&fields.preferred);
                assert!(asked.any(|asked| **asked == *id), "{id}: who waits for it");
                if let Among::Group(group) = eligible.among {
                    let serves = state.workers.serves(index, group);
                    assert!(serves, "{id}: who waits for its model");
                }
            }
        }
    }
}

fn pool(endpoints: &str) -> Arc<Pool> {
    let policy = format!(
        "
dominions: [{{id: pool, kind: remote, max_concurrency: 2}}]
endpoints: [{{id: stays, dominion: pool, models: [m]}}{endpoints}]
"
    );
    Pool::new(Arc::new(policy.parse().unwrap()), Some(0))
}

fn enter(pool: &Arc<Pool>, wanted: Wanted<'_>) -> Entrance {
    pool.enter(&Arrival {
        wanted,
        ..arrival(0, 3, 0)
    })
}

fn indices(pool: &Pool) -> (usize, usize) {
    pool.lock().workers.indices()
}

/// Adds and removes `count` workers, one after the other, with new names and models that are numbered from
/// `first`.
fn turn_over(pool: &Pool, first: usize, count: usize) {
    for number in first..first + count {
        let id = format!("stranger-{number}");
        pool.add_worker(worker(&id, &["m", &id], false)).wake_all();
        pool.remove_worker(&id).1.wake_all();
    }
}

#[test]
fn workers_and_models_of_ever_new_names_take_up_no_more_room() {
    let pool = pool("");
    turn_over(&pool, 0, 100);
    let (workers, groups) = indices(&pool);
    assert!(workers <= 30 && groups <= 5, "{workers} {groups}");
    turn_over(&pool, 100, 1000);
    assert_eq!(indices(&pool), (workers, groups));
}

#[test]
fn models_that_come_and_go_with_their_policies_take_up_no_more_room() {
    let mut pool = pool("");
    let mut room = Vec::new();
    for number in 0..200 {
        let id = format!("w{number}");
        let workers = [worker(&id, &[&id], false)];
        let policy = Arc::clone(&pool.policy);
        let (next, wakes) = pool.reload(&policy, Some(0), &workers, None);
        wakes.wake_all();
        pool = next;
        room.push(indices(&pool));
    }
    assert_eq!(room[199], room[100]);
    assert!(room[199].0 <= 30 && room[199].1 <= 5, "{room:?}");
}

#[test]
fn a_worker_that_still_has_a_request_keeps_its_place_however_many_come_and_go() {
    let pool = pool(", {id: goes, dominion: pool}");
    let pinned = |id| Wanted {
        worker: Some(id),
        ..Wanted::default()
    };
    let permit = admitted(enter(&pool, pinned("goes")));
    let prefill = admitted(enter(&pool, pinned("goes"))).into_prefill();
    pool.remove_worker("goes").1.wake_all();
    turn_over(&pool, 0, 100);
    drop(permit);
    turn_over(&pool, 100, 100);
    assert_eq!(pool.counts().prefill, 3, "the one whose slot went back");
    pool.add_worker(worker("goes", &[], false)).wake_all();
    let index = pool.lock().workers.index("goes");
    assert_eq!(index, Some(1), "it comes back to what it has");
    pool.remove_worker("goes").1.wake_all();
    drop(prefill);
    turn_over(&pool, 200, 100);
    assert_eq!(pool.counts().prefill, 0);
    let prefill: Vec<u64> = pool.lock().workers.prefill().collect();
    assert!(prefill.iter().all(|&tokens| tokens == 0), "{prefill:?}");
}

#[test]
fn a_worker_that_somebody_waits_for_keeps_its_place() {
    let pool = pool(", {id: goes, dominion: pool, models: [m]}");
    pool.set_max_concurrency(Some(1));
    let first = admitted(enter(&pool, Wanted::default()));
    let wanted = Wanted {
        model: Some("m"),
        allowed_workers: Some(&["goes", "stays"]),
        ..Wanted::default()
    };
    let mut listed = parked(enter(&pool, wanted));
    pool.remove_worker("goes").1.wake_all();
    pool.set_condition("stays", |it| it.draining = true);
    drop(first);
    // If another worker had its index, that one would get the request.
    turn_over(&pool, 0, 100);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(
        listed.poll_granted(&mut cx).is_pending(),
        "it is not listed"
    );
    pool.add_worker(worker("goes", &["m"], false)).wake_all();
    let Poll::Ready(Ok(permit)) = listed.poll_granted(&mut cx) else {
        panic!("it is back");
    };
    let worker = permit.grant().worker().unwrap();
    assert_eq!(&*worker.id, "goes");
}

#[test]
fn a_worker_that_comes_back_for_another_model_gets_none_of_those_who_listed_it() {
    let pool = pool(", {id: goes, dominion: pool, models: [m]}");
    pool.set_max_concurrency(Some(1));
    let first = admitted(enter(&pool, Wanted::default()));
    let wanted = Wanted {
        model: Some("m"),
        allowed_workers: Some(&["goes", "stays"]),
        preferred: Some("goes"),
        ..Wanted::default()
    };
    let mut listed = parked(enter(&pool, wanted));
    pool.remove_worker("goes").1.wake_all();
    pool.add_worker(worker("goes", &["n"], false)).wake_all();
    drop(first);
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(permit)) = listed.poll_granted(&mut cx) else {
        panic!("there is another one");
    };
    assert_eq!(&*permit.grant().worker().unwrap().id, "stays");
}
