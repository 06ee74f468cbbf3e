#![allow(unsafe_code)]
//! The driver itself, and its GPUs.

use std::ffi::{c_char, c_int, c_uint};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUresult};

use crate::export::is_supported;
use crate::gpu::{gpu, gpus};
use crate::status::{Result, answer, initialise, put};

/// CUDA 12.2.
const VERSION: c_int = 12_020;

/// What a GPU of this driver says of itself. What is not here is not known.
const ATTRIBUTES: &[(CUdevice_attribute, c_int)] = &[
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1),
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1),
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8),
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0),
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
    // What a device has written is there for the GPU that owns the memory, in the order in which it
    // was written: nothing has to be flushed. So says an H100.
    (CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100),
];

/// Whether ranges of its memory have a dma-buf.
const DMA_BUF_SUPPORTED: u32 = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED as u32;

/// Node of the host that is nearest to every GPU.
const HOST_NODE: u32 = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID as u32;

/// Returns what `TCPX_FAKE_CUDA_HOST_NODE` says, or the first node.
fn host_node() -> c_int {
    let node = std::env::var("TCPX_FAKE_CUDA_HOST_NODE").ok();
    node.and_then(|node| node.parse().ok()).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> CUresult {
    if flags != 0 {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    if gpus().is_empty() {
        return CUresult::CUDA_ERROR_NO_DEVICE;
    }
    initialise();
    CUresult::CUDA_SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // SAFETY: the caller keeps the driver's contract.
    answer(|| unsafe { put(version, VERSION) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: the caller keeps the driver's contract.
    answer(|| unsafe { put(count, gpus().len() as c_int) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult {
    answer(|| {
        gpu(ordinal)?;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: u32,
    device: CUdevice,
) -> CUresult {
    answer(|| {
        gpu(device)?;
        let known = match attribute {
            DMA_BUF_SUPPORTED => Some(c_int::from(is_supported())),
            HOST_NODE => Some(host_node()),
            _ => ATTRIBUTES.iter().find(|it| it.0 as u32 == attribute).map(|it| it.1),
        };
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(value, known.ok_or(CUresult::CUDA_ERROR_NOT_SUPPORTED)?) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(
    name: *mut c_char,
    bytes: c_int,
    device: CUdevice,
) -> CUresult {
    answer(|| {
        gpu(device)?;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put_text(name, bytes, "TCPX fake GPU") }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(
    name: *mut c_char,
    bytes: c_int,
    device: CUdevice,
) -> CUresult {
    answer(|| {
        let ordinal = gpu(device)?.ordinal;
        // A PCI domain that no machine has.
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put_text(name, bytes, &format!("FA4E:{ordinal:02X}:00.0")) }
    })
}

/// Writes as much of a text as there is room for, and the 0 at its end.
///
/// # Safety
/// `to` is valid for writes of `bytes` bytes.
unsafe fn put_text(to: *mut c_char, bytes: c_int, text: &str) -> Result<()> {
    let room = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_sub(1));
    let room = room.filter(|_| !to.is_null()).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let length = text.len().min(room);
    // SAFETY: the caller vouches for `bytes` bytes, and one byte of them is left for the 0.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), length);
        to.add(length).write(0);
    }
    Ok(())
}
