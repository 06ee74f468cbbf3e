//! A bounce region of the process with its page pool, shared by all receive comms with the same
//! kind of device memory.

use std::io;
use std::sync::{Arc, PoisonError};

use tcpx_cuda::CudaGpu;
use tcpx_devmem::{HostBuffer, HostMemory};
use tcpx_sys::UNPACK_PAGE_BYTES;

use super::nic_gpu_memory::NicGpuMemory;
use super::page_pool::{PagePool, PageRange};
use super::piece::Piece;
use super::region::Region;
use super::ring_memory::RingMemory;
use crate::sync::{Mutex, MutexGuard};

/// Value that recycled pages are overwritten with.
const POISON: u8 = 0xdb;

/// Fill level of the bounce region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Bytes of the region.
    pub bytes: u64,
    /// Pages of 4096 bytes in the region.
    pub total_pages: u32,
    /// Pages that are free now.
    pub free_pages: u32,
    /// Fewest pages that were ever free.
    pub low_water_pages: u32,
}

impl PoolStats {
    /// Adds up two regions. Their low water marks need not have been reached at the same time.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            total_pages: self.total_pages + other.total_pages,
            free_pages: self.free_pages + other.free_pages,
            low_water_pages: self.low_water_pages + other.low_water_pages,
        }
    }
}

/// A bounce region and its page pool.
#[derive(Debug)]
pub(crate) struct BounceBuffer {
    region: Region,
    pool: Mutex<PagePool>,
    poison: bool,
}

impl BounceBuffer {
    /// Creates a region of `bytes` bytes, a multiple of the page size and at most 4 GiB.
    pub(crate) fn new(bytes: u64, poison: bool) -> io::Result<Self> {
        Self::over(bytes, poison, Region::new)
    }

    /// Does the same as [`new`](Self::new), in pinned memory that GPUs read. The system's error has
    /// the driver's words.
    pub(crate) fn pinned(gpu: &CudaGpu, bytes: u64, poison: bool) -> io::Result<Self> {
        Self::over(bytes, poison, |bytes| Region::pinned(gpu, bytes).map_err(io::Error::other))
    }

    /// Does the same as [`pinned`](Self::pinned), with the pages that the consumer sees in the
    /// GPU's own memory.
    pub(crate) fn on_gpu(gpu: &CudaGpu, bytes: u64, poison: bool) -> io::Result<Self> {
        Self::over(bytes, poison, |bytes| Region::on_gpu(gpu, bytes).map_err(io::Error::other))
    }

    /// Creates a region whose dma-buf a NIC has, at most 4 GiB in all. Pages behind the dma-buf can
    /// be taken; those of the NIC never are.
    pub(crate) fn of_nic(buffer: HostBuffer, poison: bool) -> Self {
        let (bytes, dma_buf_bytes) = (buffer.len(), buffer.dma_buf_bytes());
        Self::behind(Region::Nic(buffer), bytes, dma_buf_bytes, poison)
    }

    /// Does the same in a GPU's memory.
    pub(crate) fn of_nic_on_gpu(memory: Arc<NicGpuMemory>, poison: bool) -> Self {
        let (bytes, dma_buf_bytes) = (memory.len(), memory.dma_buf_bytes());
        Self::behind(Region::NicOnGpu(memory), bytes, dma_buf_bytes, poison)
    }

    /// Does the same in host memory; the NIC has the first `area_bytes` bytes.
    pub(crate) fn of_ring(memory: HostMemory, area_bytes: usize, poison: bool) -> Self {
        let bytes = memory.len();
        Self::behind(Region::Ring(RingMemory::new(memory)), bytes, area_bytes, poison)
    }

    fn behind(region: Region, bytes: usize, bytes_of_nic: usize, poison: bool) -> Self {
        let pages = |bytes: usize| (bytes / UNPACK_PAGE_BYTES) as u32;
        let mut pool = PagePool::new(pages(bytes));
        // The lowest pages, which are those of the NIC.
        let _ = pool.take(pages(bytes_of_nic), &mut Vec::new());
        Self { region, pool: Mutex::new(pool), poison }
    }

    fn over(
        bytes: u64,
        poison: bool,
        make: impl FnOnce(usize) -> io::Result<Region>,
    ) -> io::Result<Self> {
        let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let pages = u32::try_from(bytes / UNPACK_PAGE_BYTES as u64).map_err(too_large)?;
        let region = make(usize::try_from(bytes).map_err(too_large)?)?;
        Ok(Self { region, pool: Mutex::new(PagePool::new(pages)), poison })
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Appends `pages` pages to `ranges`; all of them or none.
    pub(crate) fn take(&self, pages: u32, ranges: &mut Vec<PageRange>) -> bool {
        self.lock().take(pages, ranges)
    }

    /// Adds a use to a page that is in use.
    #[cfg(feature = "hooks")]
    pub(crate) fn share(&self, page: u32) {
        self.lock().share(page);
    }

    /// Gives pages back and empties `ranges`.
    pub(crate) fn release(&self, ranges: &mut Vec<PageRange>) {
        let mut pool = self.lock();
        for range in ranges.drain(..) {
            pool.release(range, |page| {
                self.spoil(self.region.pages(PageRange { first: page, count: 1 }));
            });
        }
    }

    /// Overwrites bytes that no consumer may read any more, if the region poisons recycled pages.
    fn spoil(&self, piece: Piece) {
        if self.poison {
            self.region.fill(piece, POISON);
        }
    }

    /// Does the same for bytes that a NIC has brought. The NIC may soon bring others to their
    /// place.
    pub(crate) fn spoil_all(&self, pieces: &mut Vec<Piece>) {
        pieces.drain(..).for_each(|piece| self.spoil(piece));
    }

    /// Returns whether recycled pages are overwritten.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.poison
    }

    pub(crate) fn total_pages(&self) -> u32 {
        self.lock().total_pages()
    }

    /// Returns how full the region is.
    pub(crate) fn stats(&self) -> PoolStats {
        let pool = self.lock();
        PoolStats {
            bytes: u64::from(pool.total_pages()) * UNPACK_PAGE_BYTES as u64,
            total_pages: pool.total_pages(),
            free_pages: pool.free_pages(),
            low_water_pages: pool.low_water(),
        }
    }

    /// Locks the pool. It keeps its invariants at every step, so a panic elsewhere does not spoil
    /// it.
    fn lock(&self) -> MutexGuard<'_, PagePool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn received_bytes_are_overwritten_if_the_region_poisons() {
        for poison in [true, false] {
            let buffer = match HostBuffer::with_spare(8192, 4096) {
                Ok(buffer) => buffer,
                Err(error) => {
                    let _ = writeln!(std::io::stderr(), "skipped: {error}");
                    return;
                }
            };
            assert!(buffer.write(0, &[7; 12288]));
            let bounce = BounceBuffer::of_nic(buffer, poison);
            assert_eq!(bounce.is_spoiled(), poison);
            let mut pieces = vec![bounce.region().piece(100, 50)];
            bounce.spoil_all(&mut pieces);
            assert!(pieces.is_empty());
            let Region::Nic(buffer) = bounce.region() else { panic!("it is one") };
            let mut found = [0; 52];
            assert!(buffer.read(99, &mut found));
            let expected = if poison { POISON } else { 7 };
            assert_eq!((found[0], found[51]), (7, 7), "its neighbours are others'");
            assert!(found[1..51].iter().all(|&byte| byte == expected), "{found:?}");
        }
    }
}
