//! The queue is torn down with the last layer and the last service.

use std::task::Poll;

use serde_json::json;

use crate::{
    check,
    common::{
        desk::{Client, Scene},
        feed::FedBody,
    },
};

#[test]
fn a_queue_that_is_torn_down_answers_everybody_who_waits() {
    let mut scene = Scene::one_slot();
    let (mut body, feed) = scene.stream("running");
    let mut waiting: Vec<_> = (0..100).map(|n| scene.send(&n.to_string())).collect();
    waiting.push(scene.call("never-polled"));
    let Scene {
        desk,
        layer,
        service,
    } = scene;
    let (other_route, custom) = (
        layer.dominion("pool").unwrap(),
        layer.clone().on_rejection(()),
    );

    drop((layer, service, other_route));
    assert!(
        waiting.iter_mut().take(100).all(Client::waits),
        "one layer is left"
    );
    drop(custom);

    for client in &waiting[..100] {
        assert_eq!(client.polled.rings(), 1, "each is woken");
    }
    for client in &mut waiting {
        let error = json!({"type": "server_error", "code": "queue_unavailable", "param": null});
        check(client.response(), 503, error, "closed");
    }
    feed.end();
    assert!(
        matches!(body.poll_frame(), Poll::Ready(None)),
        "who runs may end in peace"
    );
    assert_eq!(desk.started(), ["running"]);
}

#[test]
fn who_was_granted_before_the_queue_was_torn_down_goes_on() {
    let mut scene = Scene::one_slot();
    let (body, _feed) = scene.stream("first");
    let mut second = scene.send("second");
    let mut third = scene.send("third");
    drop(body);
    let desk = scene.desk.clone();
    drop(scene);
    assert!(second.runs());
    assert_eq!(third.response().status(), 503);
    drop(second.answer(FedBody::empty()));
    assert_eq!(desk.started(), ["first", "second"]);
}
