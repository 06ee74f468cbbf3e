#![allow(unsafe_code)]
//! Errors in words.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::CUresult;

/// Name and meaning of what this driver answers. Works without `cuInit`, as in the real one.
const WORDS: &[(CUresult, &CStr, &CStr)] = &[
    (CUresult::CUDA_SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (CUresult::CUDA_ERROR_INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (CUresult::CUDA_ERROR_OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (CUresult::CUDA_ERROR_NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED", c"no cuInit here"),
    (CUresult::CUDA_ERROR_NO_DEVICE, c"CUDA_ERROR_NO_DEVICE", c"there is no GPU"),
    (CUresult::CUDA_ERROR_INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE", c"no such GPU"),
    (CUresult::CUDA_ERROR_INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"no such context"),
    (CUresult::CUDA_ERROR_INVALID_PTX, c"CUDA_ERROR_INVALID_PTX", c"this is no PTX"),
    (
        CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"PTX of a newer CUDA",
    ),
    (CUresult::CUDA_ERROR_INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid handle"),
    (CUresult::CUDA_ERROR_NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"no such name"),
    (CUresult::CUDA_ERROR_NOT_READY, c"CUDA_ERROR_NOT_READY", c"not done yet"),
    (
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"a kernel touched what it may not",
    ),
    (
        CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"the memory, or a part of it, is registered",
    ),
    (
        CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"no registered memory begins there",
    ),
    (
        CUresult::CUDA_ERROR_OPERATING_SYSTEM,
        c"CUDA_ERROR_OPERATING_SYSTEM",
        c"the system does not say what memory there is",
    ),
    (
        CUresult::CUDA_ERROR_NOT_SUPPORTED,
        c"CUDA_ERROR_NOT_SUPPORTED",
        c"this driver without a GPU does not do that",
    ),
];

/// The name or the meaning of `error`, by `part`.
///
/// # Safety
/// `out` is NULL, or valid for a write.
unsafe fn words(
    error: u32,
    out: *mut *const c_char,
    part: impl Fn(&(CUresult, &'static CStr, &'static CStr)) -> &'static CStr,
) -> CUresult {
    let found = WORDS.iter().find(|(known, ..)| *known as u32 == error);
    let text = found.map_or(std::ptr::null(), |found| part(found).as_ptr());
    if out.is_null() {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { out.write(text) };
    match found {
        Some(_) => CUresult::CUDA_SUCCESS,
        None => CUresult::CUDA_ERROR_INVALID_VALUE,
    }
}

// SAFETY: the driver's own name and type; so with every function of `entries`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: u32, name: *mut *const c_char) -> CUresult {
    // SAFETY: the caller keeps the driver's contract.
    unsafe { words(error, name, |(_, name, _)| name) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: u32, text: *mut *const c_char) -> CUresult {
    // SAFETY: the caller keeps the driver's contract.
    unsafe { words(error, text, |(.., text)| text) }
}
