#![allow(unsafe_code)]
//! Events: marks in a stream that the host can query.

use std::ptr;

use cudarc::driver::sys::{self, CUevent, CUevent_flags};

use crate::driver::{CudaError, done, ok};
use crate::gpu::CudaGpu;

/// Event without a time, which makes recording it cheap.
#[derive(Debug)]
pub struct Event {
    gpu: CudaGpu,
    raw: CUevent,
}

// SAFETY: an event is a handle that the driver allows every thread to use at any time.
unsafe impl Send for Event {}

impl Event {
    /// Makes an event of this GPU.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        let _entered = gpu.enter()?;
        let mut raw = ptr::null_mut();
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: a context is current; the driver writes one event, which drop destroys.
        ok("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut raw, flags) })?;
        Ok(Self { gpu: gpu.clone(), raw })
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }

    /// Returns whether the work before the last record has been done. A failure of the GPU shows
    /// here.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn is_done(&self) -> Result<bool, CudaError> {
        // SAFETY: the event is alive.
        done("cuEventQuery", unsafe { sys::cuEventQuery(self.raw) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let destroyed = self.gpu.enter().and_then(|_entered| {
            // SAFETY: new() made this event, which has no other owner.
            ok("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(self.raw) })
        });
        if let Err(error) = destroyed {
            tracing::debug!(%error, "an event was not destroyed");
        }
    }
}
