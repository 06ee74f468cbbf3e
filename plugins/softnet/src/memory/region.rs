#![allow(unsafe_code)]
//! Memory of a bounce region: ordinary, pinned, a GPU's own, or memory that NICs write to.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, PinnedBuffer};
use tcpx_devmem::HostBuffer;
use tcpx_sys::UNPACK_PAGE_BYTES;

use super::nic_gpu_memory::NicGpuMemory;
use super::page_pool::PageRange;
use super::piece::Piece;
use super::ring_memory::RingMemory;
use crate::log;

/// Memory that device receives go to. There is one of each kind in a process, and it is never
/// freed.
#[derive(Debug)]
pub(crate) enum Region {
    /// Ordinary memory, touched only as pages are used.
    Mapped(MmapRaw),
    /// Page-locked memory, which every GPU reads.
    Pinned(PinnedBuffer),
    /// Memory of a GPU, with pinned memory of the same size beside it. Page k of the pinned memory
    /// is copied to page k of the GPU's.
    OnGpu { pinned: PinnedBuffer, device: DeviceBuffer },
    /// Memory that stands in for a GPU's, into which a NIC puts what it receives. Pages behind it
    /// take bytes that come in host memory.
    Nic(HostBuffer),
    /// A GPU's memory, into which a NIC puts what it receives. Pieces of it count at the GPU's
    /// addresses.
    NicOnGpu(Arc<NicGpuMemory>),
    /// Host memory into which a NIC puts what it receives, and pages behind that. GPUs read it once
    /// it is registered.
    Ring(RingMemory),
}

/// Bytes behind a mapped region that must not be touched. So the system never joins the region with
/// a mapping behind it, and /proc/self/maps shows how long it is.
const GUARD_BYTES: usize = UNPACK_PAGE_BYTES;

/// Outcome for the memory of a region that is not in use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscardOutcome {
    /// The system has the memory.
    Freed,
    /// The next region of the same kind uses the memory.
    Reusable,
    /// The memory stays until the process ends.
    Retained,
}

impl Region {
    /// Creates a region of `bytes` bytes, a multiple of the page size and at most 4 GiB, because
    /// entries have 32-bit offsets.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let whole = bytes + GUARD_BYTES;
        let map: MmapMut = MmapOptions::new().len(whole).no_reserve_swap().map_anon()?;
        let map = MmapRaw::from(map);
        // SAFETY: these are the last pages of a mapping of this function's own, to which nothing
        // refers: `bytes` is a multiple of their size, and so they begin on one.
        let guarded = unsafe {
            libc::mprotect(map.as_mut_ptr().add(bytes).cast(), GUARD_BYTES, libc::PROT_NONE)
        };
        if guarded != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::Mapped(map))
    }

    /// Does the same as [`new`](Self::new), for consumers on GPUs. All of the memory is taken, and
    /// locked, at once.
    pub(crate) fn pinned(gpu: &CudaGpu, bytes: usize) -> Result<Self, CudaError> {
        PinnedBuffer::new(gpu, bytes as u64).map(Self::Pinned)
    }

    /// Does the same as [`pinned`](Self::pinned), for a consumer that finds the pages in the GPU's
    /// own memory.
    pub(crate) fn on_gpu(gpu: &CudaGpu, bytes: usize) -> Result<Self, CudaError> {
        let pinned = PinnedBuffer::new(gpu, bytes as u64)?;
        Ok(Self::OnGpu { pinned, device: DeviceBuffer::new(gpu, bytes as u64)? })
    }

    /// Returns the address from which pieces count.
    fn base(&self) -> *mut u8 {
        match self {
            Self::Mapped(map) => map.as_mut_ptr(),
            Self::Pinned(buffer) | Self::OnGpu { pinned: buffer, .. } => buffer.as_ptr(),
            Self::Nic(buffer) => buffer.as_mut_ptr(),
            Self::NicOnGpu(memory) => memory.as_mut_ptr(),
            Self::Ring(memory) => memory.memory().as_mut_ptr(),
        }
    }

    /// Lets GPUs read the memory where they could not yet. Returns whether this is new.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn register(&self, gpu: &CudaGpu) -> Result<bool, CudaError> {
        match self {
            Self::Ring(memory) => memory.register(gpu),
            Self::Mapped(_)
            | Self::Pinned(_)
            | Self::OnGpu { .. }
            | Self::Nic(_)
            | Self::NicOnGpu(_) => Ok(false),
        }
    }

    /// Returns the address at which the consumer reads, on a GPU or on the host.
    pub(crate) fn consumer_base(&self, on_gpu: bool) -> *mut u8 {
        match self {
            Self::OnGpu { device, .. } => {
                core::ptr::with_exposed_provenance_mut(device.address() as usize)
            }
            Self::Pinned(buffer) => {
                core::ptr::with_exposed_provenance_mut(buffer.device_address() as usize)
            }
            Self::Ring(memory) => match memory.device_address().filter(|_| on_gpu) {
                Some(address) => core::ptr::with_exposed_provenance_mut(address as usize),
                None => self.base(),
            },
            Self::Mapped(_) | Self::Nic(_) | Self::NicOnGpu(_) => self.base(),
        }
    }

    /// Returns the address of a consumer on a GPU, as a number.
    pub(crate) fn consumer_address(&self) -> u64 {
        self.consumer_base(true).addr() as u64
    }

    /// Returns the kind of memory, for the log.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Mapped(_) => "ordinary memory",
            Self::Pinned(_) => "pinned memory",
            Self::OnGpu { .. } => "GPU memory and as much pinned memory",
            Self::Nic(_) => "memory that a NIC receives into",
            Self::NicOnGpu(_) => "GPU memory that a NIC receives into",
            Self::Ring(_) => "host memory that a NIC receives into",
        }
    }

    /// Returns whether bytes that have arrived must be copied to the consumer's memory.
    pub(crate) fn is_on_gpu(&self) -> bool {
        matches!(self, Self::OnGpu { .. } | Self::NicOnGpu(_))
    }

    /// Returns the memory that must be copied up to the consumer for this piece; `None`: the bytes
    /// are there already.
    pub(crate) fn upload_source(&self, piece: Piece) -> Option<Piece> {
        match self {
            Self::Mapped(_) | Self::Pinned(_) | Self::Nic(_) | Self::Ring(_) => None,
            Self::OnGpu { .. } => Some(piece),
            Self::NicOnGpu(memory) => memory.beside(self.offset(piece), piece.len()),
        }
    }

    /// Copies bytes to the start of a piece, cut to its length, or to the memory from which they
    /// are copied up. Memory that only a NIC writes stays as it is.
    pub(crate) fn write(&self, piece: Piece, bytes: &[u8]) {
        let place = match self {
            Self::NicOnGpu(memory) => memory.beside(self.offset(piece), piece.len()),
            _ => Some(piece),
        };
        if let Some(place) = place {
            place.write(bytes);
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Mapped(map) => map.len() - GUARD_BYTES,
            Self::Pinned(buffer) | Self::OnGpu { pinned: buffer, .. } => buffer.bytes() as usize,
            Self::Nic(buffer) => buffer.len(),
            Self::NicOnGpu(memory) => memory.len(),
            Self::Ring(memory) => memory.memory().len(),
        }
    }

    /// Returns `len` bytes from `offset`, cut to the region. The caller holds the pages that they
    /// lie in.
    pub(crate) fn piece(&self, offset: usize, len: usize) -> Piece {
        let base = self.base().expose_provenance();
        // SAFETY: the region is never freed, and its pages are touched by their holders alone.
        let whole = unsafe { Piece::lent(base, self.len()) };
        whole.slice(offset, len)
    }

    /// Returns the memory as a file, where a NIC writes to host memory.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Nic(buffer) => Some(buffer.file()),
            Self::Mapped(_) | Self::Pinned(_) | Self::OnGpu { .. } | Self::NicOnGpu(_) => None,
            Self::Ring(memory) => Some(memory.memory().file()),
        }
    }

    /// Returns the offset of a piece of this region.
    pub(crate) fn offset(&self, piece: Piece) -> usize {
        piece.address().wrapping_sub(self.base().addr())
    }

    /// Returns the memory of whole pages.
    pub(crate) fn pages(&self, range: PageRange) -> Piece {
        let bytes = |pages: u32| pages as usize * UNPACK_PAGE_BYTES;
        self.piece(bytes(range.first), bytes(range.count))
    }

    /// Gives up memory that a NIC has had and that is not in use any more. Host memory goes back to
    /// the system; the addresses stay. A GPU's memory is left for the next region. Host memory that
    /// GPUs see is kept. To unregister it, or to free a GPU's memory, waits for all work of the
    /// GPU, and copies wait with it.
    pub(crate) fn discard(&self) -> io::Result<DiscardOutcome> {
        match self {
            Self::Nic(buffer) => buffer.discard().map(|()| DiscardOutcome::Freed),
            Self::Ring(memory) if memory.device_address().is_none() => {
                memory.memory().discard().map(|()| DiscardOutcome::Freed)
            }
            Self::NicOnGpu(memory) => {
                memory.leave();
                Ok(DiscardOutcome::Reusable)
            }
            Self::Ring(_) | Self::Mapped(_) | Self::Pinned(_) | Self::OnGpu { .. } => {
                Ok(DiscardOutcome::Retained)
            }
        }
    }

    /// Overwrites a piece of the region that has no holder any more.
    pub(crate) fn fill(&self, piece: Piece, value: u8) {
        let offset = self.offset(piece);
        // Cut to the region, whatever piece was given.
        let piece = self.piece(offset, piece.len());
        let (host, device) = match self {
            Self::NicOnGpu(memory) => (memory.beside(offset, piece.len()), Some(memory.device())),
            Self::OnGpu { device, .. } => (Some(piece), Some(device)),
            Self::Mapped(_) | Self::Pinned(_) | Self::Nic(_) | Self::Ring(_) => (Some(piece), None),
        };
        let host = host.unwrap_or(Piece::EMPTY);
        let target = core::ptr::with_exposed_provenance_mut::<u8>(host.address());
        // SAFETY: `host` lies in the mapping, which is writable and never unmapped, or is empty.
        unsafe { core::ptr::write_bytes(target, value, host.len()) };
        if let Some(device) = device
            && let Err(error) = device.fill_range(offset as u64, value, piece.len() as u64)
        {
            log::warn!("cannot overwrite bounce pages on the GPU: {error}");
        }
    }
}
