//! Check whether the original can register device memory.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use tcpx_cuda::{CudaError, CudaGpu};
use tcpx_softnet::DeviceMemory;
use tcpx_sys::UNPACK_PAGE_BYTES;

/// Whether CUDA exports it as a dma-buf: whole pages, and some, in memory of a GPU. Memory that
/// stands in for such memory would be exported.
pub(crate) fn is_exportable(address: usize, bytes: c_int, memory: DeviceMemory) -> bool {
    let bytes = u64::try_from(bytes).unwrap_or(0);
    let is_whole = bytes > 0 && bytes.is_multiple_of(UNPACK_PAGE_BYTES as u64);
    let gpu = current(memory);
    is_whole
        && gpu.is_ok_and(|gpu| {
            gpu.is_none_or(|gpu| {
                tcpx_cuda::is_exportable(&gpu, address as u64, bytes).unwrap_or(false)
            })
        })
}

/// The GPU that the plugin takes memory for, if it does.
fn current(memory: DeviceMemory) -> Result<Option<CudaGpu>, CudaError> {
    static OPENED: Mutex<Vec<CudaGpu>> = Mutex::new(Vec::new());
    let ordinal = match memory {
        DeviceMemory::Emulated => None,
        DeviceMemory::Cuda => Some(CudaGpu::current_ordinal()?.unwrap_or_default()),
        _ => CudaGpu::current_ordinal()?,
    };
    let Some(ordinal) = ordinal else { return Ok(None) };
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = opened.iter().find(|gpu| gpu.ordinal() == ordinal) {
        return Ok(Some(gpu.clone()));
    }
    let gpu = CudaGpu::open(ordinal)?;
    opened.push(gpu.clone());
    Ok(Some(gpu))
}
