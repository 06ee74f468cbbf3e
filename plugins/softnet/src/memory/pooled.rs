#![allow(unsafe_code)]
//! Buffers that comms of a GPU use one after the other.
//!
//! The driver frees GPU memory and pinned memory when all work of the GPU has ended, also that of
//! the application. The thread that closes a comm would wait for this. So the buffers of a closed
//! comm are kept for comms to come, up to a limit for the process; only those beyond the limit are
//! freed.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::PoisonError;

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, PinnedBuffer};

use super::idle_buffers::IdleBuffers;
use crate::sync::Mutex;

/// Most bytes of pinned memory that are kept: as much as 128 channels send from.
const KEPT_PINNED_BYTES: u64 = 1 << 30;
/// Most bytes of GPU memory that are kept, over all GPUs.
const KEPT_DEVICE_BYTES: u64 = 64 << 20;

static PINNED: Mutex<IdleBuffers<PinnedBuffer>> = Mutex::new(IdleBuffers::new(KEPT_PINNED_BYTES));
static DEVICE: Mutex<IdleBuffers<DeviceBuffer>> = Mutex::new(IdleBuffers::new(KEPT_DEVICE_BYTES));

/// Kind of buffer.
pub(crate) trait GpuBuffer: Sized + fmt::Debug + 'static {
    /// Makes a buffer of at least `bytes` bytes.
    fn make(gpu: &CudaGpu, bytes: u64) -> Result<Self, CudaError>;

    /// Returns the store of idle buffers of this kind.
    fn idle() -> &'static Mutex<IdleBuffers<Self>>;
}

impl GpuBuffer for PinnedBuffer {
    fn make(gpu: &CudaGpu, bytes: u64) -> Result<Self, CudaError> {
        Self::new(gpu, bytes)
    }

    fn idle() -> &'static Mutex<IdleBuffers<Self>> {
        &PINNED
    }
}

impl GpuBuffer for DeviceBuffer {
    fn make(gpu: &CudaGpu, bytes: u64) -> Result<Self, CudaError> {
        Self::new(gpu, bytes)
    }

    fn idle() -> &'static Mutex<IdleBuffers<Self>> {
        &DEVICE
    }
}

/// Buffer that is kept for others when it is dropped. Nothing may touch it any more then.
///
/// Its content is what its last user left.
#[derive(Debug)]
pub(crate) struct Pooled<B: GpuBuffer> {
    buffer: ManuallyDrop<B>,
    gpu: u32,
    bytes: u64,
}

impl<B: GpuBuffer> Pooled<B> {
    /// Returns a buffer of at least `bytes` bytes: a kept one, or a new one.
    pub(crate) fn new(gpu: &CudaGpu, bytes: u64) -> Result<Self, CudaError> {
        let mut idle = B::idle().lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.take(gpu.ordinal(), bytes);
        // The driver may take its time, so the lock is released first.
        drop(idle);
        let buffer = kept.map_or_else(|| B::make(gpu, bytes), Ok)?;
        Ok(Self { buffer: ManuallyDrop::new(buffer), gpu: gpu.ordinal(), bytes })
    }
}

impl<B: GpuBuffer> Drop for Pooled<B> {
    fn drop(&mut self) {
        // SAFETY: taken only here, and not used afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut self.buffer) };
        let mut idle = B::idle().lock().unwrap_or_else(PoisonError::into_inner);
        let too_much = idle.put(self.gpu, self.bytes, buffer);
        drop(idle);
        drop(too_much);
    }
}

impl<B: GpuBuffer> Deref for Pooled<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.buffer
    }
}

impl<B: GpuBuffer> AsRef<B> for Pooled<B> {
    fn as_ref(&self) -> &B {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_not_freed() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        // Sizes that no other test in this process asks for.
        let addresses = || {
            let pinned = Pooled::<PinnedBuffer>::new(&gpu, 12_345).expect("there is room");
            let device = Pooled::<DeviceBuffer>::new(&gpu, 12_345).expect("there is room");
            [pinned.address(), device.address()]
        };
        let first = addresses();
        assert_eq!(addresses(), first);
        let held = Pooled::<PinnedBuffer>::new(&gpu, 12_345).expect("there is room");
        assert_eq!(held.address(), first[0]);
        assert_ne!(addresses()[0], first[0], "one user at a time");
    }
}
