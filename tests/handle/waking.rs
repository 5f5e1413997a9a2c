//! Whoever a change wakes may answer it at once, through the layer or through the handle, and so may
//! a waker that is dropped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
};

use tower::Service;
use tower_policy_queue::{PolicyQueueHandle, QueueHints, WorkerSpec};

use crate::{
    common::desk::{Client, Scene, get, policy},
    hall::{chat, hinted, pinned},
};

type Change = fn(&PolicyQueueHandle);

const YAML: &str = "
dominions:
  - {id: pool, kind: remote, max_concurrency: 1}
  - {id: gpu, kind: local, max_concurrency: 1}
endpoints: [{id: w, dominion: pool}, {id: v, dominion: pool}]
local_models: [{id: big, dominion: gpu}, {id: small, dominion: gpu}]
profiles: [{name: night, models: [small]}]
default_dominion: pool
";

/// That a change wakes `waiting`, and that it may use layer and handle inside of the wake.
fn assert_wakes_freely(
    scene: &mut Scene,
    waiting: &Client,
    change: impl FnOnce(&PolicyQueueHandle),
) {
    let handle = scene.layer.handle();
    let calls = Arc::new(AtomicUsize::new(0));
    let (done, inside, mut service) = (Arc::clone(&calls), handle.clone(), scene.service.clone());
    waiting.polled.bell.on_ring(move || {
        drop(service.call(get("from-a-waker")));
        inside
            .add_worker(WorkerSpec::new("from-a-waker").dominion("pool"))
            .unwrap();
        inside.set_overloaded("from-a-waker", true).unwrap();
        inside.remove_worker("from-a-waker").unwrap();
        inside.set_max_queue("pool", 10).unwrap();
        let _ = inside.usage();
        done.store(1, Ordering::SeqCst);
    });
    change(&handle);
    assert_eq!(
        calls.load(Ordering::SeqCst),
        1,
        "it was woken, and got through"
    );
}

#[test]
fn no_lock_is_held_while_somebody_is_woken() {
    let changes: [(&str, Change); 8] = [
        ("w", |handle| handle.remove_worker("w").unwrap()),
        ("w", |handle| {
            handle.set_max_concurrency("pool", None).unwrap()
        }),
        ("w", |handle| handle.close_dominion("pool").unwrap()),
        ("w", PolicyQueueHandle::shutdown),
        ("big", |handle| handle.switch_profile("night").unwrap()),
        ("big", |handle| handle.remove_worker("big").unwrap()),
        ("small", |handle| handle.remove_worker("small").unwrap()),
        ("v", |handle| handle.remove_worker("v").unwrap()),
    ];
    for (worker, change) in changes {
        let mut scene = Scene::new(policy(YAML));
        let _running = scene.send("running");
        let mut local = scene.call_with("local", hinted("local", pinned("small")));
        assert!(local.polled.poll().is_pending());
        let mut waiting = scene.call_with("waiting", hinted("waiting", pinned(worker)));
        assert!(waiting.waits());
        assert_wakes_freely(&mut scene, &waiting, change);
    }
}

#[test]
fn no_lock_is_held_while_somebody_is_granted_a_worker() {
    let yaml = chat(
        "prefill_busy_threshold: 0",
        "
dominions: [{id: pool, kind: remote, max_concurrency: 9}]
endpoints: [{id: w, dominion: pool}, {id: v, dominion: pool}]
",
    );
    let changes: [(Change, Change); 4] = [
        (
            |handle| handle.remove_worker("v").unwrap(),
            |handle| {
                let spec = WorkerSpec::new("v").dominion("pool");
                handle.add_worker(spec).unwrap();
            },
        ),
        (
            |handle| handle.drain_worker("v", true).unwrap(),
            |handle| handle.drain_worker("v", false).unwrap(),
        ),
        (
            |handle| handle.set_overloaded("v", true).unwrap(),
            |handle| handle.set_overloaded("v", false).unwrap(),
        ),
        (
            |handle| handle.set_taint("v", "slow", true).unwrap(),
            |handle| handle.set_taint("v", "slow", false).unwrap(),
        ),
    ];
    let sized = |id: &str| {
        let hints = QueueHints {
            raw_isl_tokens: Some(10),
            ..QueueHints::default()
        };
        hinted(id, hints)
    };
    for (before, change) in changes {
        let mut scene = Scene::new(policy(&yaml));
        before(&scene.layer.handle());
        let mut running = scene.call_with("running", sized("running"));
        assert!(running.polled.poll().is_pending());
        let mut waiting = scene.call_with("waiting", sized("waiting"));
        assert!(waiting.waits());
        assert_wakes_freely(&mut scene, &waiting, change);
    }
}

/// A waker that looks at the layer when it is dropped.
struct Looks {
    handle: PolicyQueueHandle,
    looked: Arc<AtomicUsize>,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Looks {
    fn drop(&mut self) {
        let _ = self.handle.usage();
        self.looked.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn no_lock_is_held_while_the_waker_of_who_waits_for_the_drain_is_dropped() {
    let mut scene = Scene::one_slot();
    let _running = scene.send("running");
    let (handle, looked) = (scene.layer.handle(), Arc::<AtomicUsize>::default());
    let mut drained = Box::pin(handle.drained());
    // The second waker takes the place of the first.
    for _ in 0..2 {
        let waker = Waker::from(Arc::new(Looks {
            handle: handle.clone(),
            looked: Arc::clone(&looked),
        }));
        let cx = &mut Context::from_waker(&waker);
        assert!(drained.as_mut().poll(cx).is_pending());
    }
    assert_eq!(looked.load(Ordering::SeqCst), 1);
    drop(drained);
    assert_eq!(looked.load(Ordering::SeqCst), 2);
}
