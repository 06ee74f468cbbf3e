#![allow(unsafe_code)]
//! Memory of a GPU.

use cudarc::driver::sys;

use crate::driver::{CudaError, ok};
use crate::extent::{PAGE_BYTES, check_range, whole_pages};
use crate::gpu::CudaGpu;

/// Owned memory of one GPU, in whole pages that start at a page boundary, as registrations need it.
///
/// The content is undefined until it is written. Copies wait until they are done; they do not wait
/// for other work on the same memory.
#[derive(Debug)]
pub struct DeviceBuffer {
    gpu: CudaGpu,
    allocation: u64,
    address: u64,
    bytes: u64,
}

impl DeviceBuffer {
    /// Allocates at least `bytes` bytes, rounded up to whole pages of [`PAGE_BYTES`].
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`] for 0 bytes or for more than can be addressed, or
    /// [`CudaError::Call`] when the GPU has no room.
    pub fn new(gpu: &CudaGpu, bytes: u64) -> Result<Self, CudaError> {
        let bytes = whole_pages(bytes)?;
        // One page more leaves room to start at a page boundary: the driver does not align small
        // allocations to pages.
        let allocated = bytes + PAGE_BYTES;
        let _entered = gpu.enter()?;
        let mut allocation = 0;
        // SAFETY: a context is current; the driver writes one address, which drop frees.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut allocation, allocated as usize) };
        ok("cuMemAlloc", status)?;
        let address = allocation.next_multiple_of(PAGE_BYTES);
        Ok(Self { gpu: gpu.clone(), allocation, address, bytes })
    }

    /// Returns the GPU that holds the memory.
    #[must_use]
    pub fn gpu(&self) -> &CudaGpu {
        &self.gpu
    }

    /// Returns the device address of the first byte, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the size in bytes, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies `source` to `offset` of the buffer, and returns when the copy is done.
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`], or the driver's error.
    pub fn copy_from_host(&self, offset: u64, source: &[u8]) -> Result<(), CudaError> {
        check_range(offset, source.len() as u64, self.bytes)?;
        // SAFETY: the range lies inside the allocation.
        unsafe { self.gpu.write(self.address + offset, source) }
    }

    /// Copies from `offset` of the buffer into `destination`, and returns when the copy is done.
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`], or the driver's error.
    pub fn copy_to_host(&self, offset: u64, destination: &mut [u8]) -> Result<(), CudaError> {
        check_range(offset, destination.len() as u64, self.bytes)?;
        // SAFETY: the range lies inside the allocation.
        unsafe { self.gpu.read(self.address + offset, destination) }
    }

    /// Sets every byte of the buffer to `value`, and returns when it is done.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn fill(&self, value: u8) -> Result<(), CudaError> {
        self.fill_range(0, value, self.bytes)
    }

    /// Sets `len` bytes from `offset` to `value`, and returns when it is done.
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`], or the driver's error.
    pub fn fill_range(&self, offset: u64, value: u8, len: u64) -> Result<(), CudaError> {
        check_range(offset, len, self.bytes)?;
        // SAFETY: the range lies inside the allocation.
        unsafe { self.gpu.fill(self.address + offset, value, len) }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let freed = self.gpu.enter().and_then(|_entered| {
            // SAFETY: new() made this allocation and it is freed only here. The driver waits for
            // work that still uses it.
            ok("cuMemFree", unsafe { sys::cuMemFree_v2(self.allocation) })
        });
        if let Err(error) = freed {
            tracing::debug!(%error, bytes = self.bytes, "device memory was not freed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PinnedBuffer;
    use crate::test_gpu;

    #[test]
    fn buffers_are_whole_pages_and_refuse_what_is_outside() {
        let Some(gpu) = test_gpu() else { return };
        let device = DeviceBuffer::new(&gpu, 5000).unwrap();
        let mut pinned = PinnedBuffer::new(&gpu, 5000).unwrap();
        assert_eq!((device.bytes(), device.address() % PAGE_BYTES), (8192, 0));
        assert_eq!((pinned.bytes(), pinned.address() % PAGE_BYTES), (8192, 0));

        device.fill(7).unwrap();
        device.copy_from_host(8190, &[1, 2]).unwrap();
        device.fill_range(8189, 9, 2).unwrap();
        let mut end = [0; 4];
        device.copy_to_host(8188, &mut end).unwrap();
        assert_eq!(end, [7, 9, 9, 2]);
        pinned.write(8190, &[1, 2]).unwrap();
        pinned.read(8188, &mut end).unwrap();
        assert_eq!(end, [0, 0, 1, 2]);

        let outside = Err(CudaError::OutOfBounds { offset: 8191, len: 2, bytes: 8192 });
        assert_eq!(device.copy_from_host(8191, &[1, 2]), outside);
        assert_eq!(device.copy_to_host(8191, &mut end[..2]), outside);
        assert_eq!(device.fill_range(8191, 0, 2), outside);
        assert_eq!(pinned.write(8191, &[1, 2]), outside);
        assert_eq!(pinned.read(8191, &mut end[..2]), outside);
        for impossible in [0, u64::MAX, u64::MAX - 5000] {
            assert!(DeviceBuffer::new(&gpu, impossible).is_err());
            assert!(PinnedBuffer::new(&gpu, impossible).is_err());
        }
    }
}
