#![allow(unsafe_code)]
//! Memory that comms know.

use std::ffi::c_void;
use std::ptr::NonNull;

use tcpx_protocol::types::MemoryType;

use crate::error::Result;
use crate::workers::Workers;
use crate::workers::ticket::Task;

/// What `regMr` gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(PartialOrd, Ord))]
pub(crate) struct MemoryHandle(pub(super) NonNull<c_void>);

// SAFETY: a handle is a number to this library. The plugin takes it back from any thread.
unsafe impl Send for MemoryHandle {}

#[cfg(test)]
impl MemoryHandle {
    /// A handle that no plugin gave out.
    pub(crate) fn for_tests(number: u64) -> Self {
        Self(NonNull::new(number.max(1) as *mut c_void).expect("not zero"))
    }
}

/// A registration that a worker is making.
pub(crate) type Registering = Task<Result<MemoryHandle>>;

/// Memory that is made known to a comm in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisteredRange {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) memory: MemoryType,
}

/// A comm with which memory can be registered.
pub(crate) trait Registrar {
    /// Has memory made known to this comm.
    ///
    /// # Safety
    /// The range stays valid memory of its kind until the handle was deregistered, and the comm
    /// stays open until the registration is made.
    unsafe fn register(&self, range: RegisteredRange, workers: &Workers) -> Registering;
}

/// What a comm that closes still knows.
#[derive(Debug, Default)]
pub(crate) struct CommMemory {
    pub(crate) handles: Vec<MemoryHandle>,
    /// Registrations that are being made. The comm stays open until they are.
    pub(crate) registering: Vec<Registering>,
}

impl CommMemory {
    /// Whether a registration is still being made.
    pub(super) fn is_registering(&self) -> bool {
        self.registering.iter().any(|registering| !registering.is_done())
    }
}
