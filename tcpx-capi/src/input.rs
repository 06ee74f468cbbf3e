#![allow(unsafe_code)]
//! Checks of the arguments of C programs, made before these are used.

use std::ffi::c_char;

use tcpx_core::MemoryId;

use crate::failure::Failure;
use crate::status::tcpx_status;

/// Most bytes of the name of a session or peer, without the terminating NUL.
pub const TCPX_MAX_NAME_BYTES: usize = 64;

/// Checks a text: it ends with NUL within `max_bytes` bytes, and is UTF-8.
///
/// # Safety
/// `pointer` is NULL, or the start of bytes that no thread writes during `'a`. They are readable up
/// to and including the first NUL, or for `max_bytes` + 1 bytes.
pub(crate) unsafe fn text<'a>(
    name: &str,
    pointer: *const c_char,
    max_bytes: usize,
) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(name));
    }
    let bytes = pointer.cast::<u8>();
    // SAFETY: no byte after the first NUL is read, and none past `max_bytes` + 1, as the caller
    // allows.
    let length = (0..=max_bytes).find(|index| unsafe { bytes.add(*index).read() } == 0);
    let Some(length) = length else {
        let text = format!("{name} is longer than {max_bytes} bytes, or does not end with NUL");
        return Err(Failure::argument(text));
    };
    // SAFETY: these `length` bytes were just read; the caller says that no thread writes them.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
    std::str::from_utf8(bytes).map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

/// As [`text`], but NULL stands for "not given".
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn optional_text<'a>(
    name: &str,
    pointer: *const c_char,
    max_bytes: usize,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on from the caller.
    unsafe { text(name, pointer, max_bytes) }.map(Some)
}

/// Checks the name of a peer.
///
/// # Safety
/// `peer` is NULL or a text that ends with NUL.
pub(crate) unsafe fn peer_name<'a>(peer: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: passed on from the caller.
    let name = unsafe { text("peer", peer, TCPX_MAX_NAME_BYTES) }?;
    if name.is_empty() { Err(Failure::argument("peer is empty")) } else { Ok(name) }
}

/// Checks an array of at most `max_count` items. With a count of 0 the pointer may be NULL.
///
/// # Safety
/// If `count` is not 0 and not above `max_count`, `pointer` is NULL or the start of `count`
/// initialised items that no thread writes during `'a`.
pub(crate) unsafe fn array<'a, T>(
    name: &str,
    pointer: *const T,
    count: usize,
    max_count: usize,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::null(name));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("{name} is not aligned to {}", align_of::<T>())));
    }
    if count > max_count {
        return Err(Failure::argument(format!(
            "{name} has {count} items, at most {max_count} are taken"
        )));
    }
    // SAFETY:
    // - not NULL and aligned: just checked;
    // - initialised and not written: the caller says so;
    // - `max_count` items are far below isize::MAX bytes for every caller in this crate.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Reads the id of a registration. No session gives out the id 0.
pub(crate) fn memory_id(number: u64) -> Result<MemoryId, Failure> {
    let unknown =
        || Failure::new(tcpx_status::TCPX_ERR_UNKNOWN_MEMORY, "registration 0 does not exist");
    MemoryId::new(number).ok_or_else(unknown)
}

/// Reads a boolean, which C passes as a number.
pub(crate) fn flag(name: &str, value: i32) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Failure::argument(format!("{name} is {value}; 0 or 1 are taken"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcpx_status::{TCPX_ERR_ARGUMENT, TCPX_ERR_NULL};

    fn read(bytes: &[u8], max_bytes: usize) -> Result<&str, tcpx_status> {
        // SAFETY: every case below has a NUL, or more than `max_bytes` bytes.
        unsafe { text("peer", bytes.as_ptr().cast(), max_bytes) }.map_err(|failure| failure.status)
    }

    #[test]
    fn text_is_bounded_terminated_and_utf8() {
        assert_eq!(read(b"peer\0", 4), Ok("peer"));
        assert_eq!(read(b"\0", 0), Ok(""));
        assert_eq!(read(b"peers", 4), Err(TCPX_ERR_ARGUMENT));
        assert_eq!(read(b"\xff\0", 4), Err(TCPX_ERR_ARGUMENT));
        // SAFETY: NULL is allowed.
        let null = unsafe { text("peer", std::ptr::null(), 4) };
        assert_eq!(null.unwrap_err().status, TCPX_ERR_NULL);
    }

    #[test]
    fn arrays_are_checked_before_they_are_read() {
        let items = [1u64, 2, 3];
        let check = |pointer: *const u64, count| {
            // SAFETY: counts above three are above the limit; the others fit the array.
            unsafe { array("posts", pointer, count, 3) }
                .map(<[u64]>::len)
                .map_err(|failure| failure.status)
        };
        assert_eq!(check(items.as_ptr(), 3), Ok(3));
        assert_eq!(check(std::ptr::null(), 0), Ok(0));
        assert_eq!(check(std::ptr::null(), 1), Err(TCPX_ERR_NULL));
        assert_eq!(check(items.as_ptr(), 4), Err(TCPX_ERR_ARGUMENT));
        assert_eq!(check(items.as_ptr(), usize::MAX), Err(TCPX_ERR_ARGUMENT));
        assert_eq!(check(items.as_ptr().wrapping_byte_add(1), 1), Err(TCPX_ERR_ARGUMENT));
    }

    #[test]
    fn zero_is_the_id_of_no_memory() {
        assert_eq!(memory_id(7).unwrap().get(), 7);
        assert_eq!(memory_id(0).unwrap_err().status, tcpx_status::TCPX_ERR_UNKNOWN_MEMORY);
    }

    #[test]
    fn flags_are_zero_or_one() {
        assert!(!flag("is_recv", 0).unwrap() && flag("is_recv", 1).unwrap());
        assert!(flag("is_recv", 2).is_err() && flag("is_recv", -1).is_err());
    }
}
