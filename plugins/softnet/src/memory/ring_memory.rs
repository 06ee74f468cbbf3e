#![allow(unsafe_code)]
//! Host memory that a NIC receives into. GPUs read it once the first of them has asked.

use std::sync::{Arc, PoisonError};

use tcpx_cuda::{CudaError, CudaGpu, RegisteredMemory};
use tcpx_devmem::HostMemory;

use crate::sync::{Mutex, OnceLock};

/// Host memory, and its registration with the CUDA driver, which is for all GPUs.
#[derive(Debug)]
pub(crate) struct RingMemory {
    memory: Arc<HostMemory>,
    registered: OnceLock<RegisteredMemory<Arc<HostMemory>>>,
    /// Lock held during a registration: a second one would be refused.
    registering: Mutex<()>,
}

impl RingMemory {
    pub(crate) fn new(memory: HostMemory) -> Self {
        let registering = Mutex::new(());
        Self { memory: Arc::new(memory), registered: OnceLock::new(), registering }
    }

    pub(super) fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// Lets every GPU read all of the memory, also the pages behind the NIC's. Returns whether this
    /// is new.
    pub(super) fn register(&self, gpu: &CudaGpu) -> Result<bool, CudaError> {
        let _one_at_a_time = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        if self.registered.get().is_some() {
            return Ok(false);
        }
        let (owner, first) = (Arc::clone(&self.memory), self.memory.as_mut_ptr());
        // SAFETY: the mapping lives as long as the owner that is handed over, wherever that goes.
        let made = unsafe { RegisteredMemory::new(gpu, owner, first, self.memory.len()) }?;
        // No other thread sets it while the lock is held.
        let _ = self.registered.set(made);
        Ok(true)
    }

    /// Returns the address at which GPUs see the first byte; `None`: no GPU has asked.
    pub(super) fn device_address(&self) -> Option<u64> {
        self.registered.get().map(RegisteredMemory::device_address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::region::{DiscardOutcome, Region};

    #[test]
    fn hosts_read_it_at_its_address_and_gpus_at_theirs() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let region = Region::Ring(RingMemory::new(HostMemory::new(3 << 20).expect("memory")));
        let host = region.consumer_base(false).addr() as u64;
        assert_eq!(region.consumer_base(true).addr() as u64, host, "no GPU has asked");
        assert!(region.register(&gpu).expect("the driver takes it"));
        assert!(!region.register(&gpu).expect("it is there already"));
        assert_eq!(region.consumer_base(false).addr() as u64, host);
        let on_gpu = region.consumer_base(true).addr() as u64;
        let piece = region.piece((2 << 20) + 5, 100);
        region.write(piece, &[7; 100]);
        assert_eq!(region.upload_source(piece), None, "it is there for the GPU");
        let mut seen = [0; 101];
        // SAFETY: inside the registered memory.
        unsafe { gpu.read(on_gpu + (2 << 20) + 5, &mut seen) }.expect("it is registered");
        assert_eq!((&seen[..100], seen[100]), (&[7; 100][..], 0));
        assert_eq!(
            region.discard().expect("nothing fails"),
            DiscardOutcome::Retained,
            "GPUs see it"
        );
    }

    #[test]
    fn it_is_registered_once_and_all_gpus_read_it() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let memory = RingMemory::new(HostMemory::new(1 << 20).expect("memory"));
        assert!(memory.memory().write(5000, b"for all"));
        let last = CudaGpu::count().expect("there is one") - 1;
        let other = CudaGpu::open(last).expect("the driver shows it");
        let is_new = std::thread::scope(|scope| {
            let ask = |gpu| {
                let memory = &memory;
                scope.spawn(move || memory.register(gpu).expect("the driver takes it"))
            };
            let threads = [ask(&gpu), ask(&other), ask(&gpu)];
            threads.map(|thread| thread.join().expect("no panic"))
        });
        assert_eq!(is_new.into_iter().filter(|&is_new| is_new).count(), 1);
        let at = memory.device_address().expect("it is registered") + 5000;
        for reader in [&gpu, &other] {
            let mut seen = [0; 7];
            // SAFETY: inside the registered memory.
            unsafe { reader.read(at, &mut seen) }.expect("it is registered for all");
            assert_eq!(&seen, b"for all", "GPU {}", reader.ordinal());
        }
    }
}
