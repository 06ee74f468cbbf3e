#![allow(unsafe_code)]
//! GPU memory that other devices can access.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use cudarc::driver::sys::{
    self, CUGPUDirectRDMAWritesOrdering, CUdevice_attribute, CUmemRangeHandleType, CUresult,
};

use crate::driver::{CudaError, name_of, ok};
use crate::extent::PAGE_BYTES;
use crate::gpu::CudaGpu;

/// First driver version that exports dma-bufs: that of CUDA 11.7.
const FIRST_VERSION: u32 = 11_070;
/// Ordering attribute: the GPU that owns the memory sees the writes of other devices in order.
const ORDERED_FOR_OWNER: u32 =
    CUGPUDirectRDMAWritesOrdering::CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER as u32;

/// Range of a GPU's memory as a dma-buf, which network cards read from and write to. Every holder
/// of the dma-buf or of a binding reaches the memory, also when the range was freed meanwhile.
#[derive(Debug)]
pub struct DmaBuf {
    file: OwnedFd,
}

impl DmaBuf {
    /// Exports `bytes` bytes at `address`: 26 µs for 64 MiB on an H100.
    ///
    /// Both numbers must be multiples of [`PAGE_BYTES`](crate::PAGE_BYTES). The range must lie in
    /// one allocation of the GPU. Its first and last page may extend beyond the allocation, but a
    /// driver may refuse that too. Host memory and managed memory are never exported.
    ///
    /// # Errors
    /// Returns [`CudaError::NoExport`] and [`CudaError::NotExported`], or the driver's error when
    /// it is not about the range.
    pub fn export(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<Self, CudaError> {
        check_version(gpu)?;
        let refused = |why: String| CudaError::NotExported { address, bytes, why };
        let is_whole = address.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
        if bytes == 0 || !is_whole {
            return Err(refused("it is no whole pages".to_owned()));
        }
        let _entered = gpu.enter()?;
        let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        let mut file = -1;
        let (to, length) = ((&raw mut file).cast(), bytes as usize);
        // SAFETY: a context is current; the driver looks the range up and does not access it. It
        // writes one descriptor.
        let status = unsafe { sys::cuMemGetHandleForAddressRange(to, address, length, kind, 0) };
        let refusals = [CUresult::CUDA_ERROR_INVALID_VALUE, CUresult::CUDA_ERROR_NOT_SUPPORTED];
        if refusals.contains(&status) {
            return Err(refused(name_of(status)));
        }
        ok("cuMemGetHandleForAddressRange", status)?;
        if file < 0 {
            return Err(refused("it gave no descriptor".to_owned()));
        }
        // SAFETY: the descriptor is open. Programs that this process starts must not inherit it.
        unsafe { libc::fcntl(file, libc::F_SETFD, libc::FD_CLOEXEC) };
        // SAFETY: the driver has opened this descriptor for its caller, which owns it now.
        Ok(Self { file: unsafe { OwnedFd::from_raw_fd(file) } })
    }
}

impl AsFd for DmaBuf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Checks whether network cards can be given memory of this GPU to write to and read from.
///
/// # Errors
/// Returns [`CudaError::NoExport`], or the driver's error.
pub fn check_exports(gpu: &CudaGpu) -> Result<(), CudaError> {
    check_version(gpu)?;
    let refused = |why| CudaError::NoExport { gpu: gpu.ordinal(), why };
    if gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)? == 0 {
        return Err(refused(
            "it exports no dma-bufs, which takes the driver's open kernel modules",
        ));
    }
    let ordering = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
    if gpu.attribute(ordering)? < ORDERED_FOR_OWNER {
        return Err(refused("what others write would have to be flushed before it is read"));
    }
    Ok(())
}

fn check_version(gpu: &CudaGpu) -> Result<(), CudaError> {
    match CudaGpu::driver_version()? {
        FIRST_VERSION.. => Ok(()),
        _ => {
            let why = "the driver is older than that of CUDA 11.7";
            Err(CudaError::NoExport { gpu: gpu.ordinal(), why })
        }
    }
}

/// Returns whether the driver exports this range. Exports a dma-buf and closes it again.
///
/// # Errors
/// Returns the driver's error, when it is not about the range.
pub fn is_exportable(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    match DmaBuf::export(gpu, address, bytes) {
        Ok(_) => Ok(true),
        Err(CudaError::NoExport { .. } | CudaError::NotExported { .. }) => Ok(false),
        Err(error) => Err(error),
    }
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

    #[test]
    fn an_export_is_a_descriptor_of_its_own_until_it_is_dropped() {
        use std::os::fd::AsRawFd;
        let Some(gpu) = test_gpu() else { return };
        check_exports(&gpu).unwrap();
        let device = DeviceBuffer::new(&gpu, 3 << 20).unwrap();
        let export = || DmaBuf::export(&gpu, device.address(), 2 << 20).unwrap();
        let (one, other) = (export(), export());
        let numbers = [one.as_fd().as_raw_fd(), other.as_fd().as_raw_fd()];
        assert!(numbers[0] >= 0 && numbers[0] != numbers[1]);
        // SAFETY: the call takes no memory.
        let flags = unsafe { libc::fcntl(numbers[0], libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        drop(one);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::fcntl(numbers[1], libc::F_GETFD) }, flags, "it is still there");
        let refused = DmaBuf::export(&gpu, device.address() + 1, 4096).unwrap_err();
        assert!(matches!(refused, CudaError::NotExported { .. }), "{refused}");
    }
}
