//! Kind of device memory on a comm: ordinary memory that stands in for it, or memory of a GPU.

use std::str::FromStr;
use std::sync::PoisonError;

use tcpx_cuda::{CudaError, CudaGpu};

use crate::failure::Failure;
use crate::log;
use crate::parse_error::ParseError;
use crate::sync::Mutex;

/// Kind of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceMemory {
    /// CUDA memory where the thread that calls accept or regMr has a current CUDA context, ordinary
    /// memory elsewhere.
    #[default]
    Auto,
    /// Ordinary memory stands in for it; the driver is never asked.
    Emulated,
    /// CUDA memory of the calling thread's current GPU, or of GPU 0 when it has none.
    Cuda,
}

impl FromStr for DeviceMemory {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        match word {
            "auto" => Ok(Self::Auto),
            "emulated" => Ok(Self::Emulated),
            "cuda" => Ok(Self::Cuda),
            _ => Err(ParseError::new("auto, emulated or cuda")),
        }
    }
}

/// Place of the bounce region for a GPU. Emulated device memory has an ordinary region. Where a NIC
/// receives into the region, its transport decides the place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BounceMemory {
    /// Pinned host memory, which every GPU reads over PCIe: nothing is copied before the unpack.
    #[default]
    Host,
    /// The GPU's own memory, as in the original: received pages are copied up to it.
    Device,
}

impl FromStr for BounceMemory {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        match word {
            "host" => Ok(Self::Host),
            "device" => Ok(Self::Device),
            _ => Err(ParseError::new("host or device")),
        }
    }
}

/// Returns the GPU of a comm or registration that the calling thread makes; `None` for emulated
/// memory.
pub(crate) fn gpu_of_thread(entry: &str, kind: DeviceMemory) -> Result<Option<CudaGpu>, Failure> {
    let ordinal = ordinal_of_thread(entry, kind)?;
    ordinal.map(open).transpose().map_err(|error| cuda_failure(entry, &error))
}

/// Returns the ordinal of this GPU.
pub(crate) fn ordinal_of_thread(entry: &str, kind: DeviceMemory) -> Result<Option<u32>, Failure> {
    let current = match kind {
        DeviceMemory::Emulated => return Ok(None),
        DeviceMemory::Auto => CudaGpu::current_ordinal(),
        DeviceMemory::Cuda => {
            CudaGpu::current_ordinal().map(|ordinal| Some(ordinal.unwrap_or_default()))
        }
    };
    current.map_err(|error| cuda_failure(entry, &error))
}

/// Logs the driver's error.
pub(crate) fn cuda_failure(entry: &str, error: &CudaError) -> Failure {
    log::warn!("{entry}: CUDA: {error}");
    Failure::Cuda
}

/// Opens a GPU. To hold its context again costs a stream each time, so used contexts are kept.
fn open(ordinal: u32) -> Result<CudaGpu, CudaError> {
    static OPENED: Mutex<Vec<CudaGpu>> = Mutex::new(Vec::new());
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = opened.iter().find(|gpu| gpu.ordinal() == ordinal) {
        return Ok(gpu.clone());
    }
    let gpu = CudaGpu::open(ordinal)?;
    opened.push(gpu.clone());
    Ok(gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_a_context_gets_emulated_memory_by_default() {
        for kind in [DeviceMemory::Auto, DeviceMemory::Emulated] {
            assert!(gpu_of_thread("test", kind).expect("no error").is_none());
        }
        match (CudaGpu::count(), gpu_of_thread("test", DeviceMemory::Cuda)) {
            (Ok(1..), Ok(Some(gpu))) => assert_eq!(gpu.ordinal(), 0),
            (Ok(0) | Err(_), Err(failure)) => assert_eq!(failure, Failure::Cuda),
            other => panic!("{other:?}"),
        }
    }
}
