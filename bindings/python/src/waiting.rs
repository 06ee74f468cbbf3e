//! Waits of Python threads: other threads of Python run meanwhile, and the handler of a signal runs
//! soon.
//!
//! A handler of Python runs between two bytecodes of the main thread. So a wait returns to the
//! interpreter from time to time.
//!
//! A thread that comes back from a wait after the interpreter has ended is lost. So the package
//! closes its sessions as the program exits, which ends all waits, and then waits until the waiting
//! threads are back.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tcpx_core::{Error, is_forked};

use crate::errors::to_python;

/// Longest time for which a wait keeps a signal's handler from running.
const SLICE: Duration = Duration::from_millis(50);

/// Number of threads in a wait.
static WAITERS: Mutex<usize> = Mutex::new(0);
static CAME_BACK: Condvar = Condvar::new();

/// Thread in a wait.
struct Waiter;

impl Waiter {
    fn new() -> Self {
        *WAITERS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        *WAITERS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        CAME_BACK.notify_all();
    }
}

/// Converts a timeout in seconds; `None` is no limit.
pub(crate) fn duration(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    let seconds = if seconds < 0.0 { 0.0 } else { seconds };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => Ok(Some(time)),
        Err(_) if seconds == f64::INFINITY => Ok(None),
        Err(error) => Err(PyValueError::new_err(format!("timeout: {error}"))),
    }
}

/// Waits with `once` until it has an answer other than that its time is over. `once` waits for at
/// most the time that it gets.
///
/// # Errors
/// The error of `once`; that of a signal's handler, such as `KeyboardInterrupt`; `Timeout`.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    mut once: impl FnMut(Duration) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let limit = duration(timeout)?;
    if is_forked() {
        return Err(to_python(&Error::Forked));
    }
    let started_at = Instant::now();
    let _waiter = Waiter::new();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(started_at.elapsed()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        match py.detach(|| once(slice)) {
            Ok(answer) => return Ok(answer),
            Err(Error::Deadline { phase, peer, detail, .. }) => {
                py.check_signals()?;
                let waited = started_at.elapsed();
                if limit.is_some_and(|limit| waited >= limit) {
                    return Err(to_python(&Error::Deadline { phase, peer, waited, detail }));
                }
            }
            Err(error) => return Err(to_python(&error)),
        }
    }
}

/// Waits until no thread is in a wait, for at most `seconds`. For the program's exit.
#[pyfunction]
pub(crate) fn await_waiters(py: Python<'_>, seconds: f64) -> PyResult<()> {
    let time = duration(Some(seconds))?.unwrap_or_default();
    if is_forked() {
        // The threads are the parent's.
        return Ok(());
    }
    py.detach(|| {
        let waiters = WAITERS.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = CAME_BACK.wait_timeout_while(waiters, time, |waiters| *waiters > 0);
    });
    Ok(())
}
