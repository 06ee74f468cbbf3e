#![allow(unsafe_code)]
//! Bytes that the driver reaches, mapped where only the driver knows.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use cudarc::driver::sys::CUresult;

use crate::program_memory::Backing;
use crate::status::Result;
use crate::video_memory::Slice;

/// Size of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Content of device memory before the first write: nothing that a program may rely on.
const POISON: u8 = 0xcd;
/// How much of it is overwritten with that.
const POISONED_BYTES: usize = 1 << 20;

/// Whole pages of memory. Programs, threads of streams and, where the pages are pinned memory, the
/// CPU use them at the same time, so no reference to the bytes is ever made.
#[derive(Debug)]
pub(crate) struct Pages {
    first: NonNull<u8>,
    bytes: usize,
    /// Of a GPU's memory: where it is for other devices.
    slice: Option<Slice>,
    /// Of memory that the program has registered: what lies behind it.
    backing: Option<Backing>,
}

// SAFETY: the mapping belongs to this value alone, and no thread is tied to it.
unsafe impl Send for Pages {}
// SAFETY: its bytes are only reached through raw pointers and atomics.
unsafe impl Sync for Pages {}

impl Pages {
    /// Zeroed pages of the host's for at least `bytes`.
    pub(crate) fn new(bytes: u64) -> Result<Arc<Self>> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Self::map(whole_pages(bytes)?, flags, None)
    }

    /// Pages of a GPU's own memory, full of what was there before.
    pub(crate) fn of_gpu(bytes: u64) -> Result<Arc<Self>> {
        let bytes = whole_pages(bytes)?;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let pages = Self::map(bytes, flags, Some(Slice::new(bytes as u64)?))?;
        pages.fill(0, POISON, pages.bytes.min(POISONED_BYTES));
        Ok(pages)
    }

    /// The program's own pages at `address`, which it shares with this second mapping of them: they
    /// are still there when the program has taken away its own.
    pub(crate) fn of_program(address: u64, bytes: u64) -> Result<Arc<Self>> {
        let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
        let backing = Backing::of(address, bytes)?;
        let bytes = usize::try_from(bytes).map_err(|_| refused)?;
        let old = ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: an old size of 0 leaves the old mapping as it is, and makes another of the same
        // pages, wherever the system likes.
        let first = unsafe { libc::mremap(old, 0, bytes, libc::MREMAP_MAYMOVE) };
        let first: *mut u8 = if first == libc::MAP_FAILED { ptr::null_mut() } else { first.cast() };
        let first = NonNull::new(first).ok_or(refused)?;
        // The real driver locks all of it: so each page is there, wherever the system puts it now.
        // SAFETY: the caller's mapping, as the system has just said. Its bytes stay as they are.
        let locked = unsafe { libc::madvise(old, bytes, libc::MADV_POPULATE_WRITE) };
        if locked != 0 {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        Ok(Arc::new(Self { first, bytes, slice: None, backing: Some(backing) }))
    }

    fn map(bytes: usize, flags: c_int, slice: Option<Slice>) -> Result<Arc<Self>> {
        let full = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (file, offset) = slice.as_ref().map_or((-1, 0), |slice| (slice.file(), slice.offset()));
        let offset = libc::off_t::try_from(offset).map_err(|_| full)?;
        // SAFETY: a new mapping, wherever the system likes.
        let first = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, file, offset) };
        if first == libc::MAP_FAILED {
            return Err(full);
        }
        let first = NonNull::new(first.cast()).ok_or(full)?;
        Ok(Arc::new(Self { first, bytes, slice, backing: None }))
    }

    /// Where it is for other devices, if it is a GPU's.
    pub(crate) fn slice(&self) -> Option<&Slice> {
        self.slice.as_ref()
    }

    /// What lay behind it when the program registered it.
    pub(crate) fn backing(&self) -> Option<&Backing> {
        self.backing.as_ref()
    }

    /// Where the host finds the first byte.
    pub(crate) fn host_address(&self) -> u64 {
        self.first.as_ptr().expose_provenance() as u64
    }

    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "checked by `place`");
        // SAFETY: the assertion keeps the offset inside the mapping.
        unsafe { self.first.as_ptr().add(offset) }
    }

    /// Copies between two places, which may overlap.
    pub(crate) fn copy(from: (&Self, usize), to: (&Self, usize), bytes: usize) {
        let (source, target) = (from.0.at(from.1, bytes), to.0.at(to.1, bytes));
        // SAFETY: both ranges lie in mappings that are alive. A thread that races with a GPU's copy
        // gets any mixture of bytes, as with a GPU.
        unsafe { ptr::copy(source, target, bytes) };
    }

    /// Copies out.
    pub(crate) fn read(&self, offset: usize, content: &mut [u8]) {
        // SAFETY: the range lies in a mapping that is alive, the slice elsewhere.
        unsafe {
            self.at(offset, content.len())
                .copy_to_nonoverlapping(content.as_mut_ptr(), content.len())
        };
    }

    /// Copies in.
    pub(crate) fn write(&self, offset: usize, content: &[u8]) {
        // SAFETY: as for `read`.
        unsafe {
            self.at(offset, content.len()).copy_from_nonoverlapping(content.as_ptr(), content.len())
        };
    }

    pub(crate) fn fill(&self, offset: usize, value: u8, bytes: usize) {
        // SAFETY: the range lies in a mapping that is alive.
        unsafe { self.at(offset, bytes).write_bytes(value, bytes) };
    }

    /// The aligned 32-bit word at `offset`.
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let word = self.at(offset, 4).cast::<u32>();
        // SAFETY: inside the mapping, aligned, and never referred to but as an atomic.
        word.is_aligned().then(|| unsafe { AtomicU32::from_ptr(word) })
    }

    /// The aligned 64-bit word at `offset`.
    pub(crate) fn long_word(&self, offset: usize) -> Option<&AtomicU64> {
        let word = self.at(offset, 8).cast::<u64>();
        // SAFETY: as for `word`.
        word.is_aligned().then(|| unsafe { AtomicU64::from_ptr(word) })
    }
}

fn whole_pages(bytes: u64) -> Result<usize> {
    bytes
        .checked_next_multiple_of(PAGE_BYTES)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| (1..isize::MAX as usize).contains(bytes))
        .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: new() made this mapping, and nothing can use it.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
