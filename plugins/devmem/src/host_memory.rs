#![allow(unsafe_code)]
//! Host memory that NICs write to, and the kernel on their behalf.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};

/// Zeroed host memory, in whole pages. NICs and the kernel write to it at any time, so there is no
/// slice of it, only copies. A forked process shares the memory.
#[derive(Debug)]
pub struct HostMemory {
    map: MmapRaw,
    file: OwnedFd,
}

impl HostMemory {
    /// Allocates `bytes` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// Returns the system's error. Zero bytes are refused.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = bytes.checked_next_multiple_of(page).filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("tcpx-devmem", flags)?;
        ftruncate(&file, bytes as u64)?;
        // Pages that a NIC has must stay; udmabuf requires this seal.
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        let map = MmapOptions::new().len(bytes).map_raw(&file)?;
        Ok(Self { map, file })
    }

    /// Returns the memory as a file, for copies between it and memory that may not be mapped. The
    /// system then returns an error.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the memory to the system. The addresses stay mapped and read as zeros.
    ///
    /// # Errors
    /// Returns the system's error; the memory stays then.
    pub fn discard(&self) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, 0, self.len() as u64)?)
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns whether the memory has no bytes: always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Copies bytes out of the memory. Returns false when the range is not inside the memory.
    #[must_use]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.range(offset, to.len()) else { return false };
        // SAFETY: `from` is the first of as many bytes of the mapping, which lives as long as
        // `self`. `to` is exclusively borrowed, so it does not overlap the mapping. Bytes that a
        // NIC writes during the copy come out old or new.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes into the memory. Returns false when the range is not inside the memory.
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.range(offset, from.len()) else { return false };
        // SAFETY: `to` is the first of as many bytes of the mapping, which lives as long as `self`;
        // no reference to them exists.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        true
    }

    fn range(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= self.len()).then(|| self.as_mut_ptr().wrapping_add(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_in_and_out_within_bounds() {
        let memory = HostMemory::new(5000).expect("memory");
        assert_eq!((memory.len(), memory.is_empty()), (8192, false));
        assert!(memory.write(8190, b"ab"));
        let mut found = [0xff; 3];
        assert!(memory.read(8189, &mut found));
        assert_eq!(&found, b"\0ab");
        for offset in [8190, 8192, usize::MAX] {
            assert!(!memory.read(offset, &mut found) && !memory.write(offset, b"abc"), "{offset}");
        }
        for bytes in [0, usize::MAX] {
            assert!(HostMemory::new(bytes).is_err(), "no such size");
        }
    }

    #[test]
    fn discarded_memory_is_freed_and_reads_as_zeros() {
        let memory = HostMemory::new(8192).expect("memory");
        assert!(memory.write(0, &[7; 8192]));
        let blocks = || rustix::fs::fstat(memory.file()).expect("a file").st_blocks;
        assert_eq!(blocks(), 8192 / 512);
        memory.discard().expect("the memory has one owner");
        assert_eq!(blocks(), 0);
        let mut found = [0xff; 8192];
        assert!(memory.read(0, &mut found));
        assert_eq!(found, [0; 8192]);
    }
}
