#![allow(unsafe_code)]
//! The memory of all GPUs: one file in memory, without a name, which grows with each allocation and
//! has holes where one was freed. So the system can make a dma-buf of any part of it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::CUresult;

use crate::status::Result;

/// Addresses of the file: more than a process can allocate in its life.
const FILE_BYTES: u64 = 1 << 50;

/// Where the next allocation begins. No place is used twice: a dma-buf of memory that was freed
/// keeps its old pages, and must not show anything else.
static END: AtomicU64 = AtomicU64::new(0);

fn file() -> Result<&'static OwnedFd> {
    static FILE: OnceLock<Option<OwnedFd>> = OnceLock::new();
    FILE.get_or_init(make).as_ref().ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

fn make() -> Option<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with 0.
    let file = unsafe { libc::memfd_create(c"fake-cuda-gpus".as_ptr(), flags) };
    if file < 0 {
        return None;
    }
    // SAFETY: the file was just made, and nothing else has it.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // SAFETY: the descriptor is open.
    let grown = unsafe { libc::ftruncate(file.as_raw_fd(), FILE_BYTES as libc::off_t) };
    // udmabuf wants to know that no page goes away by itself.
    // SAFETY: as above.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
    (grown == 0 && sealed == 0).then_some(file)
}

/// A part of it, which is empty again when this is dropped.
#[derive(Debug)]
pub(crate) struct Slice {
    file: RawFd,
    offset: u64,
    bytes: u64,
}

impl Slice {
    /// This many bytes, in whole pages.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let file = file()?.as_raw_fd();
        let offset = END.fetch_add(bytes, Ordering::Relaxed);
        match offset.checked_add(bytes) {
            Some(..=FILE_BYTES) => Ok(Self { file, offset, bytes }),
            _ => Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        }
    }

    pub(crate) fn file(&self) -> RawFd {
        self.file
    }

    /// Where it begins in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, bytes) = (self.offset as libc::off_t, self.bytes as libc::off_t);
        // SAFETY: the file lives as long as the process. What the system refuses to free stays
        // unused.
        unsafe { libc::fallocate(self.file, mode, offset, bytes) };
    }
}
