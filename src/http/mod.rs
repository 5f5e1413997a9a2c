//! The layer: Tower and http types around the pools, without any policy of their own.

mod admission;
mod body;
mod classify;
mod facts;
mod future;
mod headers;
mod json;
mod layer;
mod rejection;
mod service;
mod shared;

pub use self::{
    admission::{Admission, Hold},
    body::ResponseBody,
    classify::{Classify, NoClassifier, QueueHints},
    future::ResponseFuture,
    layer::{PolicyQueueLayer, UnknownDominion},
    rejection::{DefaultResponseForRejection, Rejection, ResponseForRejection},
    service::PolicyQueue,
};
