#![allow(unsafe_code)]
//! Addresses that belong to a GPU: the CPU may not touch them.

use std::ptr;

use cudarc::driver::sys::CUresult;

use crate::status::Result;

/// A range of addresses of this process behind which there is nothing.
#[derive(Debug)]
pub(crate) struct Reservation {
    mapped: *mut libc::c_void,
    mapped_bytes: usize,
    /// First address, aligned as asked.
    pub(crate) start: u64,
    /// Bytes from there on.
    pub(crate) bytes: u64,
}

// SAFETY: the range belongs to this value alone; nothing about it is tied to a thread.
unsafe impl Send for Reservation {}

impl Reservation {
    /// `align` is a power of two.
    pub(crate) fn new(bytes: u64, align: u64) -> Result<Self> {
        let mapped_bytes = bytes
            .checked_add(align)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|_| bytes > 0)
            .ok_or(CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, wherever the system likes.
        let mapped =
            unsafe { libc::mmap(ptr::null_mut(), mapped_bytes, libc::PROT_NONE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let start = (mapped.addr() as u64).next_multiple_of(align);
        Ok(Self { mapped, mapped_bytes, start, bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: new() made this mapping, and nothing can use it.
        unsafe { libc::munmap(self.mapped, self.mapped_bytes) };
    }
}
