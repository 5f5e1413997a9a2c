//! Invariants that did not hold.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Of those told one by one; the rest is only counted.
const TOLD: usize = 50;

/// Clones share what they know.
#[derive(Clone, Default)]
pub(crate) struct Broken(Arc<Mutex<(Vec<String>, usize)>>);

impl Broken {
    /// An invariant did not hold: says so at once, and again at the end.
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

    /// Those told, and how many there were.
    pub(crate) fn all(&self) -> (Vec<String>, usize) {
        lock(&self.0).clone()
    }
}

/// A panic that is meant to happen must not end the rest.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
