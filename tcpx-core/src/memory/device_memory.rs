#![allow(unsafe_code)]
//! Device memory of a session: allocation, reading and writing.

use std::path::Path;

use tcpx_cuda::{
    CudaError, CudaGpu, CurrentContext, DeviceBuffer, PinnedBuffer, allocation_end, host_alias,
    is_exportable, is_readable, is_writable,
};
use tcpx_diagnosis::pci::{Gpu, gpus};
use tcpx_protocol::types::MemoryType;
use tcpx_sys::{CpuSet, ForkGuard};
use tcpx_unpack::MemoryKind;

use crate::error::{Error, MemoryUnavailable, Result};
use crate::memory::host_buffer::{HostBuffer, LentBuffer, mapped_bytes, mapping_bytes};

/// Access to this session's device memory. Clones share the GPU.
#[derive(Clone, Debug)]
pub(crate) enum DeviceMemory {
    /// Ordinary memory that emulates device memory.
    Emulated,
    /// Memory of a GPU.
    Cuda(CudaGpu),
}

impl DeviceMemory {
    /// Opens the GPU with this CUDA ordinal. `None`: emulates device memory.
    pub(crate) fn open(gpu: Option<u32>) -> Result<Self> {
        gpu.map_or(Ok(Self::Emulated), |gpu| CudaGpu::open(gpu).map(Self::Cuda).map_err(cuda))
    }

    /// Returns the kind of memory that the unpack backend works on.
    pub(crate) fn kind(&self) -> MemoryKind {
        match self {
            Self::Emulated => MemoryKind::Host,
            Self::Cuda(gpu) => MemoryKind::Cuda { gpu: gpu.ordinal() },
        }
    }

    /// Returns the kind of device memory, in a word for reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Emulated => "emulated",
            Self::Cuda(_) => "cuda",
        }
    }

    /// Returns the GPU as the system describes it, with its place on PCI and its NUMA node. `None`:
    /// device memory is emulated, or the system does not show the GPU.
    pub(crate) fn described(&self) -> Option<Gpu> {
        let Self::Cuda(gpu) = self else { return None };
        let bus_id = match gpu.pci_bus_id() {
            Ok(bus_id) => bus_id.to_ascii_lowercase(),
            Err(error) => {
                tracing::warn!(%error, "the GPU's place on PCI is unknown: NICs near it cannot be preferred");
                return None;
            }
        };
        gpus(Path::new("/")).into_iter().find(|gpu| gpu.pci_bus_id == bus_id)
    }

    /// Returns those of this thread's processors that are nearest to the GPU: `None` where they are
    /// all, or none, or the system does not say. `root` has the files of the system.
    pub(crate) fn near_cpus(&self, root: &Path) -> Option<CpuSet> {
        let Self::Cuda(gpu) = self else { return None };
        let list = format!("sys/devices/system/node/node{}/cpulist", gpu.host_node()?);
        CpuSet::of_thread_near(&root.join(list))
    }

    /// Makes the GPU's context current on this thread while the guard lives. Plugins take the GPU
    /// from the thread that calls them.
    pub(crate) fn enter(&self) -> Result<Option<CurrentContext<'_>>> {
        match self {
            Self::Emulated => Ok(None),
            Self::Cuda(gpu) => gpu.enter().map(Some).map_err(cuda),
        }
    }

    /// Does the same as [`enter`](Self::enter), for calls that are made even if that fails, such as
    /// closing.
    pub(crate) fn try_enter(&self) -> Option<CurrentContext<'_>> {
        self.enter().unwrap_or_else(|error| {
            tracing::warn!(%error, "a plugin call is made without the GPU's context");
            None
        })
    }

    /// Copies bytes into memory of this kind.
    ///
    /// # Safety
    /// `address..address + bytes.len()` is writable memory of this kind that no other thread or
    /// device touches during the call.
    pub(crate) unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        if let Self::Cuda(gpu) = self {
            // SAFETY: the caller vouches for the destination.
            return unsafe { gpu.write(address, bytes) }.map_err(cuda);
        }
        // SAFETY: the caller vouches for the destination. The source is a slice, so it cannot
        // overlap memory that no other thread or device touches.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    /// Copies bytes out of memory of this kind.
    ///
    /// # Safety
    /// `address..address + bytes.len()` is readable memory of this kind that no thread or device
    /// writes during the call.
    pub(crate) unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        if let Self::Cuda(gpu) = self {
            // SAFETY: the caller vouches for the source.
            return unsafe { gpu.read(address, bytes) }.map_err(cuda);
        }
        // SAFETY: as for `write`, the other way round.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len())
        };
        Ok(())
    }

    /// Returns the address at which the host reads `address`. `None`: only the GPU reaches that
    /// memory.
    pub(crate) fn host_address(&self, address: u64) -> Result<Option<u64>> {
        match self {
            Self::Emulated => Ok(Some(address)),
            Self::Cuda(gpu) => host_alias(gpu, address).map_err(cuda),
        }
    }

    /// Returns the number of bytes from `address` to the end of the memory that contains it.
    /// `None`: no memory is there. The plugin does not report the size of its bounce buffer, and
    /// memory safety needs a bound.
    pub(crate) fn bytes_from(&self, address: u64) -> Result<Option<u64>> {
        if let Self::Cuda(gpu) = self
            && let Some(end) = allocation_end(gpu, address).map_err(cuda)?
        {
            return Ok(Some(end - address));
        }
        Ok(self.host_address(address)?.and_then(mapped_bytes))
    }

    /// Returns the number of bytes from `address` to the end of its own allocation, or of its own
    /// mapping. `None`: no memory is there, or its size is unknown.
    pub(crate) fn own_bytes_from(&self, address: u64) -> Result<Option<u64>> {
        if let Self::Cuda(gpu) = self
            && let Some(end) = allocation_end(gpu, address).map_err(cuda)?
        {
            return Ok(Some(end - address));
        }
        Ok(self.host_address(address)?.and_then(mapping_bytes))
    }

    /// Returns whether the GPU reaches both ends of a range. The driver takes an unknown address
    /// for ordinary memory. A copy to an address that is neither kind ends the process.
    pub(crate) fn reaches(&self, address: u64, bytes: u64) -> Result<bool> {
        match self {
            Self::Emulated => Ok(true),
            Self::Cuda(gpu) => is_readable(gpu, address, bytes).map_err(cuda),
        }
    }

    /// Returns whether the GPU may also write both ends of a range that it
    /// [`reaches`](Self::reaches). The GPU refuses to write a read-only mapping, and its context
    /// ends with the failure.
    pub(crate) fn may_write(&self, address: u64, bytes: u64) -> Result<bool> {
        match self {
            Self::Emulated => Ok(true),
            Self::Cuda(gpu) => is_writable(gpu, address, bytes).map_err(cuda),
        }
    }

    /// Returns whether the driver exports these pages as a dma-buf.
    pub(crate) fn exports(&self, address: u64, bytes: u64) -> Result<bool> {
        match self {
            Self::Emulated => Ok(true),
            Self::Cuda(gpu) => is_exportable(gpu, address, bytes).map_err(cuda),
        }
    }

    /// Allocates zeroed memory of the session's kind.
    pub(crate) fn allocate(&self, bytes: usize, memory: MemoryType) -> Result<OwnedMemory> {
        match (self, memory) {
            (Self::Cuda(gpu), MemoryType::Device) => {
                let buffer = DeviceBuffer::new(gpu, bytes.max(1) as u64).map_err(cuda)?;
                buffer.fill(0).map_err(cuda)?;
                Ok(OwnedMemory::Gpu(buffer))
            }
            _ => HostBuffer::new(bytes).map(OwnedMemory::Host),
        }
    }

    /// Allocates zeroed host memory that the GPU reaches, too.
    pub(crate) fn allocate_pinned(&self, bytes: usize) -> Result<OwnedMemory> {
        match self {
            Self::Emulated => HostBuffer::new(bytes).map(OwnedMemory::Host),
            Self::Cuda(gpu) => {
                PinnedBuffer::new(gpu, bytes.max(1) as u64).map(OwnedMemory::Pinned).map_err(cuda)
            }
        }
    }
}

/// Memory that a registration owns.
#[derive(Debug)]
pub(crate) enum OwnedMemory {
    Host(HostBuffer),
    Lent(LentBuffer),
    Pinned(PinnedBuffer),
    Gpu(DeviceBuffer),
}

impl OwnedMemory {
    /// Returns the address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Host(buffer) => buffer.address(),
            Self::Lent(buffer) => buffer.address(),
            Self::Pinned(buffer) => buffer.address(),
            Self::Gpu(buffer) => buffer.address(),
        }
    }
}

/// Returns the number of GPUs that the CUDA driver shows to this process. Returns 0 without a
/// driver, and in a forked child.
#[must_use]
pub fn gpu_count() -> u32 {
    let Ok(_guard) = ForkGuard::begin() else { return 0 };
    CudaGpu::count().unwrap_or(0)
}

fn cuda(error: CudaError) -> Error {
    Error::MemoryUnavailable(MemoryUnavailable::Cuda(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_gpu_is_a_typed_error_with_its_reason() {
        let missing = gpu_count() + 7;
        let Err(Error::MemoryUnavailable(MemoryUnavailable::Cuda(error))) =
            DeviceMemory::open(Some(missing))
        else {
            panic!("GPU {missing} must not open");
        };
        match error {
            CudaError::NoDriver => assert_eq!(gpu_count(), 0),
            CudaError::NoSuchGpu { gpu, count } => assert_eq!((gpu, count), (missing, gpu_count())),
            // A driver without a GPU refuses its own initialisation.
            CudaError::Call { .. } => assert_eq!(gpu_count(), 0),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn processors_of_the_gpus_node_are_near_it() {
        let Ok(memory) = DeviceMemory::open(Some(0)) else { return };
        let DeviceMemory::Cuda(gpu) = &memory else { panic!("it has a GPU") };
        let root = tempfile::tempdir().unwrap();
        assert_eq!(memory.near_cpus(root.path()), None, "a system without nodes");
        let Some(node) = gpu.host_node() else { return };
        let folder = root.path().join(format!("sys/devices/system/node/node{node}"));
        std::fs::create_dir_all(&folder).unwrap();
        let own = CpuSet::of_thread().unwrap();
        let first = own.to_string().split(',').next().unwrap().to_owned();
        for (list, expected) in
            [(first.clone(), first.parse().ok().filter(|it| *it != own)), (own.to_string(), None)]
        {
            std::fs::write(folder.join("cpulist"), format!("{list}\n")).unwrap();
            assert_eq!(memory.near_cpus(root.path()), expected);
            assert_eq!(DeviceMemory::Emulated.near_cpus(root.path()), None);
        }
    }

    #[test]
    fn emulated_memory_is_the_hosts() {
        let memory = DeviceMemory::open(None).unwrap();
        assert!(memory.enter().unwrap().is_none());
        let owned = memory.allocate(100, MemoryType::Device).unwrap();
        assert!(matches!(owned, OwnedMemory::Host(_)));
        assert!(memory.bytes_from(owned.address()).unwrap().unwrap() >= 100);
        assert_eq!(memory.bytes_from(8).unwrap(), None);
        assert_eq!((memory.name(), memory.kind()), ("emulated", MemoryKind::Host));
        assert!(memory.described().is_none());
    }
}
