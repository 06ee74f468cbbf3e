//! Which ranges of device memory have a dma-buf.

use std::os::fd::OwnedFd;

use cudarc::driver::sys::CUresult;

use crate::address_space::{AddressSpace, Side};
use crate::ordinary::memory_file;
use crate::pages::PAGE_BYTES;
use crate::status::Result;

/// A descriptor that stands for the dma-buf of `bytes` bytes at `address`. It is an empty file:
/// there is no device that could read the memory through it.
///
/// As the real driver: whole pages, of one allocation or mapping of a GPU, which may be rounded up
/// to pages at its end; never host memory. It is stricter at the other end: the range must not
/// begin before its allocation. Driver 580 exports the whole block of 2 MiB that a small allocation
/// shares with others.
pub(crate) fn export(space: &AddressSpace, address: u64, bytes: u64) -> Result<OwnedFd> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let is_whole = address.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
    if address == 0 || bytes == 0 || !is_whole {
        return Err(invalid);
    }
    let (start, range) = space.range_of(address).ok_or(invalid)?;
    let left = (range.bytes - (address - start)).next_multiple_of(PAGE_BYTES);
    if range.side != Side::Device || bytes > left {
        return Err(invalid);
    }
    memory_file()
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
            pages: Pages::new(5000).expect("there is room"),
            offset: 0,
            gpu: 0,
            rights: READ | WRITE,
            side,
            reservation: None,
        };
        space.insert(START, range(Side::Device));
        space.insert(8 << 20, range(Side::Device));
        space.insert(9 << 20, range(Side::Host { alias: 0 }));
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
