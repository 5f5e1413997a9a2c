//! What requests turn out to use: output tokens charged to their class, turns weighed by tokens, and
//! prompts that a worker has cached.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod cached;
mod output;
mod turns;
