//! Locks that a panic cannot poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic of another holder: each lock of the kernel guards data that is whole between any two statements.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
