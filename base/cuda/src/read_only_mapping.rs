#![allow(unsafe_code)]
//! Memory that a GPU may read and not write, for tests.

use std::mem::MaybeUninit;

use cudarc::driver::sys::{
    self, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationProp, CUmemAllocationType, CUmemLocation, CUmemLocationType,
};

use crate::driver::{CudaError, ok};
use crate::gpu::CudaGpu;

/// GPU memory that is mapped for its kernels to read only, as another process may map what it
/// imports.
#[derive(Debug)]
pub struct ReadOnlyMapping {
    gpu: CudaGpu,
    address: u64,
    bytes: usize,
    /// The allocation, once it is made.
    handle: Option<sys::CUmemGenericAllocationHandle>,
    is_mapped: bool,
}

impl ReadOnlyMapping {
    /// Maps at least `bytes` bytes.
    ///
    /// # Errors
    /// Returns [`CudaError::OutOfBounds`] for 0 bytes or more than can be addressed, or the
    /// driver's error.
    pub fn new(gpu: &CudaGpu, bytes: usize) -> Result<Self, CudaError> {
        let _entered = gpu.enter()?;
        let location = CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: gpu.ordinal() as i32,
        };
        // SAFETY: a struct of numbers and a pointer, for which zero is what the driver wants in
        // members that are not used.
        let mut what = unsafe { MaybeUninit::<CUmemAllocationProp>::zeroed().assume_init() };
        what.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location = location;
        let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let mut granularity = 0;
        // SAFETY: a context is current; the driver reads one struct and writes one number.
        let status = unsafe {
            sys::cuMemGetAllocationGranularity(&raw mut granularity, &raw const what, least)
        };
        ok("cuMemGetAllocationGranularity", status)?;
        let impossible = CudaError::OutOfBounds { offset: 0, len: bytes as u64, bytes: 0 };
        let whole = bytes.checked_next_multiple_of(granularity.max(1));
        let bytes = whole.filter(|bytes| *bytes > 0).ok_or(impossible)?;
        let mut address = 0;
        // SAFETY: the driver writes one address; drop gives the range back.
        let status = unsafe { sys::cuMemAddressReserve(&raw mut address, bytes, 0, 0, 0) };
        ok("cuMemAddressReserve", status)?;
        // From here on, drop undoes each step.
        let mut mapping = Self { gpu: gpu.clone(), address, bytes, handle: None, is_mapped: false };
        let mut handle = 0;
        // SAFETY: the driver reads one struct and writes one handle, which drop releases.
        let status = unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const what, 0) };
        ok("cuMemCreate", status)?;
        mapping.handle = Some(handle);
        // SAFETY: the range is reserved, and as long as the allocation.
        ok("cuMemMap", unsafe { sys::cuMemMap(address, bytes, 0, handle, 0) })?;
        mapping.is_mapped = true;
        let reads =
            CUmemAccessDesc { location, flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ };
        // SAFETY: the range is mapped; the driver reads one struct.
        let status = unsafe { sys::cuMemSetAccess(address, bytes, &raw const reads, 1) };
        ok("cuMemSetAccess", status)?;
        Ok(mapping)
    }

    /// Returns the device address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl Drop for ReadOnlyMapping {
    fn drop(&mut self) {
        let Ok(_entered) = self.gpu.enter() else { return };
        if self.is_mapped {
            // SAFETY: new() mapped this range, and its user is done with it.
            let _ = unsafe { sys::cuMemUnmap(self.address, self.bytes) };
        }
        if let Some(handle) = self.handle.take() {
            // SAFETY: new() made this allocation; it is mapped nowhere any more.
            let _ = unsafe { sys::cuMemRelease(handle) };
        }
        // SAFETY: new() reserved this range, and nothing is mapped there any more.
        let _ = unsafe { sys::cuMemAddressFree(self.address, self.bytes) };
    }
}
