#![allow(unsafe_code)]
//! A look for libcuda.

use std::error::Error;
use std::mem::ManuallyDrop;

/// Looks for libcuda.so.1 as the dynamic linker does, and leaves it loaded.
pub(super) fn find() -> Result<(), String> {
    // SAFETY: loading runs the library's constructors; those of NVIDIA's driver library only prepare its own data, CUDA
    // itself is initialised by cuInit, which is not called.
    let library = unsafe { libloading::Library::new("libcuda.so.1") };
    match library {
        Ok(library) => {
            // Unloading a driver library that someone else is about to load is a known source of crashes.
            let _ = ManuallyDrop::new(library);
            Ok(())
        }
        Err(error) => Err(error.source().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}
