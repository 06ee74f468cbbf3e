#![allow(unsafe_code)]
//! Host memory that a GPU can read and write.

use std::ptr::{self, NonNull};

use cudarc::driver::sys;

use crate::driver::{CudaError, ok};
use crate::extent::{check_range, whole_pages};
use crate::gpu::CudaGpu;
use crate::near_gpu::NearGpu;

/// Owned, page-locked host memory, mapped into every GPU. Copies and kernels take the address that
/// the host uses; GPUs may have an alias of their own for the memory.
///
/// The memory starts out zeroed and consists of whole pages. It lies on the NUMA node that is
/// nearest to the GPU, unless that has no room, or the thread that makes it has a memory policy of
/// its own.
#[derive(Debug)]
pub struct PinnedBuffer {
    gpu: CudaGpu,
    first: NonNull<u8>,
    device: u64,
    bytes: u64,
}

// SAFETY: the buffer owns its memory, which no thread is tied to.
unsafe impl Send for PinnedBuffer {}
// SAFETY: shared references only read, or hand out addresses and raw pointers, whose use is unsafe.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocates at least `bytes` zeroed bytes, rounded up to whole pages of
    /// [`PAGE_BYTES`](crate::PAGE_BYTES).
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`] for 0 bytes or for more than can be addressed, or
    /// [`CudaError::Call`] when the host has no room or the GPU cannot map host memory.
    pub fn new(gpu: &CudaGpu, bytes: u64) -> Result<Self, CudaError> {
        let bytes = whole_pages(bytes)?;
        let _entered = gpu.enter()?;
        let _near = NearGpu::begin(gpu);
        let mut first = ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current; the driver writes one pointer, which drop frees.
        let status = unsafe { sys::cuMemHostAlloc(&raw mut first, bytes as usize, flags) };
        ok("cuMemHostAlloc", status)?;
        let Some(first) = NonNull::new(first.cast::<u8>()) else {
            return Err(CudaError::OutOfBounds { offset: 0, len: bytes, bytes: 0 });
        };
        // SAFETY: the allocation is `bytes` long and has no other user yet.
        unsafe { first.write_bytes(0, bytes as usize) };
        let mut buffer = Self { gpu: gpu.clone(), first, device: 0, bytes };
        // SAFETY: the driver has just mapped this memory for GPUs; it writes one address. An error
        // drops the buffer, which frees it.
        let status = unsafe {
            sys::cuMemHostGetDevicePointer_v2(&raw mut buffer.device, first.as_ptr().cast(), 0)
        };
        ok("cuMemHostGetDevicePointer", status)?;
        // Copies and kernels are given the host's address, which is valid for them under unified
        // addressing: every 64-bit Linux driver.
        first.as_ptr().expose_provenance();
        Ok(buffer)
    }

    /// Returns the address of the first byte, for the host and for every GPU; a multiple of
    /// [`PAGE_BYTES`](crate::PAGE_BYTES).
    #[must_use]
    pub fn address(&self) -> u64 {
        self.first.as_ptr().addr() as u64
    }

    /// Returns the address at which GPUs see the first byte: [`address`](Self::address), or another
    /// address where the CPU must not access it.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        self.device
    }

    /// Returns a pointer to the first byte. The caller is responsible for races with the GPU and
    /// with other users of the buffer.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.first.as_ptr()
    }

    /// Returns the size in bytes, a multiple of [`PAGE_BYTES`](crate::PAGE_BYTES).
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes `source` at `offset`.
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`].
    pub fn write(&mut self, offset: u64, source: &[u8]) -> Result<(), CudaError> {
        check_range(offset, source.len() as u64, self.bytes)?;
        // SAFETY: the range is checked, and `&mut self` keeps other writers and readers of this
        // process out; `source` cannot lie in memory that no slice was ever made of.
        unsafe {
            let to = self.first.add(offset as usize).as_ptr();
            ptr::copy_nonoverlapping(source.as_ptr(), to, source.len());
        }
        Ok(())
    }

    /// Reads from `offset` into `destination`. Bytes that a GPU is writing meanwhile are read as
    /// they are at that moment.
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`].
    pub fn read(&self, offset: u64, destination: &mut [u8]) -> Result<(), CudaError> {
        check_range(offset, destination.len() as u64, self.bytes)?;
        // SAFETY: the range is checked; writers in this process need `&mut self`.
        unsafe {
            let from = self.first.add(offset as usize).as_ptr();
            ptr::copy_nonoverlapping(from, destination.as_mut_ptr(), destination.len());
        }
        Ok(())
    }
}

impl AsRef<Self> for PinnedBuffer {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let freed = self.gpu.enter().and_then(|_entered| {
            // SAFETY: new() made this allocation and it is freed only here. The driver waits for
            // work that still uses it.
            ok("cuMemFreeHost", unsafe { sys::cuMemFreeHost(self.first.as_ptr().cast()) })
        });
        if let Err(error) = freed {
            tracing::debug!(%error, bytes = self.bytes, "pinned memory was not freed");
        }
    }
}
