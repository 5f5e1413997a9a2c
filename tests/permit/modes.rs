//! Whole responses and streams are admitted by the same rules.

use std::task::Poll;

use crate::common::{
    desk::{Client, Reading, Scene, policy, pool},
    feed::{FedBody, Feed},
};

/// How the inner service answers.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Works until the whole response is there.
    Full,
    /// Answers at once, then works on the body.
    Stream,
}

const MODES: [Mode; 2] = [Mode::Full, Mode::Stream];

/// A request at work.
enum Work {
    Full(Client),
    Stream(Reading, Feed),
}

impl Mode {
    fn begin(self, mut client: Client) -> Work {
        match self {
            Self::Full => Work::Full(client),
            Self::Stream => {
                let (mut body, feed) = client.stream();
                feed.data("token");
                assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
                Work::Stream(body, feed)
            }
        }
    }
}

impl Work {
    fn finish(self) {
        match self {
            Self::Full(mut client) => {
                let mut body = client.answer(FedBody::full("all of it"));
                assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
            }
            Self::Stream(mut body, feed) => {
                feed.end();
                assert!(matches!(body.poll_frame(), Poll::Ready(None)));
            }
        }
    }
}

#[test]
fn as_many_requests_are_at_work_as_there_are_slots_and_never_more() {
    for mode in MODES {
        for slots in [1, 2, 8] {
            let mut scene = Scene::new(pool(slots));
            let mut queue: Vec<_> = (0..40).map(|n| scene.send(&n.to_string())).collect();
            let mut work = std::collections::VecDeque::new();
            work.extend(queue.drain(..slots).map(|client| mode.begin(client)));
            while !queue.is_empty() {
                assert_eq!(
                    scene.desk.started().len(),
                    40 - queue.len(),
                    "{mode:?}, {slots} slots"
                );
                assert!(
                    queue.iter_mut().all(|client| client.waits()),
                    "{mode:?}, {slots} slots"
                );
                work.pop_front().unwrap().finish();
                let mut next = queue.remove(0);
                assert!(
                    next.runs(),
                    "a freed slot goes to the next one: {mode:?}, {slots} slots"
                );
                work.push_back(mode.begin(next));
            }
            assert_eq!(work.len(), slots);
        }
    }
}

#[test]
fn a_dominion_that_rejects_turns_away_whoever_cannot_start_at_once() {
    let config =
        policy("dominions: [{id: pool, kind: remote, max_concurrency: 2, policy: reject}]");
    for mode in MODES {
        let mut scene = Scene::new(config.clone());
        let first = mode.begin(scene.send("first"));
        let _second = mode.begin(scene.send("second"));
        let refused = scene.refusal("third").map(|rejection| rejection.code());
        assert_eq!(refused, Some("queue_rejected"), "{mode:?}");
        first.finish();
        let _third = mode.begin(scene.send("third"));
        assert!(scene.refusal("fourth").is_some(), "{mode:?}");
    }
}

#[test]
fn a_queue_takes_exactly_as_many_as_it_says_and_recovers() {
    let config = policy("dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 2}]");
    for mode in MODES {
        let mut scene = Scene::new(config.clone());
        let first = mode.begin(scene.send("first"));
        let mut second = scene.send("second");
        let mut third = scene.send("third");
        let refused = scene.refusal("fourth").map(|rejection| rejection.code());
        assert_eq!(refused, Some("queue_full"), "{mode:?}");

        first.finish();
        assert!(second.runs(), "{mode:?}");
        let mut fourth = scene.send("fourth");
        assert!(
            scene.refusal("fifth").is_some(),
            "who was granted counts no more: {mode:?}"
        );
        mode.begin(second).finish();
        assert!(third.runs());
        mode.begin(third).finish();
        assert!(fourth.runs());
    }
}

#[test]
fn a_client_that_leaves_frees_its_slot() {
    for mode in MODES {
        let mut scene = Scene::one_slot();
        let first = mode.begin(scene.send("first"));
        let mut second = scene.send("second");
        assert!(second.waits(), "{mode:?}");
        drop(first);
        assert!(second.runs(), "{mode:?}");
    }
}

#[test]
fn requests_of_different_dominions_never_wait_for_each_other() {
    let config = policy(
        "
dominions:
  - {id: a, kind: remote, max_concurrency: 1}
  - {id: b, kind: remote, max_concurrency: 1}
",
    );
    for mode in MODES {
        let scene = Scene::new(config.clone());
        let (mut a, mut b) = (scene.bound_to("a"), scene.bound_to("b"));
        let _first = mode.begin(a.send("a1"));
        assert!(a.send("a2").waits(), "{mode:?}");
        let _second = mode.begin(b.send("b1"));
        assert!(b.send("b2").waits(), "{mode:?}");
    }
}
