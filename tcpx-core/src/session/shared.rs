//! The engine behind its lock, and how threads wait on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::session::wait::{WaitLimit, Waiter};

/// The engine and what waiting threads need to know.
#[derive(Debug)]
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    pub(super) spin: Duration,
}

impl Shared {
    pub(super) fn new(mut engine: Engine, spin: Duration) -> Arc<Self> {
        Arc::new_cyclic(|shared: &Weak<Self>| {
            let shared = Weak::clone(shared);
            engine.commons.closer.on_closed(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.progress();
                }
            });
            Self { engine: Mutex::new(engine), spin }
        })
    }

    /// Locks the engine. A panic while it was locked cannot have come from a caller's code, which
    /// never runs inside.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One round of progress. Returns whether anything moved.
    pub(super) fn progress(&self) -> bool {
        self.engine().progress(Instant::now())
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
            let mut engine = self.engine();
            let now = Instant::now();
            let moved = engine.progress(now);
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
