#![allow(unsafe_code)]
//! Owning types for the plugin's listen, send and receive comms, each with the rules that the original punishes.

mod connect;
mod listen;
mod recv;
mod send;

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use tcpx_sys::NcclResult;

pub(crate) use connect::PendingConnect;
pub(crate) use listen::ListenComm;
pub(crate) use recv::RecvComm;
pub(crate) use send::SendComm;

use crate::error::{Error, Phase, PluginFailure, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::Plugin;
use crate::types::peer_name::PeerName;

/// Consecutive answers of 2 from `test` that make a comm dead. The first may only mean that the peer has closed while
/// its last bytes are still buffered here.
const SYSTEM_ERRORS_IN_A_ROW: u32 = 3;

/// Whose comm it is, for errors.
#[derive(Clone, Debug)]
pub(crate) struct CommLabel {
    pub(crate) peer: PeerName,
    pub(crate) channel: u16,
    pub(crate) nic: Arc<str>,
    pub(crate) nic_index: c_int,
    /// What device memory is on it. The plugin reads the GPU off the thread that makes the comm.
    pub(crate) memory: DeviceMemory,
}

impl CommLabel {
    #[inline]
    fn check(&self, call: &'static str, code: NcclResult, phase: Phase) -> Result<()> {
        if code.is_success() { Ok(()) } else { Err(self.failure(call, code, phase)) }
    }

    #[cold]
    fn failure(&self, call: &'static str, code: NcclResult, phase: Phase) -> Error {
        Error::Plugin(PluginFailure {
            call,
            code,
            phase,
            peer: Some(self.peer.to_string()),
            channel: Some(self.channel),
            nic: Some(self.nic.to_string()),
        })
    }
}

/// A request of the plugin. Only good for the comm that gave it out, until that comm is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request(NonNull<c_void>);

/// What `regMr` gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryHandle(NonNull<c_void>);

#[cfg(test)]
impl MemoryHandle {
    /// A handle that no plugin gave out.
    pub(crate) fn for_tests(number: u64) -> Self {
        Self(NonNull::new(number.max(1) as *mut c_void).expect("not zero"))
    }
}

// SAFETY: both are numbers to this library, tied to no thread; the plugin takes them back from any thread.
unsafe impl Send for Request {}
// SAFETY: as above.
unsafe impl Send for MemoryHandle {}

/// A comm's address in the plugin, with the two calls that every comm answers to.
#[derive(Debug)]
struct RawComm {
    plugin: Arc<Plugin>,
    place: CommLabel,
    raw: NonNull<c_void>,
    system_errors: u32,
    /// Taken back right after the comm has closed: until then requests in flight may use them.
    registered: Vec<MemoryHandle>,
}

// SAFETY: the plugin allows a comm to be used from any thread as long as uses do not overlap; `RawComm` is only used
// through `&mut`, except for `regMr`, which runs under the plugin's own lock.
unsafe impl Send for RawComm {}

impl RawComm {
    fn test(&mut self, request: Request, phase: Phase) -> Result<bool> {
        let mut done: c_int = 0;
        let mut sizes: c_int = 0;
        // SAFETY: the request came from this comm, which is open; both outputs are valid ints during the call.
        let code = unsafe {
            (self.plugin.entries().test)(request.0.as_ptr(), &raw mut done, &raw mut sizes)
        };
        if code == NcclResult::SYSTEM_ERROR {
            self.system_errors += 1;
            if self.system_errors < SYSTEM_ERRORS_IN_A_ROW {
                return Ok(false);
            }
        } else {
            self.system_errors = 0;
        }
        self.place.check("test", code, phase)?;
        Ok(done != 0)
    }

    /// # Safety
    /// `data..data + bytes` stays valid memory of kind `ptr_type` until the handle was deregistered.
    unsafe fn register(&self, data: u64, bytes: u32, ptr_type: c_int) -> Result<MemoryHandle> {
        let mut mhandle = std::ptr::null_mut();
        let size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let _entered = self.place.memory.enter()?;
        let code = self.plugin.one_at_a_time(|entries| {
            // SAFETY: the comm is open; the caller vouches for the memory; the output is a valid pointer.
            unsafe {
                (entries.reg_mr)(
                    self.raw.as_ptr(),
                    data as *mut c_void,
                    size,
                    ptr_type,
                    &raw mut mhandle,
                )
            }
        });
        self.place.check("regMr", code, Phase::Register)?;
        NonNull::new(mhandle)
            .map(MemoryHandle)
            .ok_or_else(|| self.null_output("regMr", Phase::Register))
    }

    fn deregister(&self, mhandle: MemoryHandle) {
        let _entered = self.place.memory.try_enter();
        // SAFETY: the comm gave out the handle, and the registration table has forgotten it. The plugin takes handles back
        // by themselves: the comm may be closed by now.
        let code = self.plugin.one_at_a_time(|entries| unsafe {
            (entries.dereg_mr)(self.raw.as_ptr(), mhandle.0.as_ptr())
        });
        if let Err(error) = self.place.check("deregMr", code, Phase::Register) {
            tracing::warn!(%error, "memory stays known to the plugin");
        }
    }

    fn deregister_left(&mut self) {
        for mhandle in std::mem::take(&mut self.registered) {
            self.deregister(mhandle);
        }
    }

    fn null_output(&self, call: &'static str, phase: Phase) -> Error {
        self.place.failure(call, NcclResult::INTERNAL_ERROR, phase)
    }
}

/// What send and receive comms have in common for registrations.
pub(crate) trait Registrar {
    /// Makes memory known to this comm.
    ///
    /// # Safety
    /// `data..data + bytes` stays valid memory of kind `ptr_type` until [`deregister`](Self::deregister).
    unsafe fn register(&self, data: u64, bytes: u32, ptr_type: c_int) -> Result<MemoryHandle>;

    /// Takes back what `register` of this comm gave out.
    fn deregister(&self, mhandle: MemoryHandle);
}

macro_rules! registrar {
    ($type:ty) => {
        impl Registrar for $type {
            unsafe fn register(
                &self,
                data: u64,
                bytes: u32,
                ptr_type: c_int,
            ) -> Result<MemoryHandle> {
                // SAFETY: the caller's promise is passed on.
                unsafe { self.raw.register(data, bytes, ptr_type) }
            }

            fn deregister(&self, mhandle: MemoryHandle) {
                self.raw.deregister(mhandle);
            }
        }
    };
}
registrar!(SendComm);
registrar!(RecvComm);
