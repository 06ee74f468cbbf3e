#![allow(unsafe_code)]
//! Memory of an agent and of its GPU, by address: each access finds out which of the two holds the
//! address.
//!
//! As with ordinary memory, a wrong address costs this process alone.

use std::io;

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, allocation_end, host_alias, is_device_memory};

use super::host_memory;
use crate::link::command::Reply;
use crate::message::pattern::{self, Mismatch};
use crate::message::unpack_row::Entry;

/// All memory that commands may name.
pub(super) struct AgentMemory<'gpu> {
    gpu: Option<&'gpu CudaGpu>,
}

impl<'gpu> AgentMemory<'gpu> {
    /// Returns the memory of an agent. Without a GPU, device memory is ordinary memory.
    pub(super) const fn new(gpu: Option<&'gpu CudaGpu>) -> Self {
        Self { gpu }
    }

    /// Allocates device memory, page-aligned and zeroed, and returns its address. It is never
    /// freed, since requests may refer to it until the process ends.
    pub(super) fn allocate_device(&self, bytes: u64) -> Reply<u64> {
        let Some(gpu) = self.gpu else { return host_memory::allocate(bytes) };
        let buffer = DeviceBuffer::new(gpu, bytes.max(1)).map_err(on_gpu)?;
        buffer.fill(0).map_err(on_gpu)?;
        let at = buffer.address();
        std::mem::forget(buffer);
        Ok(at)
    }

    /// Finds the memory that holds `at`. Pinned memory may be named by the address that GPUs have
    /// for it.
    fn locate(&self, at: u64) -> Result<MemoryLocation<'gpu>, CudaError> {
        match self.gpu {
            None => Ok(MemoryLocation::Host(at)),
            Some(gpu) if is_device_memory(gpu, at)? => Ok(MemoryLocation::Gpu(gpu)),
            Some(gpu) => Ok(MemoryLocation::Host(host_alias(gpu, at)?.unwrap_or(at))),
        }
    }

    /// Copies `bytes` bytes at `at` out.
    pub(super) fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>, CudaError> {
        let gpu = match self.locate(at)? {
            MemoryLocation::Gpu(gpu) => gpu,
            MemoryLocation::Host(at) => return Ok(host_memory::read(at, bytes)),
        };
        let mut copy = vec![0; bytes];
        // SAFETY: the check names memory that it allocated or that the plugin published; see the
        // head of this file.
        unsafe { gpu.read(at, &mut copy) }?;
        Ok(copy)
    }

    /// Reads one aligned word.
    pub(super) fn read_word(&self, at: u64) -> Result<u64, CudaError> {
        let gpu = match self.locate(at)? {
            MemoryLocation::Gpu(gpu) => gpu,
            MemoryLocation::Host(at) => return Ok(host_memory::read_word(at)),
        };
        let mut word = [0; 8];
        // SAFETY: as for `read`.
        unsafe { gpu.read(at, &mut word) }?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Copies `bytes` to `at`.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), CudaError> {
        match self.locate(at)? {
            // SAFETY: the check names memory that it allocated, of at least this length.
            MemoryLocation::Gpu(gpu) => unsafe { gpu.write(at, bytes) },
            MemoryLocation::Host(at) => {
                host_memory::write(at, bytes);
                Ok(())
            }
        }
    }

    /// Writes the message of `seed`.
    pub(super) fn fill(&self, at: u64, bytes: usize, seed: u64) -> Result<(), CudaError> {
        let mut message = vec![0; bytes];
        pattern::fill(&mut message, seed);
        self.write(at, &message)
    }

    /// Returns the first byte that differs from the message of `seed`.
    pub(super) fn verify(
        &self,
        at: u64,
        bytes: usize,
        seed: u64,
    ) -> Result<Option<Mismatch>, CudaError> {
        Ok(pattern::verify(&self.read(at, bytes)?, seed))
    }

    /// Copies each entry to its destination in ordinary memory. The check has bounded the
    /// destinations.
    pub(super) fn gather(&self, bounce: u64, entries: &[Entry], to: u64) -> Result<(), CudaError> {
        if let MemoryLocation::Host(bounce) = self.locate(bounce)? {
            host_memory::gather(bounce, entries, to);
            return Ok(());
        }
        for run in merge_contiguous(entries) {
            let bytes = self.read(bounce + u64::from(run.src_off), run.len as usize)?;
            self.write(to + run.dst_off, &bytes)?;
        }
        Ok(())
    }

    /// Returns the bytes from `at` to the end of the driver's or the system's memory that holds it;
    /// `None` if none does.
    pub(super) fn mapped_bytes(&self, at: u64) -> io::Result<Option<u64>> {
        let end =
            self.gpu.map(|gpu| allocation_end(gpu, at)).transpose().map_err(io::Error::other)?;
        match end.flatten() {
            Some(end) => Ok(Some(end - at)),
            None => host_memory::mapped_bytes(at),
        }
    }
}

/// Where an address lies.
enum MemoryLocation<'gpu> {
    /// In memory of this GPU, which the driver copies.
    Gpu(&'gpu CudaGpu),
    /// In memory that the CPU reaches at this address.
    Host(u64),
}

/// Formats an error of the driver for a reply.
pub(super) fn on_gpu(error: CudaError) -> String {
    format!("memory of the GPU: {error}")
}

/// Merges entries that are contiguous at source and destination, so that they take one copy.
fn merge_contiguous(entries: &[Entry]) -> Vec<Entry> {
    let mut runs: Vec<Entry> = Vec::new();
    for entry in entries {
        match runs.last_mut() {
            Some(last)
                if last.src_end() == u64::from(entry.src_off)
                    && last.dst_off + u64::from(last.len) == entry.dst_off =>
            {
                last.len += entry.len;
            }
            _ => runs.push(*entry),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_entries_are_one_copy() {
        let entry = |src_off, len, dst_off| Entry { src_off, len, dst_off };
        let merged = merge_contiguous(&[
            entry(0, 10, 5),
            entry(10, 4, 15),
            entry(14, 1, 20),
            entry(4, 2, 21),
        ]);
        assert_eq!(merged, [entry(0, 14, 5), entry(14, 1, 20), entry(4, 2, 21)]);
    }

    #[test]
    fn without_a_gpu_device_memory_is_ordinary_memory() {
        let memory = AgentMemory::new(None);
        let at = memory.allocate_device(8192).expect("an address");
        memory.fill(at, 5000, 3).expect("no driver is asked");
        assert_eq!(memory.verify(at, 5000, 3), Ok(None));
        assert!(memory.verify(at, 5000, 4).expect("no driver is asked").is_some());
        assert!(memory.mapped_bytes(at).expect("maps are readable").is_some_and(|b| b >= 8192));
    }

    #[test]
    fn memory_of_a_gpu_is_filled_checked_and_gathered() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let memory = AgentMemory::new(Some(&gpu));
        let device = memory.allocate_device(8192).expect("device memory");
        let host = host_memory::allocate(8192).expect("host memory");
        memory.fill(device, 5000, 3).expect("a fill");
        assert_eq!(memory.verify(device, 5000, 3), Ok(None));
        let half = |src_off, dst_off| Entry { src_off, len: 2500, dst_off };
        memory.gather(device, &[half(2500, 2500), half(0, 0)], host).expect("a gather");
        assert_eq!(memory.verify(host, 5000, 3), Ok(None));
        assert_eq!(memory.read_word(device), Ok(host_memory::read_word(host)));
        // Pinned memory may have another address for GPUs, which the CPU must not touch.
        let pinned = tcpx_cuda::PinnedBuffer::new(&gpu, 8192).expect("pinned memory");
        memory.write(pinned.device_address() + 8, &[7; 8]).expect("a write");
        assert_eq!(memory.read_word(pinned.address() + 8), Ok(0x0707_0707_0707_0707));
        assert_eq!(memory.read_word(pinned.device_address()), Ok(0));
        let mapped = memory.mapped_bytes(device + 100).expect("the driver answers");
        assert!(mapped.is_some_and(|bytes| bytes >= 8092));
    }
}
