//! Dominions that are not enforced: nobody waits, and what would have been is told.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod admitting;
mod twin;

use tower_policy_queue::DominionSnapshot;

use hall::Hall;

impl Hall {
    /// What the first dominion would be if it were enforced.
    fn would_be(&self) -> DominionSnapshot {
        let snapshot = self.handle.snapshot();
        let would_be = snapshot.dominions[0].would_be.clone();
        *would_be.expect("it is not enforced")
    }
}
