#![allow(unsafe_code)]
//! Status codes that calls answer.

use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::CUresult;

use crate::calls;

/// What the driver's functions do inside.
pub(crate) type Result<T> = std::result::Result<T, CUresult>;

/// The process that has called `cuInit`; 0: none.
static INITIALISED: AtomicU32 = AtomicU32::new(0);

/// `cuInit` was called.
pub(crate) fn initialise() {
    INITIALISED.store(std::process::id(), Ordering::Release);
}

/// Runs a driver function. As in the real one, nothing works before `cuInit`, nor in a forked
/// child.
pub(crate) fn answer<F: FnOnce() -> Result<()>>(call: F) -> CUresult {
    calls::count(&call);
    if INITIALISED.load(Ordering::Acquire) != std::process::id() {
        return CUresult::CUDA_ERROR_NOT_INITIALIZED;
    }
    call().err().unwrap_or(CUresult::CUDA_SUCCESS)
}

/// Writes an output of a call.
///
/// # Safety
/// `out` is NULL, or valid for a write.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { out.write(value) };
    Ok(())
}
