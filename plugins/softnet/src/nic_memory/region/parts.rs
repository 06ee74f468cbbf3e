//! Parts of a new region: memory, and a queue of the NIC that brings payload there.

use std::os::fd::AsFd;
use std::sync::Arc;

use tcpx_cuda::CudaGpu;
use tcpx_devmem::{DevmemError, HostBuffer, HostMemory, Nic, RingBinding, RxBinding};

use crate::log;
use crate::memory::{BounceBuffer, NicGpuMemory};
use crate::nic_memory::gpu_refusal::gpu_refusal;
use crate::nic_memory::kernel_deadline::KERNEL_DEADLINE;
use crate::nic_memory::receive_path::{Binding, ReceivePath};
use crate::nic_memory::ring_thread::RingThread;

/// Receive path, binding, queue and memory of a new region.
pub(super) type RegionParts = (ReceivePath, Binding, u32, BounceBuffer);

/// Makes a dma-buf of a GPU's memory, or of host memory that stands in for it, and binds it to a
/// queue. `bytes`: of the dma-buf, and behind it.
pub(super) fn bind_devmem(
    nic: &Nic,
    gpu: Option<&CudaGpu>,
    bytes: (u64, u64),
    poison: bool,
) -> Result<RegionParts, DevmemError> {
    let (of_nic, spare) = bytes;
    let bind = |dma_buf| RxBinding::on_free_queues(nic, 1, dma_buf, KERNEL_DEADLINE);
    let (bounce, binding) = match gpu {
        None => {
            let buffer = HostBuffer::with_spare(of_nic as usize, spare as usize)?;
            let binding = bind(buffer.as_fd())?;
            (BounceBuffer::of_nic(buffer, poison), binding)
        }
        Some(gpu) => {
            let (memory, binding) = match NicGpuMemory::left(gpu, of_nic, spare) {
                Some(memory) => {
                    let binding = bind(memory.as_fd()).inspect_err(|_| memory.leave())?;
                    log::info!("{}: its memory is that of a region that was lost", nic.name());
                    (memory, binding)
                }
                None => {
                    let memory = NicGpuMemory::new(gpu, of_nic, spare);
                    let memory = memory.map_err(|error| gpu_refusal(gpu.ordinal(), &error))?;
                    let binding = bind(memory.as_fd())?;
                    (Arc::new(memory), binding)
                }
            };
            (BounceBuffer::of_nic_on_gpu(memory, poison), binding)
        }
    };
    let queue = binding.queues().first().copied().unwrap_or_default();
    let receive_path = ReceivePath::Devmem { binding: binding.id(), bytes: of_nic };
    Ok((receive_path, Binding::Devmem(binding), queue, bounce))
}

/// Makes host memory, and a ring with a queue.
pub(super) fn start_ring(
    nic: &Nic,
    of_nic: u64,
    spare: u64,
    poison: bool,
) -> Result<RegionParts, DevmemError> {
    let failed = |source| DevmemError::System { what: "a region cannot be made", source };
    let memory = HostMemory::new((of_nic + spare) as usize).map_err(failed)?;
    let (thread, memory) = RingThread::start(nic, memory, of_nic as usize)?;
    let queue = thread.queue();
    let binding = RingBinding::new(nic, queue, KERNEL_DEADLINE)?;
    let bounce = BounceBuffer::of_ring(memory, of_nic as usize, poison);
    Ok((ReceivePath::Ring(thread), Binding::Ring(binding), queue, bounce))
}
