//! How long a slot is held: until a point of the response, and no longer than its class may.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod longest;
mod timekeeper;
mod until;

use std::task::Poll;

use common::desk::Reading;
use tower_policy_queue::SlotRevoked;

/// Reads a data frame.
#[track_caller]
pub(crate) fn read(body: &mut Reading) -> String {
    match body.poll_frame() {
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) => String::from_utf8(data.to_vec()).unwrap(),
            Err(_) => "(trailers)".to_owned(),
        },
        other => panic!("a frame was sent, but {other:?}"),
    }
}

/// The error of a body whose slot was taken back, after which it has ended.
#[track_caller]
pub(crate) fn revoked(body: &mut Reading) -> SlotRevoked {
    let revoked = match body.poll_frame() {
        Poll::Ready(Some(Err(error))) => *error.downcast_ref().expect("the slot was taken back"),
        other => panic!("the slot was taken back, but {other:?}"),
    };
    assert!(
        http_body::Body::is_end_stream(&*body.inner),
        "nothing comes after the error"
    );
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    revoked
}
