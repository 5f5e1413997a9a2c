//! The YAML: its schema, its validation, and what comes out.
//!
//! Plain data. Nothing here knows of queues, clocks or requests.

mod policy;

pub(crate) use policy::{
    BusyThreshold, ClassLimits, Dominion, Headers, PolicyClass, QueuePolicy, Worker,
};
pub use policy::{Endpoint, PolicyConfig};
