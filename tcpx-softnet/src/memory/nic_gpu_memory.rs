//! A GPU's memory that a NIC receives into. The dma-buf is its first part. The pages behind it, for
//! what comes in host memory, have pinned ones beside them, from which the driver copies up.

use std::os::fd::{AsFd, BorrowedFd};

use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, DmaBuf, PinnedBuffer, check_exports};

use super::piece::Piece;

/// One allocation of a GPU, so that a consumer sees one range of addresses.
#[derive(Debug)]
pub(crate) struct NicGpuMemory {
    device: DeviceBuffer,
    dma_buf: DmaBuf,
    dma_buf_bytes: usize,
    /// Of as many bytes as lie behind the dma-buf.
    beside: PinnedBuffer,
}

impl NicGpuMemory {
    /// So many bytes for the NIC, and `spare` behind them, both in whole pages and not 0.
    pub(crate) fn new(gpu: &CudaGpu, of_nic: u64, spare: u64) -> Result<Self, CudaError> {
        check_exports(gpu)?;
        let device = DeviceBuffer::new(gpu, of_nic + spare)?;
        let dma_buf = DmaBuf::export(gpu, device.address(), of_nic)?;
        let beside = PinnedBuffer::new(gpu, spare)?;
        Ok(Self { device, dma_buf, dma_buf_bytes: of_nic as usize, beside })
    }

    /// What a NIC would have brought.
    #[cfg(test)]
    pub(crate) fn fill_for_tests(&self, bytes: &[u8]) {
        self.device.copy_from_host(0, bytes).expect("inside");
    }

    /// Bytes of the dma-buf. It begins where the memory does.
    pub(crate) fn dma_buf_bytes(&self) -> usize {
        self.dma_buf_bytes
    }

    /// All of its bytes.
    pub(crate) fn len(&self) -> usize {
        self.device.bytes() as usize
    }

    /// Where a consumer on the GPU finds its first byte. The CPU must not touch it.
    pub(super) fn as_mut_ptr(&self) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(self.device.address() as usize)
    }

    pub(super) fn device(&self) -> &DeviceBuffer {
        &self.device
    }

    /// The pinned bytes beside `len` bytes from `offset` of the memory; `None` for those of the
    /// NIC.
    pub(super) fn beside(&self, offset: usize, len: usize) -> Option<Piece> {
        let offset = offset.checked_sub(self.dma_buf_bytes)?;
        Some(Piece::of_pinned(&self.beside, offset, len))
    }
}

impl AsFd for NicGpuMemory {
    /// The dma-buf.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dma_buf.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::region::Region;

    #[test]
    fn only_pages_behind_the_dma_buf_are_written_and_copied_up() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let memory = NicGpuMemory::new(&gpu, 2 << 20, 8192).expect("there is room");
        assert_eq!((memory.len(), memory.dma_buf_bytes()), ((2 << 20) + 8192, 2 << 20));
        memory.device().fill(1).expect("it is there");
        let region = Region::NicOnGpu(memory);
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
}
