//! GPU memory that a NIC receives into. The dma-buf is its first part. The pages behind the dma-buf
//! are for bytes that come in host memory; pinned pages beside them are the source from which the
//! driver copies up.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, DmaBuf, PinnedBuffer, check_exports};

use super::piece::Piece;
use crate::sync::Mutex;

/// Memory that lost regions have left, for regions to come. It is not freed: the driver would wait
/// for all work of the GPU, and copies of other comms would wait with it.
static LEFT: Mutex<Vec<Arc<NicGpuMemory>>> = Mutex::new(Vec::new());

/// One allocation of a GPU, so that a consumer sees one range of addresses.
#[derive(Debug)]
pub(crate) struct NicGpuMemory {
    device: DeviceBuffer,
    dma_buf: DmaBuf,
    dma_buf_bytes: usize,
    /// Pinned memory with as many bytes as lie behind the dma-buf.
    beside: PinnedBuffer,
}

impl NicGpuMemory {
    /// Allocates `of_nic` bytes for the NIC, and `spare` behind them, both in whole pages and not
    /// 0.
    pub(crate) fn new(gpu: &CudaGpu, of_nic: u64, spare: u64) -> Result<Self, CudaError> {
        check_exports(gpu)?;
        let device = DeviceBuffer::new(gpu, of_nic + spare)?;
        let dma_buf = DmaBuf::export(gpu, device.address(), of_nic)?;
        let beside = PinnedBuffer::new(gpu, spare)?;
        Ok(Self { device, dma_buf, dma_buf_bytes: of_nic as usize, beside })
    }

    /// Returns memory that a region of the same GPU and sizes has left. Its content is undefined.
    pub(crate) fn left(gpu: &CudaGpu, of_nic: u64, spare: u64) -> Option<Arc<Self>> {
        let fits = |memory: &Arc<Self>| {
            let of = (memory.device.gpu().ordinal(), memory.dma_buf_bytes, memory.len());
            of == (gpu.ordinal(), of_nic as usize, (of_nic + spare) as usize)
        };
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        let found = left.iter().position(fits)?;
        Some(left.swap_remove(found))
    }

    /// Leaves the memory for another region: the kernel has released it, and no comm uses it.
    pub(crate) fn leave(self: &Arc<Self>) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(self));
    }

    /// Writes bytes as a NIC would.
    #[cfg(test)]
    pub(crate) fn fill_for_tests(&self, bytes: &[u8]) {
        self.device.copy_from_host(0, bytes).expect("inside");
    }

    /// Returns the number of bytes of the dma-buf, which begins where the memory does.
    pub(crate) fn dma_buf_bytes(&self) -> usize {
        self.dma_buf_bytes
    }

    /// Returns the number of all bytes.
    pub(crate) fn len(&self) -> usize {
        self.device.bytes() as usize
    }

    /// Returns the address at which a consumer on the GPU finds the first byte. The CPU must not
    /// touch it.
    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.device.address() as usize)
    }

    pub(super) fn device(&self) -> &DeviceBuffer {
        &self.device
    }

    /// Returns the pinned bytes beside `len` bytes from `offset` of the memory; `None` for those of
    /// the NIC.
    pub(super) fn beside(&self, offset: usize, len: usize) -> Option<Piece> {
        let offset = offset.checked_sub(self.dma_buf_bytes)?;
        Some(Piece::of_pinned(&self.beside, offset, len))
    }
}

impl AsFd for NicGpuMemory {
    /// Returns the dma-buf.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dma_buf.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::region::{DiscardOutcome, Region};

    #[test]
    fn only_pages_behind_the_dma_buf_are_written_and_copied_up() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let memory = NicGpuMemory::new(&gpu, 2 << 20, 8192).expect("there is room");
        assert_eq!((memory.len(), memory.dma_buf_bytes()), ((2 << 20) + 8192, 2 << 20));
        memory.device().fill(1).expect("it is there");
        let region = Region::NicOnGpu(Arc::new(memory));
        let (of_nic, behind) = (region.piece(4096, 100), region.piece((2 << 20) + 4000, 200));
        assert_eq!(region.consumer_address() as usize + 4096, of_nic.address());
        for piece in [of_nic, behind] {
            region.write(piece, &[7; 200]);
        }
        assert_eq!(region.upload_source(of_nic), None);
        let source = region.upload_source(behind).expect("it is to be copied");
        assert_eq!(source.len(), 200);
        let Region::NicOnGpu(memory) = &region else { panic!("it is one") };
        let mut found = [0; 200];
        memory.beside.read(4000, &mut found).expect("inside");
        assert_eq!(found, [7; 200]);
        memory.device().copy_to_host(4096, &mut found[..100]).expect("inside");
        assert_eq!(found[..100], [1; 100], "the NIC's are left alone");
    }

    #[test]
    fn memory_of_an_old_region_is_reused_once_for_the_same_gpu_and_sizes() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        // Sizes that no other test in this process asks for.
        let (of_nic, spare) = (5 << 20, 12288);
        let memory = NicGpuMemory::new(&gpu, of_nic, spare).expect("there is room");
        let region = Region::NicOnGpu(Arc::new(memory));
        let left = |of_nic, spare| NicGpuMemory::left(&gpu, of_nic, spare);
        assert!(left(of_nic, spare).is_none(), "it is in use");
        assert_eq!(region.discard().expect("nothing fails"), DiscardOutcome::Reusable);
        assert!(
            left(of_nic, spare + 4096).is_none() && left(of_nic + 4096, spare - 4096).is_none()
        );
        let last = CudaGpu::count().expect("there is one") - 1;
        if last != gpu.ordinal() {
            let other = CudaGpu::open(last).expect("the driver shows it");
            assert!(NicGpuMemory::left(&other, of_nic, spare).is_none());
        }
        let again = left(of_nic, spare).expect("it is left");
        assert_eq!(again.as_mut_ptr().addr() as u64, region.consumer_address());
        assert!(left(of_nic, spare).is_none(), "one region at a time");
    }
}
