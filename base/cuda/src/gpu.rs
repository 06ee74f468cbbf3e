#![allow(unsafe_code)]
//! A GPU and its primary context.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUstream, CUstream_flags,
};

use crate::driver::{CudaError, is_loaded, load, ok};

/// GPU whose primary context is held. The CUDA runtime uses the same context, so memory made here
/// and memory made by the rest of the process fit together.
///
/// Clones share the hold. The GPU is released when the last clone and the last buffer are dropped.
#[derive(Clone)]
pub struct CudaGpu {
    context: Arc<PrimaryContext>,
}

struct PrimaryContext {
    ordinal: u32,
    device: CUdevice,
    raw: CUcontext,
    /// Stream for copies that the caller waits for; null until open() has made it.
    copies: CUstream,
}

// SAFETY: device and context are handles that the driver allows every thread to use at any time.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above; nothing here is changed after construction.
unsafe impl Sync for PrimaryContext {}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        if !self.copies.is_null() {
            // SAFETY: open() made this stream and it has no user any more; streams carry their
            // context, so none has to be current.
            let destroyed = unsafe { sys::cuStreamDestroy_v2(self.copies) };
            if let Err(error) = ok("cuStreamDestroy", destroyed) {
                tracing::debug!(gpu = self.ordinal, %error, "the copy stream was not destroyed");
            }
        }
        // SAFETY: open() retained this context once, and it has no user in this crate any more.
        let released = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        if let Err(error) = ok("cuDevicePrimaryCtxRelease", released) {
            // At the end of the process the driver may be gone already, which is as good.
            tracing::debug!(gpu = self.ordinal, %error, "primary context was not released");
        }
    }
}

impl CudaGpu {
    /// Returns the number of GPUs that the driver shows to this process.
    ///
    /// # Errors
    /// Returns [`CudaError::NoDriver`] without a driver, [`CudaError::Call`] when it does not
    /// start.
    pub fn count() -> Result<u32, CudaError> {
        load()?;
        let mut count = 0;
        // SAFETY: the driver is loaded; it writes one integer.
        ok("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Returns the newest CUDA version that the driver supports, as 1000 × major + 10 × minor:
    /// 12020 is 12.2.
    ///
    /// # Errors
    /// Returns the errors of [`count`](Self::count).
    pub fn driver_version() -> Result<u32, CudaError> {
        load()?;
        let mut version = 0;
        // SAFETY: the driver is loaded; it writes one integer.
        ok("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    /// Holds the primary context of GPU `ordinal`. The first holder in a process makes the context,
    /// which takes a good part of a second.
    ///
    /// # Errors
    /// Returns [`CudaError::NoSuchGpu`], and all errors of [`count`](Self::count).
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let count = Self::count()?;
        if ordinal >= count {
            return Err(CudaError::NoSuchGpu { gpu: ordinal, count });
        }
        let mut device = 0;
        // SAFETY: the driver is loaded and has this ordinal, which therefore fits an int; it
        // writes one device.
        ok("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, ordinal as c_int) })?;
        let mut raw = ptr::null_mut();
        // SAFETY: the device is valid; the driver writes one context. Its drop releases it.
        let retained = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut raw, device) };
        ok("cuDevicePrimaryCtxRetain", retained)?;
        let mut context = PrimaryContext { ordinal, device, raw, copies: ptr::null_mut() };
        context.copies = {
            let _entered = enter(raw)?;
            let mut copies = ptr::null_mut();
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
            // SAFETY: the context is current; the driver writes one stream.
            ok("cuStreamCreate", unsafe { sys::cuStreamCreate(&raw mut copies, flags) })?;
            copies
        };
        Ok(Self { context: Arc::new(context) })
    }

    /// Returns the CUDA ordinal.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.context.ordinal
    }

    /// Returns the product name, "NVIDIA H200" for example.
    ///
    /// # Errors
    /// Returns [`CudaError::Call`] when the driver refuses.
    pub fn name(&self) -> Result<String, CudaError> {
        self.text("cuDeviceGetName", |text, len| {
            // SAFETY: the device is valid; the driver writes at most `len` bytes, 0 included.
            unsafe { sys::cuDeviceGetName(text, len, self.context.device) }
        })
    }

    /// Returns the PCI address in the driver's spelling, "0000:04:00.0" for example.
    ///
    /// # Errors
    /// Returns [`CudaError::Call`] when the driver refuses.
    pub fn pci_bus_id(&self) -> Result<String, CudaError> {
        self.text("cuDeviceGetPCIBusId", |text, len| {
            // SAFETY: the device is valid; the driver writes at most `len` bytes, 0 included.
            unsafe { sys::cuDeviceGetPCIBusId(text, len, self.context.device) }
        })
    }

    /// Returns the compute capability, (9, 0) for example.
    ///
    /// # Errors
    /// Returns [`CudaError::Call`] when the driver refuses.
    pub fn compute_capability(&self) -> Result<(u32, u32), CudaError> {
        let major = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        let minor = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
        Ok((self.attribute(major)?, self.attribute(minor)?))
    }

    /// Returns the NUMA node of the host that is nearest to the GPU. `None`: the host has no nodes,
    /// or the driver is older than CUDA 12.2.
    #[must_use]
    pub fn host_node(&self) -> Option<u32> {
        let node = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
        self.signed_attribute(node).ok().and_then(|node| u32::try_from(node).ok())
    }

    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<u32, CudaError> {
        self.signed_attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0))
    }

    fn signed_attribute(&self, attribute: CUdevice_attribute) -> Result<c_int, CudaError> {
        let mut value = 0;
        // SAFETY: the device is valid; the driver writes one integer.
        ok("cuDeviceGetAttribute", unsafe {
            sys::cuDeviceGetAttribute(&raw mut value, attribute, self.context.device)
        })?;
        Ok(value)
    }

    fn text(
        &self,
        call: &'static str,
        get: impl FnOnce(*mut c_char, c_int) -> sys::CUresult,
    ) -> Result<String, CudaError> {
        let mut text = [0_u8; 256];
        ok(call, get(text.as_mut_ptr().cast(), text.len() as c_int - 1))?;
        // The last byte stays 0, so there is always an end.
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Copies device memory at `address` into `destination`, and returns when the copy is done.
    ///
    /// Waits for this copy alone, not for other work on the same memory. It has no deadline,
    /// because a copy that uses the caller's memory cannot be abandoned. Only the GPU's copy engine
    /// can hold it up.
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Safety
    /// `address..address + destination.len()` is memory that this GPU's driver can read.
    pub unsafe fn read(&self, address: u64, destination: &mut [u8]) -> Result<(), CudaError> {
        let to = destination.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the caller vouches for the source; the destination is borrowed until the end.
        unsafe { self.copy_and_wait(to, address, destination.len()) }
    }

    /// Copies `source` to device memory at `address`, and returns when the copy is done. Waits as
    /// [`read`](Self::read) does.
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Safety
    /// `address..address + source.len()` is memory that this GPU's driver can write.
    pub unsafe fn write(&self, address: u64, source: &[u8]) -> Result<(), CudaError> {
        let from = source.as_ptr().expose_provenance() as u64;
        // SAFETY: the caller vouches for the destination; the source is borrowed until the end.
        unsafe { self.copy_and_wait(address, from, source.len()) }
    }

    /// # Safety
    /// `src..src + bytes` is readable and `dst..dst + bytes` writable by the driver.
    unsafe fn copy_and_wait(&self, dst: u64, src: u64, bytes: usize) -> Result<(), CudaError> {
        let _entered = self.enter()?;
        let stream = self.context.copies;
        // SAFETY: the caller vouches for both memories; the stream lives as long as the context.
        ok("cuMemcpyAsync", unsafe { sys::cuMemcpyAsync(dst, src, bytes, stream) })?;
        // SAFETY: the stream is alive.
        ok("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) })
    }

    /// Sets device memory to `value`, and returns when it is done.
    ///
    /// # Safety
    /// `address..address + bytes` is device memory of this GPU.
    pub(crate) unsafe fn fill(&self, address: u64, value: u8, bytes: u64) -> Result<(), CudaError> {
        let _entered = self.enter()?;
        let stream = self.context.copies;
        // SAFETY: the caller vouches for the memory; the stream lives as long as the context.
        let status = unsafe { sys::cuMemsetD8Async(address, value, bytes as usize, stream) };
        ok("cuMemsetD8Async", status)?;
        // SAFETY: the stream is alive.
        ok("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream) })
    }

    /// Returns the ordinal of the GPU whose context is current on this thread, if there is one.
    ///
    /// Does not load the driver. Without the driver in the process no context can be current, and
    /// neither can a context where the driver shows no GPU. A context that is not the primary one
    /// counts as its GPU's. Its memory can be reached all the same, as addresses are the same in
    /// all contexts.
    ///
    /// # Errors
    /// Returns [`CudaError::Call`] when the driver refuses.
    pub fn current_ordinal() -> Result<Option<u32>, CudaError> {
        if !is_loaded() {
            return Ok(None);
        }
        match load() {
            Err(error) if error.is_without_gpus() => return Ok(None),
            loaded => loaded?,
        }
        let mut current = ptr::null_mut();
        // SAFETY: the driver is loaded; it writes one context, null where none is current.
        ok("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&raw mut current) })?;
        if current.is_null() {
            return Ok(None);
        }
        let mut device = 0;
        // SAFETY: a context is current; the driver writes its device.
        ok("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&raw mut device) })?;
        for ordinal in 0..Self::count()? {
            let mut known = 0;
            // SAFETY: the driver has this ordinal, which therefore fits an int; it writes one
            // device.
            ok("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut known, ordinal as c_int) })?;
            if known == device {
                return Ok(Some(ordinal));
            }
        }
        Ok(None)
    }

    /// Makes the context current on this thread until the guard is dropped. Guards must be dropped
    /// in the reverse order of their making.
    ///
    /// # Errors
    /// Returns the driver's error.
    pub fn enter(&self) -> Result<CurrentContext<'_>, CudaError> {
        enter(self.context.raw)
    }
}

fn enter<'gpu>(context: CUcontext) -> Result<CurrentContext<'gpu>, CudaError> {
    let mut current = ptr::null_mut();
    // SAFETY: the driver is loaded; it writes one context, null where none is current.
    ok("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&raw mut current) })?;
    let pushed = current != context;
    if pushed {
        // SAFETY: every caller retains the context for longer than the guard lives.
        ok("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(context) })?;
    }
    Ok(CurrentContext { pushed, gpu: PhantomData })
}

impl fmt::Debug for CudaGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaGpu").field("ordinal", &self.context.ordinal).finish()
    }
}

/// Guard that keeps the GPU's context current on this thread. On drop, the previous context becomes
/// current again.
///
/// The plugin and the CUDA runtime read the current GPU off the thread, so the context must not
/// leak out.
#[derive(Debug)]
pub struct CurrentContext<'gpu> {
    pushed: bool,
    /// A raw pointer keeps the guard on the thread that made it.
    gpu: PhantomData<(&'gpu CudaGpu, *mut ())>,
}

impl Drop for CurrentContext<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: enter() pushed one context on this thread, and guards are dropped in the
            // reverse order of their making, as locals are.
            let status = unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
            if let Err(error) = ok("cuCtxPopCurrent", status) {
                tracing::error!(%error, "the thread keeps a CUDA context that is not its own");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gpu;

    #[test]
    fn without_a_driver_in_the_process_no_context_is_current() {
        if !is_loaded() {
            assert_eq!(CudaGpu::current_ordinal(), Ok(None));
        }
    }

    #[test]
    fn a_context_is_current_exactly_while_its_guard_lives() {
        let Some(gpu) = test_gpu() else { return };
        std::thread::spawn(move || {
            assert_eq!(CudaGpu::current_ordinal(), Ok(None));
            let entered = gpu.enter().unwrap();
            let again = gpu.enter().unwrap();
            assert_eq!(CudaGpu::current_ordinal(), Ok(Some(0)));
            drop(again);
            assert_eq!(CudaGpu::current_ordinal(), Ok(Some(0)));
            drop(entered);
            assert_eq!(CudaGpu::current_ordinal(), Ok(None));
        })
        .join()
        .unwrap();
    }
}
