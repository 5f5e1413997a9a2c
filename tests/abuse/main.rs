//! Callers that mean harm, through the public API alone: what they send costs them their own turns
//! and no more than the documented bounds.
//!
//! Files that are made to hurt are in `tests/config/hostile.rs` too, OpenAI bodies in
//! `tests/openai/hostile.rs`.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod crowd;
#[path = "../common/hall.rs"]
mod hall;
#[path = "../hyper/stage.rs"]
#[allow(dead_code)]
mod stage;

mod echo;
mod labels;
mod large_headers;
mod lengths;
mod numbers;
mod places;
mod silence;
mod untrusted;
mod yaml;

/// What a client may not gain by: as much text as an abuser likes to send.
pub(crate) const HUGE: usize = 64 * 1024;
