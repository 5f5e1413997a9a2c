//! A handler that calls back through the layer runs on the slot it has, and cannot wait for itself.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod elsewhere;
#[path = "../common/hall.rs"]
mod hall;

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use common::{
    NoBody,
    desk::{Reading, get, policy},
    feed::Feed,
};
use hall::{Hall, ONE_SLOT, chat};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{Layer, ServiceExt, service_fn, util::BoxCloneSyncService};
use tower_policy_queue::{Admission, PolicyQueueLayer, QueueHints, RequestBody, ResponseBody};

/// A request with the extensions of one that runs.
fn child(hall: &Hall, parent: &str, id: &str) -> Request<NoBody> {
    let mut request = get(id);
    request
        .extensions_mut()
        .insert(hall.scene.desk.admission(parent));
    request
}

impl Hall {
    /// One that runs sends another one.
    fn reenter(&mut self, parent: &str, id: &str) {
        let request = child(self, parent, id);
        self.send(id, request);
    }
}

fn end(body: &mut Reading, feed: &Feed) {
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
}

/// A parent with the one slot, and somebody who waits for it.
fn hall() -> Hall {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("parent");
    hall.arrive("next");
    assert_eq!(hall.states(["parent", "next"]), ["running", "waiting"]);
    hall
}

type Inner =
    BoxCloneSyncService<Request<RequestBody<NoBody>>, Response<Full<bytes::Bytes>>, Infallible>;
type Outer =
    BoxCloneSyncService<Request<NoBody>, Response<ResponseBody<Full<bytes::Bytes>>>, Infallible>;

/// A service that calls itself, through the layer, as often as the path has slashes, less one.
fn recursive(layer: &PolicyQueueLayer) -> Outer {
    let whole: Arc<Mutex<Option<Outer>>> = Arc::default();
    let again = Arc::clone(&whole);
    let handler = service_fn(move |request: Request<RequestBody<NoBody>>| {
        let again = again.lock().unwrap().clone().unwrap();
        let answer: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move {
            let (parts, _) = request.into_parts();
            let mut text = parts.uri.path().to_owned();
            if let Some(rest) = text.strip_prefix("/again") {
                let mut child = Request::new(NoBody::new());
                *child.uri_mut() = rest.parse().unwrap();
                *child.extensions_mut() = parts.extensions;
                let response = again.oneshot(child).await.unwrap();
                assert_eq!(response.status(), 200);
                let inside = response.into_body().collect().await.unwrap();
                text = format!(
                    "({})",
                    String::from_utf8(inside.to_bytes().to_vec()).unwrap()
                );
            }
            Ok::<_, Infallible>(Response::new(Full::from(text)))
        });
        answer
    });
    let outer = BoxCloneSyncService::new(layer.layer(Inner::new(handler)));
    *whole.lock().unwrap() = Some(outer.clone());
    outer
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_calls_itself_on_one_slot_does_not_wait_for_itself() {
    let layer = PolicyQueueLayer::new(policy(ONE_SLOT));
    let service = recursive(&layer);
    let mut request = get("again");
    *request.uri_mut() = "/again/again/again/done".parse().unwrap();
    let answer = tokio::time::timeout(
        std::time::Duration::from_secs(3600),
        service.oneshot(request),
    );
    let response = answer.await.expect("it ends").unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "(((/done)))");
    assert_eq!(layer.handle().usage().slots_in_use, 0);
}

#[test]
fn a_child_starts_at_once_on_its_parent_s_slot() {
    let mut hall = hall();
    hall.reenter("parent", "child");
    assert_eq!(hall.state("child"), "running", "past everybody who waits");
    assert_eq!(hall.counts(), (1, 1), "on the one slot there is");
    let admission = hall.scene.desk.admission("child");
    assert_eq!(
        admission.dominion(),
        Some("pool"),
        "its admission is its parent's"
    );
    hall.finish("child");
    assert_eq!(hall.states(["parent", "next"]), ["running", "waiting"]);
    hall.finish("parent");
    assert_eq!(hall.state("next"), "running");
}

#[tokio::test(start_paused = true)]
async fn a_child_is_told_that_it_did_not_wait_whatever_its_parent_did() {
    let mut hall = Hall::new(ONE_SLOT);
    hall.arrive("first");
    hall.arrive("parent");
    hall.pass(500).await;
    hall.finish("first");
    hall.reenter("parent", "child");
    hall.reenter("child", "grandchild");
    let waited = |id| hall.scene.desk.admission(id).queued_for().as_millis();
    assert_eq!(["parent", "child", "grandchild"].map(waited), [500, 0, 0]);
}

#[test]
fn a_child_that_outlives_its_parent_keeps_the_slot() {
    let mut hall = hall();
    hall.reenter("parent", "child");
    let (mut body, feed) = hall.stream("child");
    hall.finish("parent");
    assert_eq!(
        hall.state("next"),
        "waiting",
        "the child's response is still under way"
    );
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    assert_eq!(hall.state("next"), "waiting");
    end(&mut body, &feed);
    assert_eq!(hall.state("next"), "running");
    drop(body);
    hall.arrive("last");
    assert_eq!(hall.counts(), (1, 1), "given back once");
}

#[test]
fn a_child_that_is_dropped_keeps_nothing() {
    let mut hall = hall();
    hall.reenter("parent", "before-head");
    hall.leave("before-head");
    hall.reenter("parent", "body");
    drop(hall.stream("body"));
    let unpolled = child(&hall, "parent", "unpolled");
    hall.call("unpolled", unpolled);
    hall.leave("unpolled");
    assert_eq!(hall.state("next"), "waiting");
    hall.finish("parent");
    assert_eq!(hall.state("next"), "running");
}

#[test]
fn children_and_their_children_share_the_slot() {
    let mut hall = hall();
    for id in ["a", "b", "c"] {
        hall.reenter("parent", id);
    }
    hall.reenter("a", "grandchild");
    assert_eq!(hall.states(["a", "b", "c", "grandchild"]), ["running"; 4]);
    for id in ["parent", "a", "c", "b"] {
        hall.finish(id);
        assert_eq!(hall.state("next"), "waiting", "after {id}");
    }
    hall.finish("grandchild");
    assert_eq!(hall.state("next"), "running");
}

#[test]
fn a_child_whose_parent_s_slot_is_gone_queues_like_anybody() {
    let mut hall = hall();
    let late = child(&hall, "parent", "late");
    hall.finish("parent");
    assert_eq!(hall.state("next"), "running");
    hall.send("late", late);
    assert_eq!(
        hall.state("late"),
        "waiting",
        "its parent has no slot to pass on"
    );
    hall.finish("next");
    assert_eq!(hall.state("late"), "running");
    let own = format!("{:?}", hall.scene.desk.admission("late"));
    hall.finish("late");
    assert_eq!(hall.counts(), (0, 0), "it had a slot of its own: {own}");
}

#[test]
fn a_child_of_a_class_that_gives_its_slot_back_with_the_head_queues_after_it() {
    let mut hall = Hall::new(&chat("hold_until: headers", ONE_SLOT));
    hall.arrive("parent");
    let early = child(&hall, "parent", "early");
    let late = child(&hall, "parent", "late");
    hall.send("early", early);
    assert_eq!(hall.state("early"), "running");
    hall.leave("early");
    let _parent = hall.stream("parent");
    hall.arrive("other");
    hall.send("late", late);
    assert_eq!(hall.states(["other", "late"]), ["running", "waiting"]);
}

#[test]
fn a_child_in_another_dominion_queues_there() {
    let yaml = "
dominions: [{id: a, max_concurrency: 1}, {id: b, max_concurrency: 1}]
endpoints: [{id: wa, dominion: a}, {id: wb, dominion: b}]
";
    let to = |mut request: Request<NoBody>, worker: &str| {
        request.extensions_mut().insert(hall::pinned(worker));
        request
    };
    let mut hall = Hall::new(yaml);
    hall.send("on-b", to(get("on-b"), "wb"));
    hall.send("parent", to(get("parent"), "wa"));
    let request = to(child(&hall, "parent", "child"), "wb");
    hall.send("child", request);
    assert_eq!(
        hall.state("child"),
        "waiting",
        "a slot of `a` is none of `b`"
    );
    hall.finish("on-b");
    assert_eq!(hall.state("child"), "running");
    assert_eq!(hall.scene.desk.admission("child").dominion(), Some("b"));
    assert_eq!(hall.counts(), (2, 0));
    let request = to(child(&hall, "child", "back"), "wa");
    hall.send("back", request);
    assert_eq!(
        hall.state("back"),
        "running",
        "on the parent's, which waits for the child, which waits for it"
    );
    let admission = hall.scene.desk.admission("back");
    assert_eq!(admission.dominion(), Some("a"));
    assert_eq!(hall.counts(), (2, 0));
    let request = to(child(&hall, "back", "there"), "wb");
    hall.send("there", request);
    assert_eq!(hall.state("there"), "running", "and so on");
    for id in ["there", "back", "child", "parent"] {
        hall.finish(id);
    }
    assert_eq!(hall.counts(), (0, 0));
    let request = to(child(&hall, "there", "late"), "wa");
    hall.send("on-a", to(get("on-a"), "wa"));
    hall.send("late", request);
    assert_eq!(hall.state("late"), "waiting", "all of them are given back");
}

#[tokio::test(start_paused = true)]
async fn a_handler_below_two_layers_calls_back_through_both() {
    type Whole = BoxCloneSyncService<
        Request<NoBody>,
        Response<ResponseBody<ResponseBody<Full<bytes::Bytes>>>>,
        Infallible,
    >;
    let whole: Arc<Mutex<Option<Whole>>> = Arc::default();
    let again = Arc::clone(&whole);
    let handler = service_fn(move |request: Request<RequestBody<RequestBody<NoBody>>>| {
        let again = again.lock().unwrap().clone().unwrap();
        let answer: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move {
            let (parts, _) = request.into_parts();
            if parts.uri.path() == "/again" {
                let mut child = get("done");
                *child.extensions_mut() = parts.extensions;
                again.oneshot(child).await.unwrap();
            }
            Ok::<_, Infallible>(Response::new(Full::default()))
        });
        answer
    });
    let tenants = PolicyQueueLayer::new(policy(ONE_SLOT));
    let models = PolicyQueueLayer::new(policy(ONE_SLOT));
    let service = Whole::new(tenants.layer(models.layer(handler)));
    *whole.lock().unwrap() = Some(service.clone());
    let answer = tokio::time::timeout(
        std::time::Duration::from_secs(3600),
        service.oneshot(get("again")),
    );
    assert_eq!(answer.await.expect("it ends").unwrap().status(), 200);
}

#[test]
fn an_admission_of_another_layer_is_worth_nothing() {
    let mut other = Hall::new(ONE_SLOT);
    other.arrive("elsewhere");
    let admission: Admission = other.scene.desk.admission("elsewhere");
    let mut hall = hall();
    let mut request = get("foreign");
    request.extensions_mut().insert(admission);
    hall.send("foreign", request);
    assert_eq!(
        hall.state("foreign"),
        "waiting",
        "though its dominion has the same name"
    );
    hall.finish("parent");
    hall.finish("next");
    other.finish("elsewhere");
    assert_eq!(hall.state("foreign"), "running");
}

#[test]
fn a_child_passes_a_full_queue_a_closed_one_and_one_that_rejects() {
    let mut full = Hall::new("dominions: [{id: pool, max_concurrency: 1, max_queue: 1}]");
    full.arrive("parent");
    full.arrive("waiting");
    full.reenter("parent", "child");
    assert_eq!(full.state("child"), "running");

    let mut closed = hall();
    closed.handle.shutdown();
    closed.reenter("parent", "child");
    assert_eq!(
        closed.state("child"),
        "running",
        "the parent may finish, and needs it to"
    );
    closed.leave("child");
    closed.finish("parent");
    assert_eq!(closed.counts(), (0, 0));

    let mut rejects = Hall::new("dominions: [{id: pool, max_concurrency: 1, policy: reject}]");
    rejects.arrive("parent");
    rejects.reenter("parent", "child");
    assert_eq!(rejects.state("child"), "running");
}

#[test]
fn a_child_adds_no_prefill_and_ends_none() {
    let hints = QueueHints {
        raw_isl_tokens: Some(50),
        ..QueueHints::default()
    };
    let mut hall = Hall::new(ONE_SLOT);
    hall.send("parent", hall::hinted("parent", hints.clone()));
    let mut request = child(&hall, "parent", "child");
    request.extensions_mut().insert(hints);
    hall.send("child", request);
    assert_eq!(hall.handle.usage().prefill_tokens, 50, "the parent's");
    let (mut body, feed) = hall.stream("child");
    feed.data("token");
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Ok(_)))));
    assert_eq!(
        hall.handle.usage().prefill_tokens,
        50,
        "which has not answered"
    );
    hall.leave("parent");
    assert_eq!(hall.handle.usage().prefill_tokens, 0, "and is gone now");
    assert_eq!(hall.counts(), (1, 0), "while the child keeps the slot");
    end(&mut body, &feed);
    assert_eq!(hall.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_child_does_not_keep_the_slot_past_its_parent_s_longest_hold() {
    let mut hall = Hall::new(&chat("max_hold_ms: 100", ONE_SLOT));
    hall.arrive("parent");
    hall.arrive("next");
    hall.reenter("parent", "child");
    hall.pass(100).await;
    assert_eq!(hall.states(["parent", "next"]), ["hold_timeout", "running"]);
    let late = child(&hall, "parent", "late");
    hall.send("late", late);
    assert_eq!(hall.state("late"), "waiting", "nor can another one join in");
    hall.leave("child");
    assert_eq!(hall.counts(), (1, 1), "it had nothing left to give back");
}
