#![allow(unsafe_code)]
//! Streams: queues of copies and launches that a GPU works off in order.

use std::ptr;

use cudarc::driver::sys::{self, CUstream, CUstream_flags};

use crate::driver::{CudaError, done, ok};
use crate::gpu::CudaGpu;

/// Stream that does not wait for the default stream, nor the default stream for it.
///
/// Call its methods and a launch while the GPU is [entered](CudaGpu::enter).
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

    /// Queues a write of `value` to the word at `address`. A thread that reads the value there also
    /// sees what was queued before. The driver is that of CUDA 12.0 or newer.
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Safety
    /// `address` is the device address of four aligned bytes
    /// in pinned memory. They stay there until the stream has worked off the write, and until then
    /// the host only reads them, atomically.
    pub(crate) unsafe fn write_word(&self, address: u64, value: u32) -> Result<(), CudaError> {
        // Behind a barrier for all that was queued before.
        let flags = sys::CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT as u32;
        // SAFETY: the caller vouches for the word; the stream is alive.
        let status = unsafe { sys::cuStreamWriteValue32_v2(self.raw, address, value, flags) };
        ok("cuStreamWriteValue32", status)
    }

    /// Returns whether everything queued has been done. A failure of the GPU shows here.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn is_idle(&self) -> Result<bool, CudaError> {
        // SAFETY: the stream is alive.
        done("cuStreamQuery", unsafe { sys::cuStreamQuery(self.raw) })
    }

    /// Does the same while the GPU need not be entered.
    pub(crate) fn is_idle_from_anywhere(&self) -> Result<bool, CudaError> {
        let _entered = self.gpu.enter()?;
        self.is_idle()
    }

    /// Returns whether no work on the stream uses memory any more. Never blocks. The GPU need not
    /// be entered.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_idle_from_anywhere().unwrap_or_else(|error| !is_refused_for_now(&error))
    }
}

/// Returns whether an error is about the call, and not about the context. Any other error means
/// that the context is gone or broken, and its work with it.
fn is_refused_for_now(error: &CudaError) -> bool {
    // While the program captures a graph, the driver refuses calls: CUDA_ERROR_STREAM_CAPTURE_*.
    matches!(error, CudaError::Call { code: 900..=908, .. })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_context_is_over_and_a_refused_call_is_not() {
        let failed = |code| CudaError::Call { call: "cuStreamQuery", code, name: String::new() };
        for (code, is_refused) in [(700, false), (709, false), (719, false), (900, true)] {
            assert_eq!(is_refused_for_now(&failed(code)), is_refused, "{code}");
        }
        assert!(!is_refused_for_now(&CudaError::NoDriver));
    }
}
