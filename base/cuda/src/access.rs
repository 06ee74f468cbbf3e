#![allow(unsafe_code)]
//! Queries to the driver about an address.

use cudarc::driver::sys::{self, CUmemAccess_flags, CUmemorytype, CUpointer_attribute, CUresult};

use crate::driver::{CudaError, ok};
use crate::extent::PAGE_BYTES;
use crate::gpu::CudaGpu;

/// The right to read, in the driver's bit mask of access rights.
const READ: u32 = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ as u32;
/// The rights to read and to write.
const READ_AND_WRITE: u32 = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as u32;

/// Returns whether a kernel on `gpu` may read all of `address..address + bytes`.
///
/// A kernel that reads without the right destroys the context and all work in it, so callers check
/// first. Memory that the driver does not know, such as ordinary host memory, is not readable. An
/// imported range that was mapped without access is not readable either. Another GPU's memory
/// counts as not readable: the driver reports access to it even while peer access, which cannot be
/// queried, is off. The driver's copies can reach some of that memory all the same. Both ends are
/// checked, not what lies between; a query takes less than 1 µs.
///
/// # Errors
/// Returns the driver's error.
pub fn is_readable(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    permits(gpu, address, bytes, READ)
}

/// Returns whether a kernel on `gpu` may read and write all of `address..address + bytes`.
///
/// A range that was mapped for reading only is readable and not writable; a kernel that writes
/// there destroys the context. The rules for other GPUs and the checked addresses are those of
/// [`is_readable`].
///
/// # Errors
/// Returns the driver's error.
pub fn is_writable(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    permits(gpu, address, bytes, READ_AND_WRITE)
}

/// Returns whether `gpu` has all of these rights at both ends of a range.
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

/// Returns whether `address` is host memory, as the driver sees it. Memory that the driver does not
/// know counts as host memory.
///
/// # Errors
/// Returns the driver's error.
pub fn is_host_memory(gpu: &CudaGpu, address: u64) -> Result<bool, CudaError> {
    let _entered = gpu.enter()?;
    let kind = memory_type(address)?;
    Ok(kind.is_none_or(|kind| kind == CUmemorytype::CU_MEMORYTYPE_HOST as u32))
}

/// Returns whether `address` is memory of a GPU, managed memory included.
///
/// # Errors
/// Returns the driver's error.
pub fn is_device_memory(gpu: &CudaGpu, address: u64) -> Result<bool, CudaError> {
    let _entered = gpu.enter()?;
    Ok(memory_type(address)? == Some(CUmemorytype::CU_MEMORYTYPE_DEVICE as u32))
}

/// Returns the ordinal of the GPU that the memory at `address` belongs to, or `None` for memory
/// that the driver does not know. Pinned memory belongs to the GPU for which it was pinned.
///
/// A thread without a current context asks in that of GPU 0, which is made if it is not there.
///
/// # Errors
/// Returns the driver's error, and those of [`CudaGpu::open`].
pub fn ordinal_of(address: u64) -> Result<Option<u32>, CudaError> {
    let first = match CudaGpu::current_ordinal()? {
        Some(_) => None,
        None => Some(CudaGpu::open(0)?),
    };
    let _entered = first.as_ref().map(CudaGpu::enter).transpose()?;
    pointer_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address)
}

/// Returns whether a range that was rounded out to whole pages is memory of a GPU.
///
/// The driver does not know the part of the first page before the allocation. The first address
/// there that the driver knows therefore decides; allocations begin at multiples of 256 bytes. A
/// range that the driver does not know at all is the host's.
///
/// # Errors
/// Returns the driver's error.
pub fn is_device_range(gpu: &CudaGpu, address: u64, bytes: u64) -> Result<bool, CudaError> {
    /// Alignment of the driver's allocations.
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

/// Returns the address by which the host reads what a kernel reads at `address`. Pinned memory has
/// such an address, the GPU's own memory has none.
///
/// # Errors
/// Returns the driver's error.
pub fn host_alias(gpu: &CudaGpu, address: u64) -> Result<Option<u64>, CudaError> {
    let _entered = gpu.enter()?;
    let alias = long_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_HOST_POINTER, address)?;
    Ok(alias.filter(|&alias| alias != 0))
}

/// Returns the address after the last byte of the allocation that `address` lies in, or `None` for
/// memory that the driver does not know.
///
/// # Errors
/// Returns the driver's error.
pub fn allocation_end(gpu: &CudaGpu, address: u64) -> Result<Option<u64>, CudaError> {
    let _entered = gpu.enter()?;
    let start =
        long_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address)?;
    let bytes = long_attribute(CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address)?;
    let end = start.zip(bytes).and_then(|(start, bytes)| start.checked_add(bytes));
    Ok(end.filter(|&end| end > address))
}

/// Returns a 64-bit attribute, or `None` for an address that the driver does not know or that has
/// no such attribute.
fn long_attribute(attribute: CUpointer_attribute, address: u64) -> Result<Option<u64>, CudaError> {
    let mut value = 0_u64;
    // SAFETY: the requested attributes are pointers and sizes, 64 bits each. The driver looks the
    // address up and does not access it.
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

/// Returns the attribute, or `None` for an address that the driver does not know.
fn pointer_attribute(
    attribute: CUpointer_attribute,
    address: u64,
) -> Result<Option<u32>, CudaError> {
    let mut value = 0_u32;
    // SAFETY: the requested attributes are 32-bit integers. The driver looks the address up and
    // does not access it.
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
    fn addresses_of_each_kind_are_recognised() {
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
    fn memory_belongs_to_a_gpu_whatever_context_is_current() {
        let Some(gpu) = test_gpu() else { return };
        let ordinary = Box::new([0_u8; 64]);
        assert_eq!(ordinal_of(ordinary.as_ptr().addr() as u64), Ok(None));
        for ordinal in 0..CudaGpu::count().unwrap() {
            let owner = CudaGpu::open(ordinal).unwrap();
            let buffer = DeviceBuffer::new(&owner, 8192).unwrap();
            assert_eq!(ordinal_of(buffer.address() + 100), Ok(Some(ordinal)));
            let _entered = gpu.enter().unwrap();
            assert_eq!(ordinal_of(buffer.address()), Ok(Some(ordinal)));
        }
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
