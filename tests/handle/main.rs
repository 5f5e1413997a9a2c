//! The handle: changes while the queues run, and their end.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod ending;
mod limits;
mod newcomers;
mod profiles;
mod waking;
mod workers;
