#![allow(unsafe_code)]
//! Memory that was registered with comms.
//!
//! Also the address of a comm in the plugin, with which any thread may register memory.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use tcpx_protocol::types::MemoryType;
use tcpx_sys::{NcclResult, PTR_CUDA, PTR_HOST};

use crate::error::{Phase, PluginHang, Result};
use crate::plugin::Plugin;
use crate::plugin::comm_label::{BlockingCall, CommLabel};
use crate::workers::{Task, Workers};

/// Handle that `regMr` gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(PartialOrd, Ord))]
pub(crate) struct MemoryHandle(pub(super) NonNull<c_void>);

// SAFETY: a handle is a number to this library. The plugin takes it back from any thread.
unsafe impl Send for MemoryHandle {}

#[cfg(test)]
impl MemoryHandle {
    /// Makes a handle that no plugin gave out.
    pub(crate) fn for_tests(number: u64) -> Self {
        Self(NonNull::new(number.max(1) as *mut c_void).expect("not zero"))
    }
}

/// Registration that a worker is making.
pub(crate) type PendingRegistration = Task<Result<MemoryHandle>>;

/// Memory that is registered with a comm in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisteredRange {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) memory: MemoryType,
}

/// Comm with which memory can be registered.
pub(crate) trait Registrar {
    /// Registers memory with this comm, on a worker.
    ///
    /// # Safety
    /// The range stays valid memory of its kind until the handle was deregistered, and the comm
    /// stays open until the registration is made.
    unsafe fn register(&self, range: RegisteredRange, workers: &Workers) -> PendingRegistration;
}

/// Memory that a closing comm still knows.
#[derive(Debug, Default)]
pub(crate) struct CommMemory {
    pub(crate) handles: Vec<MemoryHandle>,
    /// Registrations that are being made. The comm stays open until they have been made.
    pub(crate) pending: Vec<PendingRegistration>,
}

impl CommMemory {
    /// Returns whether a registration is still being made.
    pub(super) fn is_registering(&self) -> bool {
        self.pending.iter().any(|pending| !pending.is_done())
    }
}

// The names for a kind of memory between peers are those of the plugin.
const _: () = assert!(MemoryType::Host.ptr_type() == PTR_HOST);
const _: () = assert!(MemoryType::Device.ptr_type() == PTR_CUDA);

/// Address of a comm. Registering may overlap with all other calls on the comm except its close:
/// the plugin only reads there which NIC and GPU the comm has.
#[derive(Debug)]
pub(super) struct CommAddress {
    pub(super) plugin: Arc<Plugin>,
    pub(super) label: CommLabel,
    pub(super) raw: NonNull<c_void>,
}

// SAFETY: the address is a number to this library, and its uses are calls that the plugin takes
// from any thread.
unsafe impl Send for CommAddress {}

impl CommAddress {
    /// Registers memory with the comm.
    ///
    /// # Safety
    /// The comm stays open during the call. The range stays valid memory of its kind until the
    /// handle was deregistered.
    pub(super) unsafe fn register(&self, range: RegisteredRange) -> Result<MemoryHandle> {
        let RegisteredRange { address, bytes, memory } = range;
        let mut mhandle = std::ptr::null_mut();
        let size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let _entered = self.label.memory.enter()?;
        let code = self.plugin.call(BlockingCall::Register, &self.label, |entries| {
            // SAFETY: the caller vouches for comm and memory. The output is a valid pointer.
            unsafe {
                (entries.reg_mr)(
                    self.raw.as_ptr(),
                    address as *mut c_void,
                    size,
                    memory.ptr_type(),
                    &raw mut mhandle,
                )
            }
        });
        self.label.check("regMr", code, Phase::Register)?;
        let null = || self.label.failure("regMr", NcclResult::INTERNAL_ERROR, Phase::Register);
        NonNull::new(mhandle).map(MemoryHandle).ok_or_else(null)
    }

    /// Deregisters memory from the comm.
    pub(super) fn deregister(&self, mhandle: MemoryHandle) {
        let _entered = self.label.memory.try_enter();
        // SAFETY: the comm gave out the handle, and the table of registrations has forgotten it.
        // The plugin takes a handle back even if its comm is closed by now.
        let code = self.plugin.call(BlockingCall::Deregister, &self.label, |entries| unsafe {
            (entries.dereg_mr)(self.raw.as_ptr(), mhandle.0.as_ptr())
        });
        if let Err(error) = self.label.check("deregMr", code, Phase::Register) {
            tracing::warn!(%error, "memory stays known to the plugin");
        }
    }
}

/// Handle that must go back to the comm that gave it out.
#[derive(Debug)]
pub(crate) struct Deregistration {
    pub(super) address: CommAddress,
    pub(super) handle: MemoryHandle,
}

impl Deregistration {
    /// Makes the call. It may block: hold no lock.
    pub(crate) fn make(self) {
        self.address.deregister(self.handle);
    }

    /// Describes the call if it does not return.
    pub(crate) fn hang(&self, waited: Duration) -> PluginHang {
        self.address.label.hang(BlockingCall::Deregister, waited)
    }
}
