//! Locks and atomics of the data path: the standard library's.
//!
//! Under `--cfg tcpx_helgrind` (see `scripts/sanitize.sh`) the same names tell valgrind's helgrind
//! what they do. The standard library's locks are futexes and its atomics plain instructions, which
//! helgrind takes for races.

#[cfg(not(tcpx_helgrind))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
};

#[cfg(tcpx_helgrind)]
mod annotated_atomic;
#[cfg(tcpx_helgrind)]
mod annotated_mutex;
#[cfg(tcpx_helgrind)]
mod annotated_once;
#[cfg(tcpx_helgrind)]
mod client_request;

#[cfg(tcpx_helgrind)]
pub(crate) use {
    annotated_atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
    annotated_mutex::{Mutex, MutexGuard},
    annotated_once::OnceLock,
};
