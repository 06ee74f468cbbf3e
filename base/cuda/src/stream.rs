#![allow(unsafe_code)]
//! Streams: queues of copies and launches that a GPU works off in order.

use std::ptr;

use cudarc::driver::sys::{self, CUstream, CUstream_flags};

use crate::driver::{CudaError, done, ok};
use crate::event::Event;
use crate::gpu::CudaGpu;

/// Stream that does not wait for the default stream, nor the default stream for it.
///
/// Call its methods, those of [`Event`] and a launch while the GPU is [entered](CudaGpu::enter).
#[derive(Debug)]
pub struct Stream {
    gpu: CudaGpu,
    raw: CUstream,
}

// SAFETY: a stream is a handle that the driver allows every thread to use at any time.
unsafe impl Send for Stream {}
// SAFETY: as above; the handle never changes.
unsafe impl Sync for Stream {}

impl Stream {
    /// Makes a stream of this GPU.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        let _entered = gpu.enter()?;
        let mut raw = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current; the driver writes one stream, which drop destroys.
        ok("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut raw, flags) })?;
        Ok(Self { gpu: gpu.clone(), raw })
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Queues a copy between any two memories that the driver knows or can find out about.
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Safety
    /// `src..src + bytes` stays readable and `dst..dst + bytes` writable until the stream has
    /// worked off the copy. Until then nothing writes the source, and nothing else uses the
    /// destination.
    pub unsafe fn copy(&self, dst: u64, src: u64, bytes: u64) -> Result<(), CudaError> {
        // SAFETY: the caller vouches for both memories; the stream is alive.
        let status = unsafe { sys::cuMemcpyAsync(dst, src, bytes as usize, self.raw) };
        ok("cuMemcpyAsync", status)
    }

    /// Queues a mark; the event is done when everything queued before has been done.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn record(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: event and stream are alive, and both belong to this GPU's context.
        ok("cuEventRecord", unsafe { sys::cuEventRecord(event.raw(), self.raw) })
    }

    /// Returns whether everything queued has been done. A failure of the GPU shows here.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn is_idle(&self) -> Result<bool, CudaError> {
        // SAFETY: the stream is alive.
        done("cuStreamQuery", unsafe { sys::cuStreamQuery(self.raw) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let destroyed = self.gpu.enter().and_then(|_entered| {
            // SAFETY: new() made this stream, which has no other owner. Work still queued is done
            // first; the call does not wait for it.
            ok("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(self.raw) })
        });
        if let Err(error) = destroyed {
            tracing::debug!(%error, "a stream was not destroyed");
        }
    }
}
