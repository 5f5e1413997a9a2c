//! The locks and atomics of the pool: those of the standard library, or those of `loom`, which runs
//! a test through every interleaving of them.
//!
//! `Arc` and `Weak` stay the standard ones. `loom` has no `Weak`, its `Arc` cannot be a method's
//! receiver, and nothing here hangs on when a count of references changes: slots are counted apart.

#[cfg(all(test, policy_queue_loom))]
mod modelled;

#[cfg(all(test, policy_queue_loom))]
pub(crate) use self::modelled::{Mutex, MutexGuard, holds_lock};
#[cfg(all(test, policy_queue_loom))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(test, policy_queue_loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
