#![allow(unsafe_code)]
//! Ordinary memory: owned buffers, and the extent of mappings.
//!
//! Also a buffer that a program has lent to a session.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use memmap2::{MmapMut, MmapRaw};

use crate::error::{Error, Result};

/// Page-aligned ordinary memory, zeroed.
#[derive(Debug)]
pub(crate) struct HostBuffer(MmapRaw);

impl HostBuffer {
    /// Allocates a buffer. A buffer of 0 bytes has an address too.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let map = MmapMut::map_anon(bytes.max(1)).map_err(|error| {
            Error::io(format!("allocating {bytes} bytes of host memory"), &error)
        })?;
        Ok(Self(map.into()))
    }

    /// Returns the address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.0.as_mut_ptr() as u64
    }
}

/// Returns the number of bytes from `address` to the end of the readable mappings, across
/// neighbouring ones. `None`: no readable memory is mapped there.
pub(crate) fn mapped_bytes(address: u64) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut end = None;
    for line in maps.lines() {
        let mut words = line.split([' ', '-']);
        let low = u64::from_str_radix(words.next()?, 16).ok()?;
        let high = u64::from_str_radix(words.next()?, 16).ok()?;
        let readable = words.next()?.starts_with('r');
        let follows = end == Some(low) || (low..high).contains(&address);
        if follows && readable {
            end = Some(high);
        }
    }
    end.map(|end| end - address)
}

/// Returns the number of bytes from `address` to the end of its mapping, whatever lies behind the
/// mapping. `None`: nothing is mapped there.
pub(crate) fn mapping_bytes(address: u64) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let ranges = maps.lines().filter_map(|line| {
        let (low, rest) = line.split_once('-')?;
        let high = rest.split(' ').next()?;
        Some(u64::from_str_radix(low, 16).ok()?..u64::from_str_radix(high, 16).ok()?)
    });
    let mut around = ranges.filter(|range| range.contains(&address));
    around.next().map(|range| range.end - address)
}

/// Buffer whose bytes other threads read and write by address while it lives. It is kept as a
/// pointer, because a `Box` would claim exclusive access.
#[derive(Debug)]
pub(crate) struct LentBuffer(NonNull<[u8]>);

// SAFETY: the value owns its bytes as the box did, which may be sent; no reference to them exists.
unsafe impl Send for LentBuffer {}

impl LentBuffer {
    pub(crate) fn new(buffer: Box<[u8]>) -> Self {
        Self(NonNull::from(Box::leak(buffer)))
    }

    /// Returns the address of the first byte. The pointer's provenance is exposed.
    pub(crate) fn address(&self) -> u64 {
        self.0.as_ptr().cast::<u8>().expose_provenance() as u64
    }

    /// Returns the buffer to its owner. The caller has made sure that its address is not used any
    /// more.
    pub(crate) fn into_box(self) -> Box<[u8]> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the pointer came from a box, and is turned back only here or in `drop`, which
        // does not run any more.
        unsafe { Box::from_raw(this.0.as_ptr()) }
    }
}

impl Drop for LentBuffer {
    fn drop(&mut self) {
        // SAFETY: as in `into_box`, which was not called.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_bytes_covers_a_mapping_and_nothing_unmapped() {
        let buffer = HostBuffer::new(1 << 20).unwrap();
        assert!(mapped_bytes(buffer.address()).unwrap() >= 1 << 20);
        assert_eq!(mapped_bytes(8), None);
        assert_eq!(mapping_bytes(8), None);
        let bytes = mapping_bytes(buffer.address()).unwrap();
        assert!((1 << 20..=mapped_bytes(buffer.address()).unwrap()).contains(&bytes));
    }

    #[test]
    fn what_is_written_by_address_comes_back_in_the_same_place() {
        let given: Box<[u8]> = vec![1; 64].into();
        let place = given.as_ptr();
        let lent = LentBuffer::new(given);
        assert_eq!(lent.address(), place.addr() as u64);
        // SAFETY: the buffer lives, and no other thread uses it.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(lent.address() as usize).write(7) };
        let back = lent.into_box();
        assert_eq!((back[0], back[1], back.len(), back.as_ptr()), (7, 1, 64, place));
        drop(LentBuffer::new(back));
    }
}
