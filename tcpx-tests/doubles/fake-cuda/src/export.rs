#![allow(unsafe_code)]
//! Ranges of device memory as dma-bufs.

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use cudarc::driver::sys::CUresult;

use crate::address_space::{AddressKind, AddressSpace};
use crate::ordinary::memory_file;
use crate::pages::PAGE_BYTES;
use crate::status::Result;

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

/// Whether the GPUs export anything. `TCPX_FAKE_CUDA_DMA_BUF=0`: a driver, or a GPU, that does not.
pub(crate) fn is_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| std::env::var("TCPX_FAKE_CUDA_DMA_BUF").as_deref() != Ok("0"))
}

/// The dma-buf of `bytes` bytes at `address`. Where the system has no udmabuf, an empty file stands
/// for it: the driver's answer is right, but no device could read the memory through it, and a NIC
/// refuses it.
///
/// As the real driver: whole pages, of one allocation or mapping of a GPU, which may be rounded up
/// to pages at its end; never host memory. It is stricter at the other end: the range must not
/// begin before its allocation. Driver 580 exports the whole block of 2 MiB that a small allocation
/// shares with others.
pub(crate) fn export(space: &AddressSpace, address: u64, bytes: u64) -> Result<OwnedFd> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    if !is_supported() {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let is_whole = address.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
    if address == 0 || bytes == 0 || !is_whole {
        return Err(invalid);
    }
    let (start, range) = space.range_of(address).ok_or(invalid)?;
    let left = (range.bytes - (address - start)).next_multiple_of(PAGE_BYTES);
    if range.side != AddressKind::Device || bytes > left {
        return Err(invalid);
    }
    let slice = range.pages.slice().ok_or(invalid)?;
    let Ok(udmabuf) = OpenOptions::new().read(true).write(true).open("/dev/udmabuf") else {
        return memory_file();
    };
    let offset = slice.offset() + range.offset as u64 + (address - start);
    dma_buf(udmabuf.as_raw_fd(), slice.file(), offset, bytes)
}

/// What the system refuses, for its size for instance, the driver has no words for.
fn dma_buf(udmabuf: RawFd, file: RawFd, offset: u64, bytes: u64) -> Result<OwnedFd> {
    let create = Create { memfd: file.cast_unsigned(), flags: CLOSE_ON_EXEC, offset, size: bytes };
    // SAFETY: both descriptors are open; the kernel reads `create`, which is the struct that this
    // command takes, during the call.
    let made = unsafe { libc::ioctl(udmabuf, CREATE as _, &raw const create) };
    if made < 0 {
        return Err(CUresult::CUDA_ERROR_UNKNOWN);
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::{READ, Range, WRITE};
    use crate::pages::Pages;

    /// An allocation of 5000 bytes, 512 bytes into its first page.
    const START: u64 = (7 << 20) + 512;

    #[test]
    fn whole_pages_inside_an_allocation_are_exported() {
        let mut space = AddressSpace::default();
        let range = |side| Range {
            bytes: 5000,
            pages: Pages::of_gpu(512 + 5000).expect("there is room"),
            offset: 512,
            gpu: 0,
            rights: READ | WRITE,
            side,
            reservation: None,
        };
        space.insert(START, range(AddressKind::Device));
        space.insert(8 << 20, range(AddressKind::Device));
        space.insert(9 << 20, range(AddressKind::Host { alias: 0 }));
        for (address, bytes, expected) in [
            // Before the allocation, within it, its last page, and past it.
            (START - 512, 4096, false),
            (START - 512 + 4096, 4096, true),
            (8 << 20, 8192, true),
            (8 << 20, 12_288, false),
            // No pages.
            (8 << 20, 5000, false),
            ((8 << 20) + 512, 4096, false),
            (8 << 20, 0, false),
            (0, 4096, false),
            // Host memory, and nothing.
            (9 << 20, 4096, false),
            (10 << 20, 4096, false),
        ] {
            let exported = export(&space, address, bytes).is_ok();
            assert_eq!(exported, expected, "{bytes} bytes at {address:#x}");
        }
    }
}
