//! Map of addresses to the memory behind them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUresult;

use crate::pages::Pages;
use crate::reservation::Reservation;
use crate::status::Result;

/// The right to read, in the driver's bit mask of access rights.
pub(crate) const READ: u32 = 1;
/// The right to write, which includes the right to read.
pub(crate) const WRITE: u32 = 2;

/// Bytes that a program can have of each GPU.
const GPU_BYTES: u64 = 16 << 30;

/// One allocation, or one mapping of memory that was made apart.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) bytes: u64,
    pub(crate) pages: Arc<Pages>,
    /// Where in the pages it begins.
    pub(crate) offset: usize,
    /// The GPU whose memory it is, or in whose context host memory was allocated.
    pub(crate) gpu: u32,
    /// What a GPU may do with it.
    pub(crate) rights: u32,
    /// What it is, and where else it can be found.
    pub(crate) side: AddressKind,
    /// The addresses, if they are its own.
    pub(crate) reservation: Option<Reservation>,
}

/// What a range of addresses leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressKind {
    /// A GPU's own memory.
    Device,
    /// Pinned memory, as the host sees it: the GPUs' alias begins at `alias`.
    Host { alias: u64 },
    /// The program's own memory, registered, as the host sees it: the same.
    Registered { alias: u64 },
    /// Pinned or registered memory, as GPUs see it: it begins at `host` for the CPU.
    Alias { host: u64 },
}

/// Bytes that the driver can reach.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLocation {
    pub(crate) pages: Arc<Pages>,
    pub(crate) offset: usize,
}

/// Every address that the driver knows.
#[derive(Debug, Default)]
pub(crate) struct AddressSpace {
    ranges: BTreeMap<u64, Range>,
    /// What a program has reserved to map memory there.
    reserved: BTreeMap<u64, Reservation>,
}

/// The process's address space.
pub(crate) fn space() -> MutexGuard<'static, AddressSpace> {
    static SPACE: Mutex<AddressSpace> =
        Mutex::new(AddressSpace { ranges: BTreeMap::new(), reserved: BTreeMap::new() });
    SPACE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AddressSpace {
    /// The range that `address` lies in, and its start.
    pub(crate) fn range_of(&self, address: u64) -> Option<(u64, &Range)> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        (address - start < range.bytes).then_some((start, range))
    }

    /// Where `bytes` bytes at `address` are; `None`: the driver does not know the address. Memory
    /// is an error where only its first part is there, or where it lacks these rights.
    pub(crate) fn place(
        &self,
        address: u64,
        bytes: usize,
        rights: u32,
    ) -> Result<Option<MemoryLocation>> {
        let Some((start, range)) = self.range_of(address) else { return Ok(None) };
        let within = address - start;
        if bytes as u64 > range.bytes - within || range.rights & rights != rights {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let offset = range.offset + within as usize;
        Ok(Some(MemoryLocation { pages: Arc::clone(&range.pages), offset }))
    }

    /// The same for a kernel on `gpu`, which reaches neither ordinary memory nor another GPU's.
    pub(crate) fn for_kernel(
        &self,
        gpu: u32,
        address: u64,
        bytes: usize,
        rights: u32,
    ) -> Result<MemoryLocation> {
        let illegal = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
        let (_, range) = self.range_of(address).ok_or(illegal)?;
        if range.side == AddressKind::Device && range.gpu != gpu {
            return Err(illegal);
        }
        self.place(address, bytes, rights).ok().flatten().ok_or(illegal)
    }

    /// Refuses an allocation for which the GPU has no room.
    pub(crate) fn check_room(&self, gpu: u32, bytes: u64) -> Result<()> {
        let own = |range: &&Range| range.gpu == gpu && range.side == AddressKind::Device;
        let used: u64 = self.ranges.values().filter(own).map(|range| range.bytes).sum();
        match used.checked_add(bytes) {
            Some(..=GPU_BYTES) => Ok(()),
            _ => Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        }
    }

    pub(crate) fn insert(&mut self, start: u64, range: Range) {
        self.ranges.insert(start, range);
    }

    /// Takes out the range that begins at `start`, if `fits` says that it is the one meant.
    pub(crate) fn remove(
        &mut self,
        start: u64,
        fits: impl FnOnce(&Range) -> bool,
    ) -> Result<Range> {
        match self.ranges.get(&start) {
            Some(range) if fits(range) => {}
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        self.ranges.remove(&start).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    /// A context has ended: its memory goes with it.
    pub(crate) fn remove_gpu(&mut self, gpu: u32) {
        self.ranges.retain(|_, range| range.gpu != gpu);
    }

    pub(crate) fn range_mut(&mut self, start: u64) -> Option<&mut Range> {
        self.ranges.get_mut(&start)
    }

    /// Whether any range touches these addresses.
    pub(crate) fn is_mapped(&self, start: u64, bytes: u64) -> bool {
        let end = start.saturating_add(bytes);
        self.ranges.range(..end).next_back().is_some_and(|(&at, range)| at + range.bytes > start)
    }

    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        self.reserved.insert(reservation.start, reservation);
    }

    /// Whether a program has reserved all of these addresses, in one piece.
    pub(crate) fn is_reserved(&self, start: u64, bytes: u64) -> bool {
        let found = self.reserved.range(..=start).next_back();
        found.is_some_and(|(&at, known)| {
            let within = start - at;
            within < known.bytes && bytes <= known.bytes - within
        })
    }

    /// Gives a reservation back, in which nothing is mapped any more.
    pub(crate) fn unreserve(&mut self, start: u64, bytes: u64) -> Result<()> {
        let is_it = self.reserved.get(&start).is_some_and(|known| known.bytes == bytes);
        if !is_it || self.is_mapped(start, bytes) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.reserved.remove(&start);
        Ok(())
    }
}
