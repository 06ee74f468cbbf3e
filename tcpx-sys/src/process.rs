#![allow(unsafe_code)]
//! Detection of a process that was forked from a process with a plugin.
//!
//! A plugin's threads, sockets and GPU contexts belong to the process that initialised the plugin.
//! A child made with `fork` shares the sockets, lacks the threads, and may find any lock held by a
//! thread that it does not have. Nothing may be done in the child, not even cleaning up, and the
//! check may take no lock. The check is therefore one atomic that a handler of `pthread_atfork`
//! sets.
//!
//! A child that is made without those handlers (`vfork`, `_Fork`, a bare `clone`) is not
//! recognised. Until `exec` it must call nothing.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};

/// No thread has claimed this process.
const FREE: u8 = 0;
/// This process uses the library; children forked from it must not.
const CLAIMED: u8 = 1;
/// This process was forked from one that was claimed, or while a thread was inside.
const FORKED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(FREE);
/// Number of calls in progress, in a process that is not claimed.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Returns whether this process was forked from a process that had used the library. The result
/// never changes in a process. Takes no lock and makes no system call.
#[must_use]
pub fn is_forked() -> bool {
    STATE.load(Ordering::Relaxed) == FORKED
}

/// Error of a process that was forked from a process with the library, and must not use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process was forked from one that had used the library")]
pub struct Forked;

/// Guard of a call into the library against forks, for calls that take locks or start something. A
/// child that is forked during such a call counts as forked, because it may find those locks held.
#[derive(Debug)]
#[must_use = "the call ends when this is dropped"]
pub struct ForkGuard {
    /// Whether the call is counted. Once the process is claimed, calls make no difference any more.
    is_counted: bool,
}

impl ForkGuard {
    /// Begins a call.
    ///
    /// # Errors
    /// Returns [`Forked`] in a forked child.
    pub fn begin() -> Result<Self, Forked> {
        match STATE.load(Ordering::Relaxed) {
            CLAIMED => Ok(Self { is_counted: false }),
            FORKED => Err(Forked),
            _ => {
                // If there is no memory for the handler, a child does not know of this call.
                // `claim` tries again, and returns the error.
                let _ = register();
                CALLS.fetch_add(1, Ordering::SeqCst);
                // The count comes before every lock that is taken during the call.
                fence(Ordering::SeqCst);
                Ok(Self { is_counted: true })
            }
        }
    }

    /// Claims this process for the library: from now on every child forked from it is refused.
    ///
    /// # Errors
    /// Returns an error when the system has no memory for a fork handler.
    pub fn claim(&self) -> io::Result<()> {
        if self.is_counted {
            register()?;
            STATE.store(CLAIMED, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        if self.is_counted {
            CALLS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Registers the handler. Two concurrent threads register it twice, which does no harm. A child
/// might find a `Once` running for ever.
fn register() -> io::Result<()> {
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if IS_REGISTERED.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: the handler makes no assumption about the child that it runs in, and only uses
    // atomics. The C library forgets the handler when the shared object that contains it is
    // unloaded.
    match unsafe { libc::pthread_atfork(None, None, Some(in_child)) } {
        0 => {
            IS_REGISTERED.store(true, Ordering::Release);
            Ok(())
        }
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Runs in a child before `fork` returns there, when it has one thread. Async-signal-safe.
unsafe extern "C" fn in_child() {
    if STATE.load(Ordering::Relaxed) == CLAIMED || CALLS.load(Ordering::Relaxed) > 0 {
        STATE.store(FORKED, Ordering::Relaxed);
    }
}
