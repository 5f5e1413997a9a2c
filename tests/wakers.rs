//! Wakers are foreign code: they run outside of the lock, and only those run that must.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    future::Future,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use common::{
    bell::{Bell, OnDrop, Polled},
    desk::{Client, Scene, get, pool},
    feed::FedBody,
};
use tower::Service;

/// Runs a scene that deadlocks if foreign code runs under the lock; then it fails, not hangs.
fn without_deadlock(scene: impl FnOnce() + Send + 'static) {
    let (done, over) = mpsc::channel();
    let thread = thread::spawn(move || {
        scene();
        done.send(()).unwrap();
    });
    if over.recv_timeout(Duration::from_secs(20)) == Err(RecvTimeoutError::Timeout) {
        panic!("wakers must be woken and dropped outside of the lock");
    }
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

/// Total wakes of requests that wait.
fn rings<'a>(clients: impl IntoIterator<Item = &'a Client>) -> usize {
    clients
        .into_iter()
        .map(|client| client.polled.rings())
        .sum()
}

#[test]
fn each_freed_slot_wakes_one_waiter() {
    let mut scene = Scene::new(pool(3));
    let bodies: Vec<_> = (0..3).map(|n| scene.stream(&n.to_string())).collect();
    let waiters: Vec<_> = (3..100).map(|n| scene.send(&n.to_string())).collect();
    assert_eq!(rings(&waiters), 0, "an arrival wakes nobody");
    for (freed, body) in bodies.into_iter().enumerate() {
        drop(body);
        assert_eq!(rings(&waiters), freed + 1);
        assert_eq!(waiters[freed].polled.rings(), 1, "the one whose turn it is");
    }
}

#[test]
fn a_waiter_that_leaves_wakes_nobody_who_cannot_go() {
    let mut scene = Scene::one_slot();
    let _running = scene.stream("running");
    let mut waiters: Vec<_> = (0..50).map(|n| scene.send(&n.to_string())).collect();
    drop(waiters.drain(10..40));
    assert_eq!(rings(&waiters), 0);
}

#[test]
fn a_waiter_is_woken_through_the_waker_of_its_last_poll() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("first");
    let mut second = scene.send("second");
    let old = std::mem::take(&mut second.polled.bell);
    assert!(
        second.polled.poll().is_pending(),
        "polled again, from another task"
    );
    drop(body);
    assert_eq!((old.rings(), second.polled.rings()), (0, 1));
}

#[test]
fn a_grant_before_the_first_poll_is_found_by_it() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("first");
    let mut second = scene.call("second");
    drop(body);
    assert_eq!(second.polled.rings(), 0, "there was no waker yet");
    assert!(second.polled.poll().is_pending());
    assert!(scene.desk.has("second"));
}

#[test]
fn many_releases_before_any_poll_lose_no_grant() {
    let mut scene = Scene::new(pool(257));
    let bodies: Vec<_> = (0..257).map(|n| scene.stream(&n.to_string())).collect();
    let mut waiters: Vec<_> = (257..600).map(|n| scene.call(&n.to_string())).collect();
    drop(bodies);
    for waiter in &mut waiters {
        assert!(waiter.polled.poll().is_pending());
    }
    assert_eq!(
        scene.desk.started().len(),
        2 * 257,
        "each freed slot was taken"
    );
}

#[test]
fn a_waker_may_drop_another_waiter() {
    without_deadlock(|| {
        let mut scene = Scene::one_slot();
        let (body, _feed) = scene.stream("first");
        let mut second = scene.send("second");
        let third = scene.send("third");
        let mut fourth = scene.send("fourth");
        second.polled.bell.on_ring(move || drop(third));
        drop(body);
        assert!(second.runs());
        assert!(fourth.waits());
        drop(second.answer(FedBody::empty()));
        assert!(fourth.runs(), "the third has left the queue");
    });
}

#[test]
fn a_waker_may_drop_the_very_waiter_it_wakes() {
    without_deadlock(|| {
        let mut scene = Scene::one_slot();
        let (body, _feed) = scene.stream("first");
        let second = scene.send("second");
        let mut third = scene.send("third");
        let bell = Arc::clone(&second.polled.bell);
        bell.on_ring(move || drop(second));
        drop(body);
        assert_eq!(bell.rings(), 1);
        assert!(
            third.runs(),
            "the slot that came too late goes on to the next"
        );
        assert_eq!(scene.desk.started(), ["first", "third"]);
    });
}

#[test]
fn a_waker_may_send_a_new_request() {
    without_deadlock(|| {
        let mut scene = Scene::one_slot();
        let (body, _feed) = scene.stream("first");
        let mut second = scene.send("second");
        let sent = Arc::new(Mutex::new(None));
        second.polled.bell.on_ring({
            let (mut service, sent) = (scene.service.clone(), Arc::clone(&sent));
            move || *sent.lock().unwrap() = Some(Polled::new(service.call(get("third"))))
        });
        drop(body);
        let mut third = sent.lock().unwrap().take().expect("the waker ran");
        assert!(third.poll().is_pending());
        assert!(!scene.desk.has("third"), "the slot is the second one's");
        assert!(second.runs());
        drop(second.answer(FedBody::empty()));
        assert_eq!(third.rings(), 1);
    });
}

#[test]
fn a_waker_may_poll_the_waiter_it_wakes() {
    without_deadlock(|| {
        let mut scene = Scene::one_slot();
        let (body, _feed) = scene.stream("first");
        let second = Arc::new(Mutex::new(scene.send("second")));
        let bell = Arc::clone(&second.lock().unwrap().polled.bell);
        bell.on_ring({
            let second = Arc::clone(&second);
            move || assert!(second.lock().unwrap().polled.poll().is_pending())
        });
        drop(body);
        assert!(
            scene.desk.has("second"),
            "as an executor that runs tasks inline does"
        );
    });
}

#[test]
fn a_waker_may_tear_the_queue_down() {
    without_deadlock(|| {
        let mut scene = Scene::one_slot();
        let (body, _feed) = scene.stream("first");
        let second = scene.send("second");
        let mut third = scene.send("third");
        let bell = Arc::clone(&second.polled.bell);
        let desk = scene.desk.clone();
        bell.on_ring(move || drop(scene));
        drop(body);
        assert_eq!(bell.rings(), 1);
        let mut second = second;
        assert!(second.runs(), "who was granted goes on");
        assert_eq!(third.response().status(), 503, "who waits is turned away");
        assert_eq!(desk.started(), ["first", "second"]);
    });
}

/// A waker that goes away when nobody has it any more, with what it owns.
#[derive(Debug)]
struct Owner {
    _owned: Mutex<OnDrop>,
}

impl std::task::Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_replaced_may_reenter_the_layer_when_it_is_dropped() {
    without_deadlock(|| {
        let mut scene = Scene::one_slot();
        let _running = scene.stream("running");
        let mut client = scene.call("client");
        let seen = Arc::new(Bell::default());
        let owner = Owner {
            _owned: Mutex::new(OnDrop::new({
                let (mut service, seen) = (scene.service.clone(), Arc::clone(&seen));
                move || {
                    drop(service.call(get("another")));
                    std::task::Wake::wake(seen);
                }
            })),
        };
        let waker = Arc::new(owner).into();
        let polled = client.polled.inner.as_mut();
        assert!(
            polled
                .poll(&mut std::task::Context::from_waker(&waker))
                .is_pending()
        );
        drop(waker);
        assert_eq!(seen.rings(), 0, "the queue keeps the last waker");
        assert!(client.polled.poll().is_pending());
        assert_eq!(
            seen.rings(),
            1,
            "and drops the one it replaces, outside of the lock"
        );
    });
}

#[test]
fn a_waker_of_a_waiter_that_leaves_may_reenter_the_layer_when_it_is_dropped() {
    without_deadlock(|| {
        let mut scene = Scene::one_slot();
        let _running = scene.stream("running");
        let mut client = scene.call("client");
        let owner = Owner {
            _owned: Mutex::new(OnDrop::new({
                let mut service = scene.service.clone();
                move || drop(service.call(get("another")))
            })),
        };
        let waker = Arc::new(owner).into();
        let polled = client.polled.inner.as_mut();
        assert!(
            polled
                .poll(&mut std::task::Context::from_waker(&waker))
                .is_pending()
        );
        drop(waker);
        drop(client);
        assert!(scene.send("next").waits());
    });
}
