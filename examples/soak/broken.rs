//! Invariants that did not hold.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The most that are told one by one; the rest are only counted.
const TOLD: usize = 50;

/// Clones share their records.
#[derive(Clone, Default)]
pub(crate) struct Broken(Arc<Mutex<(Vec<String>, usize)>>);

impl Broken {
    /// Reports that an invariant did not hold, at once and again at the end.
    pub(crate) fn tell(&self, what: impl fmt::Display) {
        let mut broken = lock(&self.0);
        broken.1 += 1;
        if broken.0.len() < TOLD {
            let line = what.to_string();
            eprintln!("BROKEN: {line}");
            broken.0.push(line);
        }
    }

    pub(crate) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.tell(what());
        }
    }

    /// Those told, and the number of all.
    pub(crate) fn all(&self) -> (Vec<String>, usize) {
        lock(&self.0).clone()
    }
}

/// Ignores poisoning: a panic that is meant to happen must not end the rest.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
