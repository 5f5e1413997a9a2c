//! The status page: what is served where and under which headers, and its streams of events.
//!
//! What a browser makes of it is in `tests/clients/status_page.py`.

#![cfg(feature = "status")]
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod answers;
mod events;
mod mounted;

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::Service;
use tower_policy_queue::status::{StatusBody, StatusService};

use crate::{common::NoBody, hall::Hall};

pub(crate) const POLICY: &str = "
dominions:
  - {id: gpu, kind: remote, max_concurrency: 1, max_queue: 10}
  - {id: cpu, kind: remote}
default_dominion: gpu
";

/// A page for whatever goes on in a hall.
pub(crate) fn page(hall: &Hall) -> StatusService {
    StatusService::new(hall.handle.clone())
}

/// Its answer, which is always there at once.
pub(crate) fn ask(page: &mut StatusService, method: Method, path: &str) -> Response<StatusBody> {
    let request = Request::builder().method(method).uri(path);
    let answer = page.call(request.body(NoBody::new()).unwrap());
    answer.now_or_never().expect("it answers at once").unwrap()
}

pub(crate) fn get(page: &mut StatusService, path: &str) -> Response<StatusBody> {
    ask(page, Method::GET, path)
}

/// A whole body, there at once.
pub(crate) fn read(response: Response<StatusBody>) -> Bytes {
    let body = response.into_body().collect().now_or_never();
    body.expect("it is whole").unwrap().to_bytes()
}

/// What a handle says, as JSON.
pub(crate) fn snapshot(hall: &Hall) -> Value {
    serde_json::to_value(hall.handle.snapshot()).unwrap()
}
