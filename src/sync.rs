//! The locks and atomics of the pool: those of the standard library, or those of `loom`, which runs
//! a test through every interleaving of them.
//!
//! `Arc` and `Weak` are always the standard ones: `loom` has no `Weak`, its `Arc` cannot be a method's
//! receiver, and nothing depends on when a reference count changes, as slots are counted separately.

#[cfg(all(test, policy_queue_loom))]
mod modelled;

#[cfg(all(test, policy_queue_loom))]
pub(crate) use self::modelled::{Mutex, MutexGuard, holds_lock};
#[cfg(all(test, policy_queue_loom))]
pub(crate) use loom::sync::atomic;
#[cfg(not(all(test, policy_queue_loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
