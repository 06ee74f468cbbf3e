#![allow(unsafe_code)]
//! Host memory as a dma-buf, by udmabuf. It stands in for a GPU's memory, which CUDA exports.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::DevmemError;
use crate::host_memory::HostMemory;

/// `struct udmabuf_create` of the kernel's `udmabuf.h`.
#[repr(C)]
struct Create {
    memfd: u32,
    flags: u32,
    offset: u64,
    size: u64,
}

/// `UDMABUF_CREATE`: `_IOW('u', 0x42, struct udmabuf_create)`.
const CREATE: u64 = 0x4018_7542;
const CLOSE_ON_EXEC: u32 = 1;

/// Zeroed host memory, and the dma-buf by which NICs use it. NICs write to the memory at any time,
/// so there is no slice of it, only copies.
#[derive(Debug)]
pub struct HostBuffer {
    memory: HostMemory,
    dma_buf: OwnedFd,
    dma_buf_bytes: usize,
}

impl HostBuffer {
    /// Allocates `bytes` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// Returns [`DevmemError::NoUdmabuf`].
    pub fn new(bytes: usize) -> Result<Self, DevmemError> {
        Self::with_spare(bytes, 0)
    }

    /// Allocates as [`new`](Self::new) does, with `spare` bytes behind the dma-buf that are not
    /// part of it.
    ///
    /// # Errors
    /// Returns [`DevmemError::NoUdmabuf`].
    pub fn with_spare(bytes: usize, spare: usize) -> Result<Self, DevmemError> {
        Self::make(bytes, spare)
            .map_err(|source| DevmemError::NoUdmabuf { bytes: bytes as u64, source })
    }

    fn make(bytes: usize, spare: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = bytes.checked_next_multiple_of(page).filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or(io::ErrorKind::InvalidInput)?;
        let all = bytes.checked_add(spare).ok_or(io::ErrorKind::InvalidInput)?;
        let memory = HostMemory::new(all)?;
        let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/udmabuf")?;
        let create = Create {
            memfd: memory.file().as_raw_fd().cast_unsigned(),
            flags: CLOSE_ON_EXEC,
            offset: 0,
            size: bytes as u64,
        };
        // SAFETY: the descriptor is open; the kernel reads `create`, which is the struct that this
        // command takes, during the call.
        let fd = unsafe { libc::ioctl(device.as_raw_fd(), CREATE as _, &raw const create) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, which has no other owner.
        let dma_buf = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { memory, dma_buf, dma_buf_bytes: bytes })
    }

    /// Returns the size of the largest dma-buf that the system makes of host memory, or `None` when
    /// the system does not say.
    #[must_use]
    pub fn largest() -> Option<u64> {
        let text = std::fs::read_to_string("/sys/module/udmabuf/parameters/size_limit_mb").ok()?;
        text.trim().parse::<u64>().ok()?.checked_mul(1 << 20)
    }

    /// Returns the memory as a file, for copies between it and memory that may not be mapped. The
    /// system then returns an error.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.memory.file()
    }

    /// Returns the size of the dma-buf in bytes. The dma-buf begins where the buffer does.
    #[must_use]
    pub fn dma_buf_bytes(&self) -> usize {
        self.dma_buf_bytes
    }

    /// Returns the size of the buffer in bytes, including the spare bytes beside the dma-buf.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns whether the buffer has no bytes: always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    /// Copies bytes out of the buffer. Returns false when the range is not inside the buffer.
    #[must_use]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        self.memory.read(offset, to)
    }

    /// Copies bytes into the buffer. Returns false when the range is not inside the buffer.
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        self.memory.write(offset, from)
    }

    /// Returns the memory to the system, which frees it once no binding has it. The addresses stay
    /// mapped and read as zeros. The descriptor of [`AsFd`] is no longer a dma-buf.
    ///
    /// # Errors
    /// Returns the system's error; the memory stays then.
    pub fn discard(&self) -> io::Result<()> {
        let (memory, dma_buf) = (self.memory.file().as_raw_fd(), self.dma_buf.as_raw_fd());
        // SAFETY: both descriptors are open, and this buffer's own. The second, which closes the
        // dma-buf, names the memory's file from now on, so it stays open for its owner.
        if unsafe { libc::dup3(memory, dma_buf, libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        self.memory.discard()
    }
}

impl AsFd for HostBuffer {
    /// Returns the descriptor of the dma-buf.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dma_buf.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Returns `None` when the system has no udmabuf.
    fn buffer() -> Option<HostBuffer> {
        let made = HostBuffer::with_spare(5000, 1);
        made.inspect_err(|error| {
            assert_eq!(error.diagnosis().map(|it| it.code.number()), Some(425), "{error}");
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
        })
        .ok()
    }

    #[test]
    fn bytes_go_in_and_out_within_bounds() {
        let Some(buffer) = buffer() else { return };
        assert_eq!((buffer.len(), buffer.dma_buf_bytes(), buffer.is_empty()), (12288, 8192, false));
        assert!(buffer.write(8190, b"ab"));
        let mut found = [0xff; 3];
        assert!(buffer.read(8189, &mut found));
        assert_eq!(&found, b"\0ab");
        for offset in [12286, 12288, usize::MAX] {
            assert!(!buffer.read(offset, &mut found) && !buffer.write(offset, b"abc"), "{offset}");
        }
    }

    #[test]
    fn discarded_memory_reads_as_zeros_and_has_no_dma_buf() {
        let Some(buffer) = buffer() else { return };
        let inode = |of: BorrowedFd<'_>| rustix::fs::fstat(of).expect("it is open").st_ino;
        assert!(buffer.write(0, &[7; 12288]));
        assert_ne!(inode(buffer.as_fd()), inode(buffer.file()));
        buffer.discard().expect("the buffer is not bound");
        assert_eq!(inode(buffer.as_fd()), inode(buffer.file()), "the dma-buf is closed");
        let mut found = [0xff; 12288];
        assert!(buffer.read(0, &mut found));
        assert_eq!(found, [0; 12288]);
        buffer.discard().expect("again");
    }

    #[test]
    fn no_bytes_and_too_many_are_refused() {
        for bytes in [0, usize::MAX] {
            let error = HostBuffer::new(bytes).expect_err("no such size");
            assert!(matches!(error, DevmemError::NoUdmabuf { .. }), "{error}");
        }
    }
}
