//! The permit: from the grant to the end of the response body, and given back exactly once.
//!
//! No sockets, no tasks, no time: a service whose every step the test decides behind a layer with
//! one slot, and requests that are polled only when the test says so. That the slot is taken shows
//! in a second request that waits, that it was given back in the second request being woken.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod drops;
mod ends;
mod hold;
mod modes;
mod order;
mod panics;
mod wakers;
