//! Locks, atomics, threads and waits of the data path: the standard library's and the system's.
//!
//! Under `--cfg tcpx_helgrind` (see `tools/scripts/sanitize.sh`) the same names tell valgrind's
//! helgrind what they do. The standard library's locks are futexes and its atomics plain
//! instructions, which helgrind takes for races. In unit tests they let a test decide which thread
//! goes on (`exploration`).

#[cfg(not(any(test, tcpx_helgrind)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
};
#[cfg(any(not(test), tcpx_helgrind))]
pub(crate) use {
    std::thread,
    tcpx_comm::poll::{Waker, wait},
};

#[cfg(any(test, tcpx_helgrind))]
mod annotated_atomic;
#[cfg(any(test, tcpx_helgrind))]
mod annotated_mutex;
#[cfg(any(test, tcpx_helgrind))]
mod annotated_once;
#[cfg(tcpx_helgrind)]
mod client_request;
#[cfg(all(test, not(tcpx_helgrind)))]
pub(crate) mod exploration;

#[cfg(all(test, not(tcpx_helgrind)))]
pub(crate) use exploration::{Waker, thread, wait};
#[cfg(any(test, tcpx_helgrind))]
pub(crate) use {
    annotated_atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
    annotated_mutex::{Mutex, MutexGuard},
    annotated_once::OnceLock,
};
