//! The layer among others: in axum's routers, around and inside of tower's middleware, on more
//! than one thread.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod load;
mod middleware;
mod routes;
