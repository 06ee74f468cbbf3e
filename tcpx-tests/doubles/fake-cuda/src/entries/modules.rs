#![allow(unsafe_code)]
//! Programs of a GPU.

use std::ffi::{CStr, c_char, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUmodule, CUresult, CUstream};

use super::copies::own_stream;
use crate::current;
use crate::kernel::Launch;
use crate::module::{FUNCTIONS, MODULES, Module};
use crate::status::{answer, put};

/// Only PTX texts, without options.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    option_count: c_uint,
    _options: *mut c_uint,
    _values: *mut *mut c_void,
) -> CUresult {
    answer(|| {
        let gpu = current::working()?;
        if option_count != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        if image.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller keeps the driver's contract: PTX ends with 0.
        let image = unsafe { CStr::from_ptr(image.cast()) };
        let image = image.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_PTX)?;
        let loaded = Module::new(gpu, image)?;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(module, MODULES.insert(loaded)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    answer(|| {
        let module = MODULES.remove(module)?;
        FUNCTIONS.retain(|function| !Arc::ptr_eq(&function.module, &module));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    answer(|| {
        let module = MODULES.get(module)?;
        if name.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller keeps the driver's contract: the name ends with 0.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let found = module.function(&name)?;
        // SAFETY: the caller keeps the driver's contract.
        unsafe { put(function, FUNCTIONS.insert(found)) }
    })
}

/// Only the kernels of `tcpx-unpack`, in one dimension.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    blocks: c_uint,
    blocks_y: c_uint,
    blocks_z: c_uint,
    threads: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    answer(|| {
        let stream = own_stream(stream)?;
        let function = FUNCTIONS.get(function)?;
        if !ptr::eq(function.gpu, stream.gpu) {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        let is_plain = [blocks_y, blocks_z, threads_y, threads_z] == [1; 4]
            && shared_bytes == 0
            && extra.is_null();
        let kernel = function.kernel.filter(|_| is_plain);
        let kernel = kernel.ok_or(CUresult::CUDA_ERROR_NOT_SUPPORTED)?;
        let size = (blocks, threads);
        // SAFETY: the caller keeps the driver's contract: a pointer to each of the parameters that
        // the module declares, whose number and sizes were compared with the kernel's.
        let launch =
            unsafe { Launch::new(stream.gpu, kernel, size, parameters.cast_const().cast()) }?;
        stream.push(move || launch.run());
        Ok(())
    })
}
