//! Bodies read while their requests are parked, polled by hand.

#![allow(clippy::unwrap_used)]

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::Pin,
};

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{Empty, StreamBody};
use tokio_test::{
    assert_pending,
    task::{Spawn, spawn},
};
use tower::{Layer, Service, service_fn};
use tower_policy_queue::{PolicyConfig, PolicyQueueLayer};

type Frames = UnboundedSender<Result<Frame<Bytes>, Infallible>>;
type Answer = Pin<Box<dyn Future<Output = ()>>>;

/// One slot, and room for four bytes of all parked bodies together.
fn layer() -> PolicyQueueLayer {
    let config: PolicyConfig = "
        dominions: [{id: pool, kind: remote, max_concurrency: 1}]
        read_ahead_total_bytes: 4
    "
    .parse()
    .unwrap();
    PolicyQueueLayer::new(config)
}

/// A request with an open body, polled once. Once it is admitted it stays, and so does its body.
fn send(layer: &PolicyQueueLayer) -> (Spawn<Answer>, Frames) {
    let mut service = layer.layer(service_fn(|request: Request<_>| async move {
        let _unread = request;
        pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    }));
    let (feed, frames) = unbounded();
    let response = service.call(Request::new(StreamBody::new(frames)));
    let answer: Answer = Box::pin(async { drop(response.await) });
    let mut answer = spawn(answer);
    assert_pending!(answer.poll());
    (answer, feed)
}

fn data(feed: &Frames, bytes: &'static str) {
    let frame = Frame::data(Bytes::from_static(bytes.as_bytes()));
    feed.unbounded_send(Ok(frame)).unwrap();
}

#[test]
fn who_waits_for_room_and_is_admitted_meanwhile_leaves_the_room_to_the_next() {
    let layer = layer();
    let read_ahead = || layer.handle().usage().read_ahead_bytes;
    let (running, _feed) = send(&layer);

    let (mut first, first_feed) = send(&layer);
    let (mut full, full_feed) = send(&layer);
    data(&full_feed, "full");
    assert_pending!(full.poll());
    assert_eq!(read_ahead(), 4);
    // There is no room for these two.
    data(&first_feed, "late");
    assert_pending!(first.poll());
    let (mut second, second_feed) = send(&layer);
    data(&second_feed, "last");
    assert_pending!(second.poll());

    drop(running);
    assert!(first.is_woken(), "it has the slot");
    assert_pending!(first.poll());

    drop(full);
    assert!(second.is_woken(), "it has the room");
    assert_pending!(second.poll());
    assert_eq!(read_ahead(), 4);
    drop((first, second));
    assert_eq!(read_ahead(), 0);
}
