#![allow(unsafe_code)]
//! Whether other devices can be given access to memory of a GPU.

use std::os::fd::{FromRawFd, OwnedFd};

use cudarc::driver::sys::{self, CUmemRangeHandleType, CUresult};

use crate::driver::{CudaError, ok};
use crate::gpu::CudaGpu;

/// The first driver that exports dma-bufs: that of CUDA 11.7.
const FIRST_VERSION: u32 = 11_070;

/// Whether the driver exports `bytes` bytes at `address` as a dma-buf, which network cards read
/// from. The driver is asked for one, which is closed again: 26 µs for 64 MiB on an H100.
///
/// Both numbers have to be multiples of [`PAGE_BYTES`](crate::PAGE_BYTES). The range must lie in
/// one allocation of the GPU. What lies around it in its first and last page need not, but a driver
/// may refuse that too. Host memory and managed memory are never exported.
///
/// # Errors
/// The driver's error, when it is not about the range.
pub fn is_exportable(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    if CudaGpu::driver_version()? < FIRST_VERSION {
        return Ok(false);
    }
    let _entered = gpu.enter()?;
    let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
    let mut file = -1;
    // SAFETY: a context is current; the driver looks the range up and does not touch it. It writes
    // one descriptor.
    let status = unsafe {
        sys::cuMemGetHandleForAddressRange((&raw mut file).cast(), address, bytes as usize, kind, 0)
    };
    let refusals = [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_NOT_SUPPORTED];
    if refusals.contains(&status) {
        return Ok(false);
    }
    ok("cuMemGetHandleForAddressRange", status)?;
    if file < 0 {
        return Ok(false);
    }
    // SAFETY: the driver has opened this descriptor for its caller, who closes it here.
    drop(unsafe { OwnedFd::from_raw_fd(file) });
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceBuffer, PAGE_BYTES, PinnedBuffer, ReadOnlyMapping, test_gpu};

    #[test]
    fn whole_pages_of_a_gpus_own_memory_are_exported_and_nothing_else() {
        let Some(gpu) = test_gpu() else { return };
        let device = DeviceBuffer::new(&gpu, 3 << 20).unwrap();
        let mapping = ReadOnlyMapping::new(&gpu, 8192).unwrap();
        let pinned = PinnedBuffer::new(&gpu, 8192).unwrap();
        let ordinary = vec![0_u8; 8192];
        let ordinary = (ordinary.as_ptr().addr() as u64).next_multiple_of(PAGE_BYTES);
        let at = device.address();
        for (address, bytes, expected) in [
            (at, device.bytes(), true),
            (at + PAGE_BYTES, PAGE_BYTES, true),
            (mapping.address(), PAGE_BYTES, true),
            (at + 512, PAGE_BYTES, false),
            (at, 1000, false),
            (at, 0, false),
            (at, 1 << 40, false),
            (pinned.address(), PAGE_BYTES, false),
            (ordinary, PAGE_BYTES, false),
            (0, PAGE_BYTES, false),
        ] {
            let exported = is_exportable(&gpu, address, bytes).unwrap();
            assert_eq!(exported, expected, "{bytes} bytes at {address:#x}");
        }
    }
}
