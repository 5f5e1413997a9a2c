//! A Tower layer that decides who goes next in front of an expensive HTTP backend.

mod config;
mod http;
mod pool;
mod schedule;

pub use self::{
    config::{Endpoint, PolicyConfig},
    http::{
        Admission, Classify, DefaultResponseForRejection, Hold, NoClassifier, PolicyQueue,
        PolicyQueueLayer, QueueHints, Rejection, ResponseBody, ResponseForRejection,
        ResponseFuture, UnknownDominion,
    },
    pool::LimitKind,
};
