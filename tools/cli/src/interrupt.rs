#![allow(unsafe_code)]
//! Interrupts (Ctrl-C) while something is measured: the first asks for an end in order, and the
//! next one ends the process as ever.

use std::io::Error;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::failure::Failure;

/// Interrupts that have come while somebody listened.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many listen, and what interrupts did before the first of them.
static LISTENERS: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

/// Listens until it is dropped.
pub(crate) struct Interrupts {
    heard: usize,
}

impl Interrupts {
    /// Listens from now on. Where interrupts are ignored, as in a shell's background job, they stay
    /// so.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.0 == 0 {
            listeners.1 = begin().map_err(Failure::io("listening for interrupts"))?;
        }
        listeners.0 += 1;
        Ok(Self { heard: COUNT.load(Ordering::Relaxed) })
    }

    /// Whether one has come since this listens.
    pub(crate) fn has_come(&self) -> bool {
        COUNT.load(Ordering::Relaxed) != self.heard
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.0 -= 1;
        if listeners.0 == 0
            && let Some(before) = listeners.1.take()
        {
            // SAFETY: it is the action that was in force, as the system gave it. It cannot fail for
            // this signal.
            unsafe { libc::sigaction(libc::SIGINT, &raw const before, std::ptr::null_mut()) };
        }
    }
}

/// Has the next interrupt counted. Returns what it would have done; nothing if it is ignored.
fn begin() -> std::io::Result<Option<libc::sigaction>> {
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: a null pointer sets nothing, and the other is to room for the answer.
    if unsafe { libc::sigaction(libc::SIGINT, std::ptr::null(), before.as_mut_ptr()) } != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call has filled it in.
    let before = unsafe { before.assume_init() };
    if before.sa_sigaction == libc::SIG_IGN {
        return Ok(None);
    }
    let mut action = before;
    action.sa_sigaction = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // After the first one the default is back.
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: the handler takes the argument that it is called with without SA_SIGINFO, and does
    // nothing that a handler may not do.
    match unsafe { libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(Some(before)),
        _ => Err(Error::last_os_error()),
    }
}

extern "C" fn count(_: libc::c_int) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}
