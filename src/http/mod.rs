//! The layer: Tower and HTTP types around the pools. No scheduling decision is made here.

mod admission;
mod body;
mod cached;
mod classify;
mod core;
mod enter;
mod facts;
mod future;
mod handle;
mod headers;
mod hub;
mod json;
mod layer;
mod read_ahead;
mod rejection;
mod reload;
mod request_body;
mod respond;
mod service;
mod slot;
mod snapshot;

pub use self::{
    admission::{Admission, Hold},
    body::{BoxError, ResponseBody},
    cached::{CachedTokens, NoCache},
    classify::{Classify, NoClassifier, QueueHints},
    future::ResponseFuture,
    handle::{ChangeError, PolicyQueueHandle, WorkerSpec},
    layer::{PolicyQueueLayer, UnknownDominion},
    rejection::{Reason, Rejection},
    request_body::RequestBody,
    respond::{DefaultResponseForRejection, ResponseForRejection},
    service::PolicyQueue,
    slot::SlotRevoked,
    snapshot::{Snapshot, Unplaced, Usage},
};
