#![allow(unsafe_code)]
//! Detection of a process that was forked from a process with a plugin.
//!
//! A plugin's threads, sockets and GPU contexts belong to the process that initialised the plugin.
//! A child made with `fork` shares the sockets, lacks the threads, and may find any lock held by a
//! thread that it does not have. Nothing may be done in the child, not even cleaning up, and the
//! check may take no lock. The check is therefore one atomic that a handler of `pthread_atfork`
//! sets.
//!
//! A child that ends with `exit` runs the destructors of libraries, which may wait for ever for a
//! lock that a thread of the parent held. Work that holds such a lock is done
//! [without forks](without_forks): a fork waits for its end.
//!
//! A child that is made without those handlers (`vfork`, `_Fork`, a bare `clone`) is not
//! recognised. Until `exec` it must call nothing.

use std::cell::{Cell, UnsafeCell};
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

/// Does work during which this process is not forked: `fork` on another thread waits until it
/// ends. The work is short, forks nothing, waits for nothing, and does no other work of this kind.
/// Without memory for the handlers it is done all the same.
pub fn without_forks<T>(work: impl FnOnce() -> T) -> T {
    struct Reader;
    impl Drop for Reader {
        fn drop(&mut self) {
            // SAFETY: this thread has locked it for reading, and is in the same process.
            unsafe { libc::pthread_rwlock_unlock(FORKS.0.get()) };
        }
    }
    let _ = register();
    // SAFETY: the lock is static, and initialised.
    let is_locked = unsafe { libc::pthread_rwlock_rdlock(FORKS.0.get()) } == 0;
    // Made only then: dropping it unlocks.
    let _reader = is_locked.then(|| Reader);
    work()
}

/// Lock that a fork takes for writing, and [`without_forks`] for reading.
static FORKS: ForkLock = ForkLock(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER));

struct ForkLock(UnsafeCell<libc::pthread_rwlock_t>);

// SAFETY: only functions for locks touch the lock, but in a child, which has one thread.
unsafe impl Sync for ForkLock {}

thread_local! {
    /// Number of handlers that run in the fork under way on this thread: they may be registered
    /// twice.
    static FORKING: Cell<u32> = const { Cell::new(0) };
}

/// Runs before a fork, on the thread that forks.
unsafe extern "C" fn before_fork() {
    if FORKING.replace(FORKING.get() + 1) == 0 {
        // SAFETY: the lock is static, and initialised.
        unsafe { libc::pthread_rwlock_wrlock(FORKS.0.get()) };
    }
}

/// Runs in the parent after a fork, on the thread that has forked.
unsafe extern "C" fn in_parent() {
    if FORKING.replace(FORKING.get().saturating_sub(1)) == 1 {
        // SAFETY: this thread has locked it in `before_fork`.
        unsafe { libc::pthread_rwlock_unlock(FORKS.0.get()) };
    }
}

static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Registers the handlers. Two concurrent threads register it twice, which does no harm. A child
/// might find a `Once` running for ever.
fn register() -> io::Result<()> {
    if IS_REGISTERED.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: the handler of the child makes no assumption about the child that it runs in, and
    // only uses atomics, its own thread's count, and a lock that it makes anew. The C library
    // forgets the handlers when the shared object that contains them is unloaded.
    match unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) } {
        0 => {
            IS_REGISTERED.store(true, Ordering::Release);
            Ok(())
        }
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Runs in a child before `fork` returns there, when it has one thread. Async-signal-safe.
unsafe extern "C" fn in_child() {
    if FORKING.replace(FORKING.get().saturating_sub(1)) == 1 {
        // The thread that has locked it has another number here, and could not unlock it.
        // SAFETY: this is the only thread, and nothing waits for the lock.
        unsafe { FORKS.0.get().write(libc::PTHREAD_RWLOCK_INITIALIZER) };
    }
    if STATE.load(Ordering::Relaxed) == CLAIMED || CALLS.load(Ordering::Relaxed) > 0 {
        STATE.store(FORKED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// The child does such work itself, and ends: the system ends one that hangs.
    fn fork_and_wait() {
        // SAFETY: the child calls functions for locks, which are in order there, and `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: the call sets a timer of this process.
                unsafe { libc::alarm(60) };
                without_forks(|| ());
                // SAFETY: the call ends the child, and runs nothing.
                unsafe { libc::_exit(7) };
            }
            child => {
                let mut status = 0;
                // SAFETY: `status` is an integer of this function.
                let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!((waited, libc::WIFEXITED(status)), (child, true), "{status:#x}");
                assert_eq!(libc::WEXITSTATUS(status), 7);
            }
        }
    }

    #[test]
    fn a_fork_waits_for_the_end_of_such_work_and_its_child_is_free() {
        let is_over = AtomicBool::new(false);
        let (sender, forks) = channel();
        thread::scope(|scope| {
            without_forks(|| {
                scope.spawn(|| {
                    sender.send(()).unwrap();
                    fork_and_wait();
                    assert!(is_over.load(Ordering::SeqCst), "it was forked meanwhile");
                });
                forks.recv().unwrap();
                // A thread that need not wait would be through with many of these.
                for _ in 0..10_000 {
                    thread::yield_now();
                }
                is_over.store(true, Ordering::SeqCst);
            });
        });
        // From now on the handlers are registered twice.
        IS_REGISTERED.store(false, Ordering::SeqCst);
        without_forks(|| ());
        (0..20).for_each(|_| fork_and_wait());
        without_forks(|| ());
    }
}
