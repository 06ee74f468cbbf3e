//! Which ranges of device memory have a dma-buf.

use std::os::fd::OwnedFd;

use cudarc::driver::sys::CUresult;

use crate::address_space::{AddressSpace, Side};
use crate::pages::PAGE_BYTES;
use crate::status::Result;

/// The descriptor of a dma-buf that covers `bytes` bytes at `address`.
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
    range.pages.duplicate()
}
