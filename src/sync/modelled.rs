//! A `loom` mutex that knows whether the running thread holds one.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::LockResult,
};

loom::thread_local! {
    static HELD: Cell<usize> = Cell::new(0);
}

/// True if the running thread holds a lock of the pool.
pub(crate) fn holds_lock() -> bool {
    HELD.with(|held| held.get() > 0)
}

#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        HELD.with(|held| held.set(held.get() + 1));
        Ok(MutexGuard(guard))
    }
}

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(loom::sync::MutexGuard<'a, T>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}
