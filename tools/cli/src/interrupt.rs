//! Interrupts (Ctrl-C) during a measurement. The first interrupt ends the measurement in order, and
//! the next one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::failure::Failure;

/// Whether an interrupt ends the process: one has come, or there is no listener.
static ENDS: AtomicBool = AtomicBool::new(true);
/// Number of listeners, and whether there has ever been a listener.
static LISTENERS: Mutex<(usize, bool)> = Mutex::new((0, false));

/// Listener for interrupts, until it is dropped.
pub(crate) struct Interrupts(());

impl Interrupts {
    /// Listens from now on. Where interrupts are ignored, as in a shell's background job, they stay
    /// so.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        if !listeners.1 && !are_ignored() {
            // In this order: the first interrupt finds the state that it still has to set.
            flag::register_conditional_default(SIGINT, &ENDS)
                .and_then(|_| flag::register(SIGINT, &ENDS))
                .map_err(Failure::io("listening for interrupts"))?;
            listeners.1 = true;
        }
        if listeners.0 == 0 {
            ENDS.store(false, Ordering::Relaxed);
        }
        listeners.0 += 1;
        Ok(Self(()))
    }

    /// Returns whether an interrupt has come since the first of the current listeners began.
    pub(crate) fn has_come(&self) -> bool {
        ENDS.load(Ordering::Relaxed)
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.0 -= 1;
        if listeners.0 == 0 {
            ENDS.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns whether the system ignores interrupts for this process, by its mask of ignored signals.
fn are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGINT - 1) & 1 != 0)
}
