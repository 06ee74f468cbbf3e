//! The contexts of a thread.

use std::cell::RefCell;

use cudarc::driver::sys::CUresult;

use crate::gpu::Gpu;
use crate::status::Result;

thread_local! {
    /// The last is current.
    static STACK: RefCell<Vec<&'static Gpu>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn push(gpu: &'static Gpu) {
    STACK.with_borrow_mut(|stack| stack.push(gpu));
}

pub(crate) fn pop() -> Result<&'static Gpu> {
    STACK.with_borrow_mut(Vec::pop).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

/// The GPU whose context is current, if there is one.
pub(crate) fn get() -> Option<&'static Gpu> {
    STACK.with_borrow(|stack| stack.last().copied())
}

/// The same for calls that need one, and one that works.
pub(crate) fn working() -> Result<&'static Gpu> {
    let gpu = get().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
    gpu.check()?;
    Ok(gpu)
}
