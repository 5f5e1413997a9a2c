//! A Tower layer that decides who goes next in front of an expensive HTTP backend.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(missing_debug_implementations, rust_2018_idioms, unreachable_pub)]

mod config;
mod http;
mod pool;
mod schedule;

pub use self::{
    config::{ConfigError, ConfigMistake, Endpoint, PolicyConfig},
    http::{
        Admission, Classify, DefaultResponseForRejection, Hold, NoClassifier, PolicyQueue,
        PolicyQueueLayer, QueueHints, Rejection, ResponseBody, ResponseForRejection,
        ResponseFuture, UnknownDominion,
    },
    pool::LimitKind,
};
