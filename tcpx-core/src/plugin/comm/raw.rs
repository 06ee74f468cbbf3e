#![allow(unsafe_code)]
//! What all comms have in common: their address in the plugin, whose they are, and registrations.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use tcpx_sys::NcclResult;

use crate::error::{Error, Phase, PluginFailure, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::Plugin;
use crate::types::peer_name::PeerName;

/// Answers of 2 from `test` in a row that make a comm dead. The first ones may only mean that the
/// peer has closed while its last bytes are still buffered here.
const SYSTEM_ERRORS_IN_A_ROW: u32 = 3;

/// Whose comm it is, for errors, and the memory that it works on.
#[derive(Clone, Debug)]
pub(crate) struct CommLabel {
    pub(crate) peer: PeerName,
    pub(crate) channel: u16,
    pub(crate) nic: Arc<str>,
    pub(crate) nic_index: c_int,
    /// What device memory is on this comm. The plugin takes the GPU from the thread that makes the
    /// comm.
    pub(crate) memory: DeviceMemory,
}

impl CommLabel {
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: NcclResult, phase: Phase) -> Result<()> {
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

/// A request of the plugin. It is good for the comm that gave it out, until that comm is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request(pub(super) NonNull<c_void>);

/// What `regMr` gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(PartialOrd, Ord))]
pub(crate) struct MemoryHandle(pub(super) NonNull<c_void>);

#[cfg(test)]
impl MemoryHandle {
    /// A handle that no plugin gave out.
    pub(crate) fn for_tests(number: u64) -> Self {
        Self(NonNull::new(number.max(1) as *mut c_void).expect("not zero"))
    }
}

// SAFETY: a request is a number to this library. The plugin takes it back from any thread.
unsafe impl Send for Request {}
// SAFETY: as for `Request`.
unsafe impl Send for MemoryHandle {}

/// A comm's address in the plugin, with the two calls that every comm answers to.
#[derive(Debug)]
pub(super) struct RawComm {
    pub(super) plugin: Arc<Plugin>,
    pub(super) place: CommLabel,
    pub(super) raw: NonNull<c_void>,
    /// Answers of 2 from `test` in a row.
    system_errors: u32,
    /// What is deregistered right after the comm has closed. Requests in flight may use it until
    /// then.
    pub(super) registered: Vec<MemoryHandle>,
}

// SAFETY: the plugin allows a comm to be used from any thread as long as uses do not overlap.
// `RawComm` is only used through `&mut`, except for `regMr` and `deregMr`, which run one at a time.
unsafe impl Send for RawComm {}

impl RawComm {
    pub(super) fn new(plugin: &Arc<Plugin>, place: CommLabel, raw: NonNull<c_void>) -> Self {
        let plugin = Arc::clone(plugin);
        Self { plugin, place, raw, system_errors: 0, registered: Vec::new() }
    }

    /// Drives the comm; true once, when the request is done.
    pub(super) fn test(&mut self, request: Request, phase: Phase) -> Result<bool> {
        let mut done: c_int = 0;
        let mut sizes: c_int = 0;
        // SAFETY: the request came from this comm, which is open. Both outputs are valid ints
        // during the call.
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

    /// Tells a plugin that can look how long the peer's host may acknowledge nothing; `None`: for
    /// ever.
    pub(super) fn set_peer_timeout(&self, timeout: Option<Duration>) {
        let Some(health) = self.plugin.health() else { return };
        let limit = timeout.map_or(0, |time| time.as_millis().clamp(1, u32::MAX.into()) as u32);
        // SAFETY: the comm is open.
        let code = unsafe { (health.set_peer_timeout)(self.raw.as_ptr(), limit) };
        if let Err(error) = self.place.check("setPeerTimeout", code, Phase::Connect) {
            tracing::warn!(%error, "the plugin's own limit holds");
        }
    }

    /// Looks whether the comm's connections are alive, if the plugin can tell.
    pub(super) fn look(&self, phase: Phase) -> Result<()> {
        let Some(health) = self.plugin.health() else { return Ok(()) };
        // SAFETY: the comm is open.
        let code = unsafe { (health.check_comm)(self.raw.as_ptr()) };
        self.place.check("checkComm", code, phase)
    }

    /// Makes memory known to this comm.
    ///
    /// # Safety
    /// `data..data + bytes` stays valid memory of kind `ptr_type` until the handle was
    /// deregistered.
    pub(super) unsafe fn register(
        &self,
        data: u64,
        bytes: u32,
        ptr_type: c_int,
    ) -> Result<MemoryHandle> {
        let mut mhandle = std::ptr::null_mut();
        let size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let _entered = self.place.memory.enter()?;
        let code = self.plugin.one_at_a_time(|entries| {
            // SAFETY: the comm is open. The caller vouches for the memory. The output is a valid
            // pointer.
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

    /// Takes a registration of this comm back.
    pub(super) fn deregister(&self, mhandle: MemoryHandle) {
        let _entered = self.place.memory.try_enter();
        // SAFETY: the comm gave out the handle, and the table of registrations has forgotten it.
        // The plugin takes a handle back even when its comm is closed by now.
        let code = self.plugin.one_at_a_time(|entries| unsafe {
            (entries.dereg_mr)(self.raw.as_ptr(), mhandle.0.as_ptr())
        });
        if let Err(error) = self.place.check("deregMr", code, Phase::Register) {
            tracing::warn!(%error, "memory stays known to the plugin");
        }
    }

    /// Deregisters what was left for after the close.
    pub(super) fn deregister_left(&mut self) {
        for mhandle in std::mem::take(&mut self.registered) {
            self.deregister(mhandle);
        }
    }

    /// The error of a call that succeeded without its output.
    pub(super) fn null_output(&self, call: &'static str, phase: Phase) -> Error {
        self.place.failure(call, NcclResult::INTERNAL_ERROR, phase)
    }
}

/// A comm with which memory can be registered.
pub(crate) trait Registrar {
    /// Makes memory known to this comm.
    ///
    /// # Safety
    /// `data..data + bytes` stays valid memory of kind `ptr_type` until
    /// [`deregister`](Self::deregister).
    unsafe fn register(&self, data: u64, bytes: u32, ptr_type: c_int) -> Result<MemoryHandle>;

    /// Takes back what `register` of this comm gave out.
    fn deregister(&self, mhandle: MemoryHandle);
}
