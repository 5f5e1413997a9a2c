//! A Tower layer that decides who goes next in front of an expensive HTTP backend.

mod config;

pub use config::{Endpoint, PolicyConfig};
