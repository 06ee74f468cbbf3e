#![allow(unsafe_code)]
//! Loaded kernels.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUfunction, CUmodule, CUresult};

use crate::driver::{CudaError, ok};
use crate::gpu::CudaGpu;
use crate::stream::Stream;

/// Module: PTX that the driver has compiled for one GPU.
#[derive(Debug)]
pub struct Module {
    gpu: CudaGpu,
    raw: CUmodule,
}

// SAFETY: a module is a handle that the driver allows every thread to use at any time.
unsafe impl Send for Module {}

/// Kernel of a module. Launch it only while the module lives.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    raw: CUfunction,
}

// SAFETY: a function is a handle that the driver allows every thread to use at any time.
unsafe impl Send for Function {}

impl Module {
    /// Loads the first of `images` (PTX texts) that this driver accepts.
    ///
    /// # Errors
    /// Returns the driver's error for the last image.
    ///
    /// # Safety
    /// The images are programs that may run on the GPU.
    pub unsafe fn load(gpu: &CudaGpu, images: &[&str]) -> Result<Self, CudaError> {
        let _entered = gpu.enter()?;
        let mut refusal = None;
        for image in images {
            let image = CString::new(*image).map_err(|_| invalid_ptx())?;
            let mut raw = ptr::null_mut();
            // SAFETY: a context is current; the image ends with 0; there are no options.
            let status = unsafe {
                sys::cuModuleLoadDataEx(
                    &raw mut raw,
                    image.as_ptr().cast(),
                    0,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            match ok("cuModuleLoadDataEx", status) {
                Ok(()) => return Ok(Self { gpu: gpu.clone(), raw }),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(invalid_ptx))
    }

    /// Returns the kernel of this name.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn function(&self, name: &CStr) -> Result<Function, CudaError> {
        let _entered = self.gpu.enter()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the module is alive, the name ends with 0; the driver writes one function.
        let status = unsafe { sys::cuModuleGetFunction(&raw mut raw, self.raw, name.as_ptr()) };
        ok("cuModuleGetFunction", status)?;
        Ok(Function { raw })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let unloaded = self.gpu.enter().and_then(|_entered| {
            // SAFETY: load() made this module, which has no other owner.
            ok("cuModuleUnload", unsafe { sys::cuModuleUnload(self.raw) })
        });
        if let Err(error) = unloaded {
            tracing::debug!(%error, "a module was not unloaded");
        }
    }
}

impl Function {
    /// Queues a launch of `blocks` blocks of `threads` threads.
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Safety
    /// - the module is alive, and stays alive until the launch has been worked off;
    /// - `parameters` point to values of the types the kernel takes, one for each parameter;
    /// - the kernel's use of those values is allowed until the kernel has ended.
    pub unsafe fn launch(
        self,
        stream: &Stream,
        blocks: u32,
        threads: u32,
        parameters: &mut [*mut c_void],
    ) -> Result<(), CudaError> {
        // SAFETY: the caller vouches for kernel and parameters, which the driver copies before it
        // returns; the stream is alive.
        let status = unsafe {
            sys::cuLaunchKernel(
                self.raw,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.raw(),
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        ok("cuLaunchKernel", status)
    }
}

fn invalid_ptx() -> CudaError {
    let result = CUresult::CUDA_ERROR_INVALID_PTX;
    CudaError::Call {
        call: "cuModuleLoadDataEx",
        code: result as u32,
        name: "CUDA_ERROR_INVALID_PTX".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gpu;

    const GOOD: &str = "\
.version 8.2
.target sm_80
.address_size 64
.visible .entry tcpx_nothing() { ret; }
";

    #[test]
    fn the_next_image_is_tried_when_the_driver_refuses_one() {
        let Some(gpu) = test_gpu() else { return };
        let too_new = GOOD.replacen(".version 8.2", ".version 99.9", 1);
        assert_ne!(too_new, GOOD);
        // SAFETY: the images are a kernel that returns at once, one of them with a version of PTX
        // that does not exist.
        let module = unsafe { Module::load(&gpu, &[&too_new, GOOD]) }.unwrap();
        module.function(c"tcpx_nothing").unwrap();
        assert!(module.function(c"no_such_kernel").is_err());
        // SAFETY: as above.
        let refused = unsafe { Module::load(&gpu, &[&too_new]) };
        assert!(matches!(refused, Err(CudaError::Call { call: "cuModuleLoadDataEx", .. })));
    }
}
