//! The engine behind its lock, and how threads wait on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use tcpx_sys::is_forked;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::session::wait::{Moved, WaitLimit, Waiter};

/// The engine and what waiting threads need to know.
#[derive(Debug)]
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    pub(super) spin: Duration,
}

impl Shared {
    pub(super) fn new(engine: Engine, spin: Duration) -> Arc<Self> {
        Arc::new_cyclic(|shared: &Weak<Self>| {
            let shared = Weak::clone(shared);
            engine.commons.workers.on_moved(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.progress();
                }
            });
            Self { engine: Mutex::new(engine), spin }
        })
    }

    /// Locks the engine. A panic while it was locked cannot have come from a caller's code, which
    /// never runs inside.
    ///
    /// In a forked child it refuses: another thread of the parent may have held the lock.
    pub(crate) fn engine(&self) -> Result<MutexGuard<'_, Engine>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One round of progress, unless another thread has the engine: that one makes a round itself,
    /// or lets others in soon.
    pub(super) fn try_progress(&self) -> Result<()> {
        if is_forked() {
            return Err(Error::Forked);
        }
        let mut engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        round(&mut engine, Instant::now());
        Ok(())
    }

    /// Keeps the engine for as long as the process lives. In a forked child its sockets, GPU
    /// memory and plugin are the parent's, so nothing of it may ever be closed or freed.
    pub(super) fn leave(self: &Arc<Self>) {
        std::mem::forget(Arc::clone(self));
    }

    /// One round of progress.
    pub(super) fn progress(&self) -> Moved {
        self.engine().map_or(Moved::Nothing, |mut engine| round(&mut engine, Instant::now()))
    }

    /// Makes progress until `check` has an answer. `on_deadline` says what was missing.
    pub(crate) fn wait<T>(
        &self,
        limit: WaitLimit,
        mut check: impl FnMut(&mut Engine) -> Result<Poll<T>>,
        on_deadline: impl FnOnce(&mut Engine, Duration, Instant) -> Error,
    ) -> Result<T> {
        let mut waiter = Waiter::new(limit, self.spin);
        loop {
            let mut engine = self.engine()?;
            let now = Instant::now();
            let moved = round(&mut engine, now);
            if let Poll::Ready(value) = check(&mut engine)? {
                return Ok(value);
            }
            if waiter.is_over(now) {
                return Err(on_deadline(&mut engine, waiter.waited(now), now));
            }
            drop(engine);
            waiter.pause(moved, now);
        }
    }
}

fn round(engine: &mut Engine, now: Instant) -> Moved {
    match engine.progress(now) {
        false => Moved::Nothing,
        true if engine.is_withdrawing() => Moved::Slice,
        true => Moved::Something,
    }
}
