#![allow(unsafe_code)]
//! Host memory of another allocator, which a GPU can read and write.

use std::mem::ManuallyDrop;

use cudarc::driver::sys;

use crate::driver::{CudaError, name_of, ok};
use crate::extent::PAGE_BYTES;
use crate::gpu::CudaGpu;
use crate::near_gpu::NearGpu;

/// Host memory of an owner, page-locked and mapped into every GPU until this is dropped. First the
/// driver releases the memory, then the owner is dropped. An owner whose memory the driver does not
/// release is never dropped.
///
/// Pages that nothing has touched before come from the NUMA node that is nearest to the GPU, as
/// those of a [`PinnedBuffer`](crate::PinnedBuffer) do.
///
/// Registering takes all of the memory at once, and locks it: 95 ms for 256 MiB of untouched
/// memory, with an H100. Ending the registration waits for all of the GPU's work. Do both during
/// setup. Copies to the GPU are as fast as from a [`PinnedBuffer`](crate::PinnedBuffer).
#[derive(Debug)]
pub struct RegisteredMemory<M> {
    gpu: CudaGpu,
    owner: ManuallyDrop<M>,
    address: u64,
    device: u64,
    bytes: u64,
}

impl<M> RegisteredMemory<M> {
    /// Registers `bytes` bytes from `first` on, in whole pages of [`PAGE_BYTES`].
    ///
    /// # Errors
    /// Returns [`CudaError::NotRegistered`], also when a part of the memory is registered already.
    /// Returns the driver's error when the memory has no address for GPUs. The owner is dropped
    /// then.
    ///
    /// # Safety
    /// The memory is mapped for reading and writing at these addresses, and belongs to the process,
    /// until `owner` is dropped, wherever `owner` is moved.
    pub unsafe fn new(
        gpu: &CudaGpu,
        owner: M,
        first: *mut u8,
        bytes: usize,
    ) -> Result<Self, CudaError> {
        let (address, length) = (first.addr() as u64, bytes as u64);
        let refused = |why: String| CudaError::NotRegistered { address, bytes: length, why };
        if !address.is_multiple_of(PAGE_BYTES) || !length.is_multiple_of(PAGE_BYTES) || bytes == 0 {
            return Err(refused("it is no whole pages".to_owned()));
        }
        let _entered = gpu.enter()?;
        let _near = NearGpu::begin(gpu);
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: a context is current. The caller vouches for the memory, and drop ends the
        // registration before the owner's end.
        let status = unsafe { sys::cuMemHostRegister_v2(first.cast(), bytes, flags) };
        if status != sys::CUresult::CUDA_SUCCESS {
            return Err(refused(name_of(status)));
        }
        // From here on, drop undoes the registration.
        let owner = ManuallyDrop::new(owner);
        let mut memory = Self { gpu: gpu.clone(), owner, address, device: 0, bytes: length };
        // SAFETY: the driver has just mapped this memory for GPUs; it writes one address.
        let status =
            unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut memory.device, first.cast(), 0) };
        ok("cuMemHostGetDevicePointer", status)?;
        first.expose_provenance();
        Ok(memory)
    }

    /// Returns the owner of the memory.
    #[must_use]
    pub fn owner(&self) -> &M {
        &self.owner
    }

    /// Returns the address at which every GPU sees the first byte: the host's address, or another
    /// address where the CPU must not access it.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        self.device
    }

    /// Returns the size in bytes, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<M> Drop for RegisteredMemory<M> {
    fn drop(&mut self) {
        let first = std::ptr::with_exposed_provenance_mut(self.address as usize);
        let ended = self.gpu.enter().and_then(|_entered| {
            // SAFETY: new() registered this memory, and the registration ends only here.
            ok("cuMemHostUnregister", unsafe { sys::cuMemHostUnregister(first) })
        });
        match ended {
            // SAFETY: the driver has released the memory, and `owner` is not used after this.
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.owner) },
            Err(error) => {
                tracing::debug!(%error, bytes = self.bytes, "host memory stays registered");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{
        DeviceBuffer, allocation_end, host_alias, is_device_memory, is_host_memory, is_readable,
        is_writable, test_gpu,
    };

    /// Shared mapping, as a file's would be, that no other process has.
    struct Mapping {
        gpu: CudaGpu,
        first: *mut u8,
        bytes: usize,
        was_known: Arc<AtomicBool>,
    }

    impl Mapping {
        fn new(gpu: &CudaGpu, bytes: usize) -> Self {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping, at an address that the system chooses.
            let first = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
            assert_ne!(first, libc::MAP_FAILED);
            let was_known = Arc::new(AtomicBool::new(false));
            Self { gpu: gpu.clone(), first: first.cast(), bytes, was_known }
        }

        fn registered(self) -> Result<RegisteredMemory<Self>, CudaError> {
            let (gpu, first, bytes) = (self.gpu.clone(), self.first, self.bytes);
            // SAFETY: the mapping lives as long as its owner.
            unsafe { RegisteredMemory::new(&gpu, self, first, bytes) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            let end = allocation_end(&self.gpu, self.first.addr() as u64);
            self.was_known.store(end.expect("it answers").is_some(), Ordering::Relaxed);
            // SAFETY: new() made this mapping.
            unsafe { libc::munmap(self.first.cast(), self.bytes) };
        }
    }

    #[test]
    fn the_gpu_and_the_host_see_the_same_bytes_at_both_addresses() {
        let Some(gpu) = test_gpu() else { return };
        let memory = Mapping::new(&gpu, 3 << 20).registered().expect("it is taken");
        let (host, device) = (memory.owner().first, memory.device_address());
        assert_eq!((memory.bytes(), device % PAGE_BYTES), (3 << 20, 0));
        // SAFETY: inside the mapping; no GPU uses it now.
        unsafe { host.add(2 << 20).copy_from_nonoverlapping(b"from the host".as_ptr(), 13) };
        let copy = DeviceBuffer::new(&gpu, 16).expect("there is room");
        let mut seen = [0; 13];
        for at in [device + (2 << 20), host.addr() as u64 + (2 << 20)] {
            // SAFETY: inside the registered memory.
            unsafe { gpu.read(at, &mut seen) }.expect("the driver knows it");
            assert_eq!(&seen, b"from the host", "{at:#x}");
        }
        copy.copy_from_host(0, b"from the GPU").expect("inside");
        // SAFETY: inside the registered memory, and no slice of it exists.
        let there = unsafe { std::slice::from_raw_parts_mut(host.add(100), 12) };
        copy.copy_to_host(0, there).expect("inside");
        assert_eq!(there, b"from the GPU");
        // SAFETY: as above.
        unsafe { gpu.write(device + 200, b"by its own address") }.expect("the driver knows it");
        // SAFETY: as above; the copy is over.
        let found = unsafe { std::slice::from_raw_parts(host.add(200), 18) };
        assert_eq!(found, b"by its own address");
    }

    #[test]
    fn the_driver_knows_all_of_it_as_the_hosts() {
        let Some(gpu) = test_gpu() else { return };
        let memory = Mapping::new(&gpu, 8192).registered().expect("it is taken");
        let (host, device) = (memory.owner().first.addr() as u64, memory.device_address());
        for at in [host, device] {
            assert!(is_host_memory(&gpu, at).unwrap() && !is_device_memory(&gpu, at).unwrap());
            assert!(is_readable(&gpu, at, 8192).unwrap() && is_writable(&gpu, at, 8192).unwrap());
            assert_eq!(host_alias(&gpu, at + 5000).unwrap(), Some(host + 5000));
            assert_eq!(allocation_end(&gpu, at + 5000).unwrap(), Some(at + 8192));
        }
    }

    #[test]
    fn the_driver_releases_the_memory_before_the_owner_is_dropped() {
        let Some(gpu) = test_gpu() else { return };
        let mapping = Mapping::new(&gpu, 8192);
        let (was_known, address) = (Arc::clone(&mapping.was_known), mapping.first.addr() as u64);
        let memory = mapping.registered().expect("it is taken");
        assert!(allocation_end(&gpu, address).unwrap().is_some());
        was_known.store(true, Ordering::Relaxed);
        drop(memory);
        assert!(!was_known.load(Ordering::Relaxed), "the owner was asked last");
        // Memory of the same size, and so most likely at the same address: it can be registered
        // anew.
        drop(Mapping::new(&gpu, 8192).registered().expect("it is taken"));
    }

    #[test]
    fn partial_pages_and_registered_memory_are_refused() {
        let Some(gpu) = test_gpu() else { return };
        let memory = Mapping::new(&gpu, 16384).registered().expect("it is taken");
        let first = memory.owner().first;
        for (offset, bytes, why) in [
            (0, 16384, "ALREADY_REGISTERED"),
            (4096, 4096, "ALREADY_REGISTERED"),
            (0, 0, "no whole pages"),
            (0, 100, "no whole pages"),
            (8, 4096, "no whole pages"),
        ] {
            // SAFETY: inside the mapping, which ends after this.
            let refused = unsafe { RegisteredMemory::new(&gpu, (), first.add(offset), bytes) };
            let error = refused.map(drop).expect_err("it is refused");
            assert!(matches!(error, CudaError::NotRegistered { .. }), "{error}");
            assert!(error.to_string().contains(why), "{error}");
        }
        // The refused calls have not changed the registration.
        assert!(is_readable(&gpu, memory.device_address(), 16384).unwrap());
    }
}
