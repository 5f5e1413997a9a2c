//! What the fuzz targets do with an input. Without the fuzzer in it, so that a corpus can be replayed
//! on any toolchain.

pub mod headers;
pub mod policy;
pub mod schedule;
mod stage;
