#![allow(unsafe_code)]
//! Stream that waits, for tests.

use cudarc::driver::sys;

use crate::driver::{CudaError, ok};
use crate::gpu::CudaGpu;
use crate::pinned_buffer::PinnedBuffer;
use crate::stream::Stream;

/// Stream whose work does not end before [`release`](Self::release), like that of a program's
/// kernel which waits for bytes to arrive. Work that waits for the whole GPU also waits for the
/// stream.
#[derive(Debug)]
pub struct HeldStream {
    gpu: CudaGpu,
    stream: Stream,
    flag: PinnedBuffer,
}

impl HeldStream {
    /// Makes a stream that is held from now on.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn new(gpu: &CudaGpu) -> Result<Self, CudaError> {
        let mut flag = PinnedBuffer::new(gpu, 4)?;
        flag.write(0, &[0; 4])?;
        let stream = Stream::new(gpu)?;
        let _entered = gpu.enter()?;
        let is_at_least = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
        // SAFETY: the flag is four bytes of pinned memory, which drop frees only after the stream
        // has gone on; the stream is alive.
        let status =
            unsafe { sys::cuStreamWaitValue32_v2(stream.raw(), flag.address(), 1, is_at_least) };
        ok("cuStreamWaitValue32", status)?;
        Ok(Self { gpu: gpu.clone(), stream, flag })
    }

    /// Returns the driver's handle, as a program has it.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.stream.raw().expose_provenance() as u64
    }

    /// Lets the stream go on.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn release(&mut self) -> Result<(), CudaError> {
        self.flag.write(0, &1_u32.to_le_bytes())
    }

    /// Returns whether the stream's work has ended.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn has_ended(&self) -> Result<bool, CudaError> {
        let _entered = self.gpu.enter()?;
        self.stream.is_idle()
    }
}

impl Drop for HeldStream {
    fn drop(&mut self) {
        let _ = self.release();
        // Freeing pinned memory waits for the GPU, and so for the stream.
    }
}
