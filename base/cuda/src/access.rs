#![allow(unsafe_code)]
//! What the driver knows about an address.

use cudarc::driver::sys::{self, CUmemAccess_flags, CUmemorytype, CUpointer_attribute, CUresult};

use crate::driver::{CudaError, ok};
use crate::extent::PAGE_BYTES;
use crate::gpu::CudaGpu;

/// The right to read, in the driver's bit mask of access rights.
const READ: u32 = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ as u32;
/// The rights to read and to write.
const READ_AND_WRITE: u32 = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as u32;

/// Whether a kernel on `gpu` may read all of `address..address + bytes`.
///
/// A kernel that reads what it may not destroys the context and everybody's work in it, so this is
/// asked first. Memory that the driver does not know, ordinary host memory for one, is not
/// readable; neither is an imported range that was mapped without access. Another GPU's memory
/// counts as not readable: the driver grants access to it even while peer access, which cannot be
/// asked for, is off. The driver's copies can reach some of that all the same. Both ends are
/// looked at, not what lies between; an answer takes less than 1 µs.
///
/// # Errors
/// The driver's error.
pub fn is_readable(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    permits(gpu, address, bytes, READ)
}

/// Whether a kernel on `gpu` may read and write all of `address..address + bytes`.
///
/// A range that was mapped for reading only is readable and not writable; what writes there
/// destroys the context. What counts as the GPU's is as for [`is_readable`], and so is what is
/// looked at.
///
/// # Errors
/// The driver's error.
pub fn is_writable(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    permits(gpu, address, bytes, READ_AND_WRITE)
}

/// Whether `gpu` has all of these rights at both ends of a range.
fn permits(gpu: &CudaGpu, address: u64, bytes: u64, rights: u32) -> Result<bool, CudaError> {
    let _entered = gpu.enter()?;
    for at in [address, address.saturating_add(bytes.saturating_sub(1))] {
        let access = pointer_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at)?;
        if access.is_none_or(|access| access & rights != rights) {
            return Ok(false);
        }
        let owner =
            pointer_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at)?;
        let on_a_gpu = memory_type(at)? == Some(CUmemorytype::CU_MEMORYTYPE_DEVICE as u32);
        if on_a_gpu && owner != Some(gpu.ordinal()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `address` is host memory, as the driver sees it. Memory that it does not know counts as
/// host memory.
///
/// # Errors
/// The driver's error.
pub fn is_host_memory(gpu: &CudaGpu, address: u64) -> Result<bool, CudaError> {
    let _entered = gpu.enter()?;
    let kind = memory_type(address)?;
    Ok(kind.is_none_or(|kind| kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32))
}

/// Whether `address` is memory of a GPU, managed memory included.
///
/// # Errors
/// The driver's error.
pub fn is_device_memory(gpu: &CudaGpu, address: u64) -> Result<bool, CudaError> {
    let _entered = gpu.enter()?;
    Ok(memory_type(address)? == Some(CUmemorytype::CU_MEMORYTYPE_DEVICE as u32))
}

/// Whether a range that was rounded out to whole pages is memory of a GPU.
///
/// What lies before the allocation, in its first page, is no memory that the driver knows. So the
/// first address there that it knows decides; allocations begin at multiples of 256 bytes. A range
/// that the driver does not know at all is the host's.
///
/// # Errors
/// The driver's error.
pub fn is_device_range(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    /// What the driver's allocations are aligned to.
    const STEP: u64 = 256;
    let _entered = gpu.enter()?;
    let end = address.saturating_add(bytes.min(PAGE_BYTES));
    let mut at = address;
    while at < end {
        if let Some(kind) = memory_type(at)? {
            return Ok(kind == CUmemorytype::CU_MEMORYTYPE_DEVICE as u32);
        }
        at = (at / STEP + 1).saturating_mul(STEP);
    }
    Ok(false)
}

/// The address by which the host reads what a kernel reads at `address`: pinned memory has one, the
/// GPU's own memory has none.
///
/// # Errors
/// The driver's error.
pub fn host_alias(gpu: &CudaGpu, address: u64) -> Result<Option<u64>, CudaError> {
    let _entered = gpu.enter()?;
    let alias = long_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, address)?;
    Ok(alias.filter(|&alias| alias != 0))
}

/// The address after the last byte of the allocation that `address` lies in; `None` for memory that
/// the driver does not know.
///
/// # Errors
/// The driver's error.
pub fn allocation_end(gpu: &CudaGpu, address: u64) -> Result<Option<u64>, CudaError> {
    let _entered = gpu.enter()?;
    let start =
        long_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address)?;
    let bytes = long_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)?;
    let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
    Ok(end.filter(|&end| end > address))
}

/// A 64-bit attribute, or `None` for an address that the driver does not know or that has none.
fn long_attribute(attribute: CUpointer_attribute, address: u64) -> Result<Option<u64>, CudaError> {
    let mut value = 0_u64;
    // SAFETY: the attributes asked for here are pointers and sizes, 64 bits each. The driver looks
    // the address up and does not touch it.
    let status = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) };
    if status == CUresult::CUDA_ERROR_INVALID_VALUE {
        return Ok(None);
    }
    ok("cuPointerGetAttribute", status)?;
    Ok(Some(value))
}

fn memory_type(address: u64) -> Result<Option<u32>, CudaError> {
    pointer_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
}

/// The attribute, or `None` for an address that the driver does not know.
fn pointer_attribute(
    attribute: CUpointer_attribute,
    address: u64,
) -> Result<Option<u32>, CudaError> {
    let mut value = 0_u32;
    // SAFETY: the attributes asked for here are 32-bit integers. The driver looks the address up
    // and does not touch it.
    let status = unsafe { sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address) };
    if status == CUresult::CUDA_ERROR_INVALID_VALUE {
        return Ok(None);
    }
    ok("cuPointerGetAttribute", status)?;
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceBuffer, PinnedBuffer, ReadOnlyMapping, test_gpu};

    #[test]
    fn addresses_are_told_apart() {
        let Some(gpu) = test_gpu() else { return };
        let device = DeviceBuffer::new(&gpu, 8192).unwrap();
        let pinned = PinnedBuffer::new(&gpu, 8192).unwrap();
        let ordinary = Box::new([0_u8; 64]);
        let ordinary = ordinary.as_ptr().addr() as u64;
        let on_gpu = [device.address(), pinned.address(), ordinary];
        assert_eq!(on_gpu.map(|at| is_device_memory(&gpu, at).unwrap()), [true, false, false]);
        assert_eq!(on_gpu.map(|at| is_host_memory(&gpu, at).unwrap()), [false, true, true]);
        assert_eq!(
            on_gpu.map(|at| host_alias(&gpu, at + 8).unwrap()),
            [None, Some(pinned.address() + 8), None]
        );
        let alias = pinned.device_address() + 8;
        assert_eq!(host_alias(&gpu, alias).unwrap(), Some(pinned.address() + 8));
        for (at, bytes, expected) in [
            (device.address(), 8192, true),
            (device.address() & !4095, 8192, true),
            (device.address() + 100, 1, true),
            (device.address(), 0, false),
            (pinned.address(), 8192, false),
            (ordinary, 64, false),
        ] {
            assert_eq!(is_device_range(&gpu, at, bytes).unwrap(), expected, "{bytes} at {at:#x}");
        }
        let end = allocation_end(&gpu, device.address() + 100).unwrap().unwrap();
        assert!(end >= device.address() + device.bytes());
        assert_eq!(allocation_end(&gpu, ordinary).unwrap(), None);
    }

    #[test]
    fn a_mapping_for_reading_is_readable_and_not_writable() {
        let Some(gpu) = test_gpu() else { return };
        let mapping = ReadOnlyMapping::new(&gpu, 8192).unwrap();
        let device = DeviceBuffer::new(&gpu, 8192).unwrap();
        let pinned = PinnedBuffer::new(&gpu, 8192).unwrap();
        let ordinary = Box::new([0_u8; 64]);
        let ordinary = ordinary.as_ptr().addr() as u64;
        let all = [mapping.address(), device.address(), pinned.address(), ordinary];
        assert_eq!(all.map(|at| is_readable(&gpu, at, 64).unwrap()), [true, true, true, false]);
        assert_eq!(all.map(|at| is_writable(&gpu, at, 64).unwrap()), [false, true, true, false]);
        // An end past the allocation counts too.
        assert!(!is_writable(&gpu, device.address(), 1 << 40).unwrap());
    }
}
