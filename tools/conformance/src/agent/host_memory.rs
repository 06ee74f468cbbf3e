#![allow(unsafe_code)]
//! Memory that the CPU reaches, by address.
//!
//! The process is expendable: a wrong address ends it, and with it the check, but never the program
//! that runs the checks. Nothing here forms a reference to memory that the plugin may write.

use std::io;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};

use crate::link::command::Reply;
use crate::message::unpack_row::Entry;

/// Bytes behind each allocation that no access may touch.
const FENCE_BYTES: usize = 64 * 1024;

/// Returns the pointer of an address that a check sent.
pub(super) fn pointer<T>(address: u64) -> *mut T {
    with_exposed_provenance_mut(address as usize)
}

/// Returns the address of a pointer, as it travels to a check.
pub(super) fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// Allocates memory, page-aligned and zeroed, and returns its address. It is never freed, since
/// requests may refer to it until the process ends. An access beyond its last page ends the
/// process. Untouched pages cost nothing.
pub(super) fn allocate(bytes: u64) -> Reply<u64> {
    let failure = |why: String| format!("cannot allocate {bytes} bytes: {why}");
    let mapped = usize::try_from(bytes.max(1)).ok();
    let whole = mapped.and_then(|mapped| mapped.checked_add(FENCE_BYTES));
    let (Some(mapped), Some(whole)) = (mapped, whole) else {
        return Err(failure("the address space is smaller".to_owned()));
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without a place and a file it touches nothing that exists.
    let memory = unsafe { libc::mmap(null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(failure(io::Error::last_os_error().to_string()));
    }
    // SAFETY: this is the beginning of the new mapping, which nothing refers to yet.
    match unsafe { libc::mprotect(memory, mapped, libc::PROT_READ | libc::PROT_WRITE) } {
        0 => Ok(address(memory)),
        _ => Err(failure(io::Error::last_os_error().to_string())),
    }
}

/// Copies bytes out with volatile reads, since the plugin may write them at the same time.
pub(super) fn read(at: u64, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0; bytes];
    // SAFETY: the check names bytes that it allocated or that the plugin published; see the head of
    // this file. The vector has room for as many and does not overlap them.
    unsafe { copy_volatile(with_exposed_provenance(at as usize), copy.as_mut_ptr(), bytes) };
    copy
}

/// Reads one aligned word in a single access.
pub(super) fn read_word(at: u64) -> u64 {
    // SAFETY: the check names a word of the unpack queue, whose words are aligned; see the head of
    // this file.
    unsafe { with_exposed_provenance::<u64>(at as usize).read_volatile() }
}

/// Copies `bytes` to `at`.
pub(super) fn write(at: u64, bytes: &[u8]) {
    // SAFETY: the check names memory that it allocated, of at least this length; a fresh vector
    // does not overlap it.
    unsafe { pointer::<u8>(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

/// Copies each entry to its destination. The check has bounded the destinations.
pub(super) fn gather(bounce: u64, entries: &[Entry], to: u64) {
    let (bounce, to): (*const u8, *mut u8) =
        (with_exposed_provenance(bounce as usize), pointer(to));
    for entry in entries {
        // SAFETY: the check has bounded the destination by its buffer. The plugin states the
        // source; if it lies outside the bounce buffer, the error ends this process alone.
        unsafe {
            copy_volatile(
                bounce.add(entry.src_off as usize),
                to.add(entry.dst_off as usize),
                entry.len as usize,
            );
        }
    }
}

/// Copies from memory that other code may write.
///
/// # Safety
/// `bytes` are readable at `from` and writable at `to`, and the two do not overlap.
pub(super) unsafe fn copy_volatile(from: *const u8, to: *mut u8, bytes: usize) {
    let head = from.align_offset(size_of::<u64>()).min(bytes);
    let words = (bytes - head) / size_of::<u64>();
    let byte = |i: usize| {
        // SAFETY: `i` is below `bytes`, for which the caller vouches on both sides.
        unsafe { to.add(i).write(from.add(i).read_volatile()) };
    };
    (0..head).for_each(byte);
    for i in 0..words {
        let at = head + i * size_of::<u64>();
        // SAFETY: `at + 8` is at most `bytes`; `from + at` is aligned by the choice of `head`.
        unsafe {
            to.add(at).cast::<u64>().write_unaligned(from.add(at).cast::<u64>().read_volatile())
        };
    }
    (head + words * size_of::<u64>()..bytes).for_each(byte);
}

/// Returns the bytes from `at` to the end of the readable mappings that follow it without a gap;
/// `None` if no mapping holds it.
pub(super) fn mapped_bytes(at: u64) -> io::Result<Option<u64>> {
    Ok(mapped_in(&std::fs::read_to_string("/proc/self/maps")?, at))
}

/// Returns the mapped bytes behind `at` by the text of `/proc/self/maps`.
fn mapped_in(maps: &str, at: u64) -> Option<u64> {
    let mut end = None;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        let (from, to) = range.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        let continues = end == Some(from) || (from <= at && at < to);
        if continues && rights.starts_with('r') {
            end = Some(to);
        }
    }
    end.map(|end| end - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_readable_mappings_count_as_one() {
        let maps = "1000-2000 r--p 0 0 0\n2000-4000 rw-p 0 0 0 x\n\
                    4000-5000 ---p 0 0 0\n5000-6000 r--p 0 0 0\n";
        assert_eq!(mapped_in(maps, 0x1800), Some(0x2800));
        assert_eq!(mapped_in(maps, 0x2000), Some(0x2000));
        assert_eq!(mapped_in(maps, 0x4000), None);
        assert_eq!(mapped_in(maps, 0x7000), None);
    }

    #[test]
    fn an_allocation_is_zeroed_and_ends_at_its_last_page() {
        for bytes in [0, 1, 4096, 3 << 20] {
            let at = allocate(bytes).expect("memory");
            assert_eq!(read(at, bytes as usize), vec![0; bytes as usize]);
            let mapped = mapped_bytes(at).expect("maps are readable").expect("it is mapped");
            assert!(at.is_multiple_of(4096) && mapped >= bytes && mapped < bytes + (64 << 10));
        }
        assert!(allocate(u64::MAX).is_err() && allocate(1 << 60).is_err());
    }

    #[test]
    fn a_volatile_copy_copies_every_byte_at_every_alignment() {
        let source: Vec<u8> = (0..=255).collect();
        for (shift, bytes) in [(0, 64), (1, 64), (7, 3), (3, 0), (5, 200)] {
            let mut copy = vec![0; bytes];
            // SAFETY: the slice bounds both sides.
            unsafe {
                copy_volatile(source[shift..shift + bytes].as_ptr(), copy.as_mut_ptr(), bytes)
            };
            assert_eq!(copy, source[shift..shift + bytes]);
        }
    }
}
