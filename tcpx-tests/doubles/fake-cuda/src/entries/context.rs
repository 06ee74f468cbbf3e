#![allow(unsafe_code)]
//! Primary contexts, and the contexts of a thread.

use std::ptr;

use cudarc::driver::sys::{CUcontext, CUdevice, CUresult};

use crate::address_space::space;
use crate::current;
use crate::gpu::{Gpu, gpu, of_context};
use crate::status::{answer, put};
use crate::stream::wait_for;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(
    context: *mut CUcontext,
    device: CUdevice,
) -> CUresult {
    answer(|| {
        let gpu = gpu(device)?;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(context, gpu.context()) }?;
        gpu.retain();
        Ok(())
    })
}

/// The last release ends the context, and with it the memory that was made in it.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> CUresult {
    answer(|| {
        let gpu = gpu(device)?;
        if gpu.release()? {
            wait_for(|other| ptr::eq(other, gpu));
            space().remove_gpu(gpu.ordinal);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: CUcontext) -> CUresult {
    answer(|| {
        current::push(of_context(context)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut CUcontext) -> CUresult {
    answer(|| {
        let popped = current::pop()?;
        if context.is_null() {
            return Ok(());
        }
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(context, popped.context()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult {
    let current = || current::get().map_or(ptr::null_mut(), Gpu::context);
    // SAFETY: the caller keeps the driver's contract.
    answer(|| unsafe { put(context, current()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(device: *mut CUdevice) -> CUresult {
    answer(|| {
        let gpu = current::get().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)?;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(device, gpu.ordinal as CUdevice) }
    })
}
