//! Waiting has an end, and whoever is turned away learns when to come again.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod deadlines;
mod races;
mod retry;
mod statuses;
