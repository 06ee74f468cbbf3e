//! Mutex that reports to helgrind when it is held, or lets a test decide which thread comes next.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

#[cfg(tcpx_helgrind)]
use super::client_request::{acquired, lock, released};
#[cfg(all(test, not(tcpx_helgrind)))]
use super::exploration::{acquired, lock, released};

/// As `std::sync::Mutex`.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    inner: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { inner: std::sync::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match lock(&self.inner) {
            Ok(guard) => Ok(self.held(guard)),
            Err(poisoned) => Err(PoisonError::new(self.held(poisoned.into_inner()))),
        }
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(guard) => Ok(self.held(guard)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(PoisonError::new(self.held(poisoned.into_inner())).into())
            }
        }
    }

    pub(crate) fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    fn held<'a>(&'a self, guard: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        acquired(&self.inner);
        MutexGuard { lock: self, guard }
    }
}

/// As `std::sync::MutexGuard`.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    /// Released after [`Drop::drop`] has said so.
    guard: std::sync::MutexGuard<'a, T>,
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        released(&self.lock.inner);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
