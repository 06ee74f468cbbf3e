#![allow(unsafe_code)]
//! Driver library: loading, and the meaning of its results.

use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUresult};

/// Reason of a failed CUDA operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The CUDA driver is not installed.
    #[error("no CUDA driver: libcuda.so.1 cannot be loaded")]
    NoDriver,
    /// The driver has no GPU of this number.
    #[error("there is no GPU {gpu}: the driver shows {count}")]
    NoSuchGpu {
        /// Requested ordinal.
        gpu: u32,
        /// Number of GPUs.
        count: u32,
    },
    /// The driver is too old.
    #[error("the driver is that of CUDA {}, and CUDA {} is needed", cuda(*.version), cuda(*.needed))]
    OldDriver {
        /// Newest CUDA version that the driver supports, as 1000 × major + 10 × minor.
        version: u32,
        /// The first that is enough.
        needed: u32,
    },
    /// The driver refused a call.
    #[error("{call} failed with {name} ({code})")]
    Call {
        /// Name of the driver function.
        call: &'static str,
        /// The driver's `CUresult`.
        code: u32,
        /// The driver's name for that code.
        name: String,
    },
    /// A copy or fill reaches outside its buffer, or a buffer of this size cannot exist.
    #[error("{len} bytes at offset {offset} reach outside a buffer of {bytes} bytes")]
    OutOfBounds {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Size of the buffer in bytes.
        bytes: u64,
    },
    /// The GPU has no memory that other devices can be given.
    #[error("GPU {gpu} cannot share memory with other devices: {why}")]
    NoExport {
        /// The GPU's ordinal.
        gpu: u32,
        /// Missing support of the GPU or its driver.
        why: &'static str,
    },
    /// Other devices cannot be given this memory.
    #[error("the driver cannot export {bytes} bytes at {address:#x} as a dma-buf: {why}")]
    NotExported {
        /// First byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The driver's answer, or what is wrong.
        why: String,
    },
    /// GPUs cannot be given this memory of the host.
    #[error("the driver cannot register {bytes} bytes at {address:#x}: {why}")]
    NotRegistered {
        /// First byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The driver's answer, or what is wrong.
        why: String,
    },
    /// The GPU did not finish in time. Memory that it still uses is never freed.
    #[error("the GPU has not finished after {waited_ms} ms")]
    Stalled {
        /// Time waited, in milliseconds.
        waited_ms: u64,
    },
}

/// Returns the usual spelling of a CUDA version.
fn cuda(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl CudaError {
    /// Returns whether the driver is installed and shows no GPU to this process.
    pub(crate) fn is_without_gpus(&self) -> bool {
        const NO_DEVICE: u32 = CUresult::CUDA_ERROR_NO_DEVICE as u32;
        matches!(self, Self::Call { code: NO_DEVICE, .. })
    }
}

/// Loads and initialises the driver, once per process.
pub(crate) fn load() -> Result<(), CudaError> {
    static LOADED: OnceLock<Result<(), CudaError>> = OnceLock::new();
    LOADED
        .get_or_init(|| {
            // SAFETY: loading libcuda runs its initialisers, which have no preconditions. This
            // check must come first: every other function panics without the library.
            if !unsafe { sys::is_culib_present() } {
                return Err(CudaError::NoDriver);
            }
            // SAFETY: cuInit may be called at any time, from any thread; 0 is its only flag.
            ok("cuInit", unsafe { sys::cuInit(0) })
        })
        .clone()
}

/// Returns whether some code in this process has loaded the driver library already.
pub(crate) fn is_loaded() -> bool {
    // SAFETY: the name ends with 0; RTLD_NOLOAD runs no initialiser. The library is never unloaded
    // again, so the count that a hit adds does no harm.
    let library =
        unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    !library.is_null()
}

/// Converts the result of the driver function `call` into a `Result`.
pub(crate) fn ok(call: &'static str, result: CUresult) -> Result<(), CudaError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(CudaError::Call { call, code: result as u32, name: name_of(result) })
}

/// Converts like [`ok`], where "not ready" is an answer and no error. Returns whether the work is
/// done.
pub(crate) fn done(call: &'static str, result: CUresult) -> Result<bool, CudaError> {
    if result == CUresult::CUDA_ERROR_NOT_READY {
        return Ok(false);
    }
    ok(call, result).map(|()| true)
}

#[cold]
pub(crate) fn name_of(result: CUresult) -> String {
    let mut name = ptr::null();
    // SAFETY: the driver is loaded, since it gave this result; it writes one pointer.
    let status = unsafe { sys::cuGetErrorName(result, &raw mut name) };
    if status != CUresult::CUDA_SUCCESS || name.is_null() {
        return "an unknown error".to_owned();
    }
    // SAFETY: on success the pointer is a string constant of the driver.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}
