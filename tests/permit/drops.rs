//! Somebody goes away: the future, the response or the body is dropped, at every stage.

use std::task::Poll;

use crate::common::{
    desk::{Scene, get, policy},
    feed::{FedBody, Feed},
};

#[test]
fn a_request_dropped_before_its_first_poll_gives_its_slot_back() {
    let mut scene = Scene::one_slot();
    let first = scene.call("first");
    let mut second = scene.send("second");
    assert!(
        second.waits(),
        "a request arrives when it is called, not when it is polled"
    );
    drop(first);
    assert!(second.runs());
    assert_eq!(
        scene.desk.started(),
        ["second"],
        "the first never reached the inner service"
    );
}

#[test]
fn a_queued_request_that_is_dropped_leaves_at_once() {
    let config = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 3}]";
    let mut scene = Scene::new(policy(config));
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    let third = scene.send("third");
    let mut fourth = scene.send("fourth");
    assert!(scene.refusal("fifth").is_some(), "the queue is full");

    drop(third);
    let mut fifth = scene.send("fifth");
    assert!(
        scene.refusal("sixth").is_some(),
        "and takes exactly one more"
    );

    drop(first.answer(FedBody::empty()));
    assert!(second.runs());
    drop(second.answer(FedBody::empty()));
    assert!(fourth.runs(), "the one that left is passed over");
    drop(fourth.answer(FedBody::empty()));
    assert!(fifth.runs());
    assert_eq!(scene.desk.started(), ["first", "second", "fourth", "fifth"]);
}

#[test]
fn a_queued_request_dropped_before_its_first_poll_leaves_at_once() {
    let config = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]";
    let mut scene = Scene::new(policy(config));
    let (_body, _feed) = scene.stream("first");
    drop(scene.call("second"));
    assert!(scene.send("third").waits(), "the place is free");
}

#[test]
fn a_request_granted_but_not_polled_owns_its_slot_and_passes_it_on_when_dropped() {
    for waiters in [0, 1, 2] {
        let mut scene = Scene::one_slot();
        let (body, _feed) = scene.stream("first");
        let second = scene.send("second");
        let mut others: Vec<_> = (0..waiters)
            .map(|n| scene.send(&format!("other-{n}")))
            .collect();

        drop(body);
        assert_eq!(second.polled.rings(), 1, "the grant wakes it");
        assert!(
            !scene.has_a_free_slot(),
            "the grant is the slot, polled or not"
        );
        assert!(others.iter_mut().all(|other| other.waits()));

        drop(second);
        match &mut others[..] {
            [] => assert!(
                scene.has_a_free_slot(),
                "with nobody waiting the slot is free"
            ),
            [next, rest @ ..] => {
                assert!(next.runs(), "the next one gets the slot");
                assert!(
                    rest.iter_mut().all(|other| other.waits()),
                    "and nobody else does"
                );
            }
        }
        assert!(
            !scene.desk.has("second"),
            "it never reached the inner service"
        );
    }
}

#[test]
fn a_chain_of_granted_and_dropped_requests_loses_no_slot() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("first");
    let waiters: Vec<_> = (0..100).map(|n| scene.send(&n.to_string())).collect();
    drop(body);
    for waiter in waiters {
        assert_eq!(waiter.polled.rings(), 1, "each is granted in turn");
        drop(waiter);
    }
    assert!(scene.has_a_free_slot());
    assert_eq!(scene.desk.started(), ["first"]);
}

#[test]
fn a_request_dropped_while_the_inner_service_is_not_ready_gives_its_slot_back() {
    let mut scene = Scene::one_slot();
    scene.desk.shut();
    let first = scene.send("first");
    let mut second = scene.send("second");
    assert!(
        second.waits(),
        "a granted request owns its slot while the inner service is not ready"
    );
    drop(first);
    scene.desk.open();
    assert!(second.runs());
    assert_eq!(scene.desk.started(), ["second"]);
}

#[test]
fn a_request_dropped_before_the_head_gives_its_slot_back() {
    let mut scene = Scene::one_slot();
    let first = scene.send("first");
    let mut second = scene.send("second");
    assert!(second.waits(), "the inner future is at work");
    drop(first);
    assert!(second.runs());
}

#[test]
fn a_future_dropped_with_an_answer_on_its_way_gives_its_slot_back() {
    let mut scene = Scene::one_slot();
    let first = scene.send("first");
    let mut second = scene.send("second");
    scene.desk.answer("first", Feed::new().body());
    assert!(second.waits(), "nobody has polled the future since");
    drop(first);
    assert!(second.runs());
}

#[test]
fn a_response_dropped_unread_gives_its_slot_back() {
    let mut scene = Scene::one_slot();
    let mut first = scene.send("first");
    let mut second = scene.send("second");
    scene.desk.answer("first", FedBody::full("unread"));
    let response = first.response();
    assert!(second.waits(), "the head is ready, its body unread");
    drop(response);
    assert!(second.runs(), "with the completed future still there");
}

#[test]
fn a_body_dropped_half_read_gives_its_slot_back() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("first");
    let mut second = scene.send("second");
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    assert!(body.poll_frame().is_pending());
    assert!(second.waits());
    drop(body);
    assert!(second.runs());
}

#[test]
fn a_cancelled_request_counts_no_more_toward_the_limits_of_its_class() {
    let config = "
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: any, quantum: 100,
     raw_isl_token_queue_limit_per_worker: 50}
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
headers: {raw_isl_tokens: x-raw}
";
    let mut scene = Scene::new(policy(config));
    let sized = |scene: &mut Scene, id: &str| {
        let mut request = get(id);
        request.headers_mut().insert("x-raw", "50".parse().unwrap());
        scene.call_with(id, request)
    };
    let _running = scene.send("running");
    let queued = sized(&mut scene, "queued");
    assert!(
        scene.refusal("too-much").is_some(),
        "50 tokens are queued, and 50 are allowed"
    );
    drop(queued);
    assert!(sized(&mut scene, "next").waits(), "its tokens left with it");
}
