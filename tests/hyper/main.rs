//! The layer under real hyper, HTTP/1.1 and HTTP/2, on the loopback interface.
//!
//! The handler is the test: it gets each request that was admitted and says what becomes of it.
//! Whether the slot is taken is asked in process, through the same layer. Waits are for conditions,
//! with a deadline that only a failing test reaches.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod gone;
mod graceful;
mod limits;
mod panics;
mod read_ahead;
mod stage;
mod transparency;
mod upgrade;
