//! Locks that survive a panic of another thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; what a thread that panicked has left is taken as it is, because no invariant of the engine spans two statements under a lock.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
