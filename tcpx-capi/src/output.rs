#![allow(unsafe_code)]
//! Output places of C programs, checked before the work begins, and written after it has succeeded.

use std::ffi::c_char;
use std::ptr::NonNull;

use tcpx_core::Error;

use crate::failure::Failure;
use crate::input::TCPX_MAX_NAME_BYTES;
use crate::status::tcpx_status::{self, TCPX_ERR_BUFFER_TOO_SMALL, TCPX_OK};

/// Pointer to the place of one result.
pub(crate) struct Output<T>(NonNull<T>);

impl<T> Output<T> {
    /// Checks a place.
    ///
    /// # Safety
    /// `pointer` is NULL or may be written as a `T` for as long as the result lives.
    pub(crate) unsafe fn new(name: &str, pointer: *mut T) -> Result<Self, Failure> {
        // SAFETY: passed on from the caller.
        unsafe { Self::optional(name, pointer) }?.ok_or_else(|| Failure::null(name))
    }

    /// As [`new`](Self::new), but NULL stands for "not wanted".
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub(crate) unsafe fn optional(name: &str, pointer: *mut T) -> Result<Option<Self>, Failure> {
        if !pointer.is_aligned() {
            return Err(Failure::argument(format!("{name} is not aligned to {}", align_of::<T>())));
        }
        Ok(NonNull::new(pointer).map(Self))
    }

    pub(crate) fn write(&self, value: T) {
        // SAFETY: the maker of this value vouched that the place may be written; it is aligned.
        unsafe { self.0.write(value) }
    }
}

/// Buffer for bytes of a length that only the library knows, and the place for that length.
pub(crate) struct ByteOutput {
    buffer: Option<NonNull<u8>>,
    capacity: usize,
    size: Output<usize>,
}

impl ByteOutput {
    /// Checks a buffer; NULL asks for the length alone.
    ///
    /// # Safety
    /// For as long as the result lives, `buffer` is NULL or may be written for `capacity` bytes,
    /// and `out_size` is NULL or may be written.
    pub(crate) unsafe fn new(
        buffer: *mut u8,
        capacity: usize,
        out_size: *mut usize,
    ) -> Result<Self, Failure> {
        // SAFETY: passed on from the caller.
        let size = unsafe { Output::new("out_size", out_size) }?;
        if isize::try_from(capacity).is_err() {
            return Err(Failure::argument(format!("a capacity of {capacity} bytes is too large")));
        }
        Ok(Self { buffer: NonNull::new(buffer), capacity, size })
    }

    /// Writes the length that bytes will have, and returns whether the caller wants the bytes too.
    /// This saves making bytes in vain.
    pub(crate) fn write_size(&self, length: usize) -> Result<bool, Failure> {
        self.size.write(length);
        if self.buffer.is_some() && length > self.capacity {
            let text = format!("{length} bytes are needed, the buffer has {}", self.capacity);
            return Err(Failure::new(TCPX_ERR_BUFFER_TOO_SMALL, text));
        }
        Ok(self.buffer.is_some())
    }

    /// Writes the length, and the bytes if there is a buffer that holds them all.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let is_wanted = self.write_size(bytes.len())?;
        let Some(buffer) = self.buffer.filter(|_| is_wanted) else { return Ok(()) };
        // SAFETY: the maker of this value vouched for `capacity` writable bytes, and the bytes are
        // no more, as was just checked. They are memory of this library, which no buffer of a
        // caller overlaps.
        unsafe { buffer.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(())
    }

    /// Writes text and its terminating NUL, which the length counts.
    pub(crate) fn write_text(&self, text: &str) -> Result<(), Failure> {
        let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).chain([0]).collect();
        self.write(&bytes)
    }
}

/// Places for an error that the call reports, as distinct from the call's own status: the error's
/// status, and its text.
pub(crate) struct ErrorOutput {
    status: Output<tcpx_status>,
    text: ByteOutput,
}

impl ErrorOutput {
    /// Checks the places; a NULL `buffer` asks for the length of the text alone.
    ///
    /// # Safety
    /// For as long as the result lives, `out_error` and `out_size` are NULL or may be written, and
    /// `buffer` is NULL or may be written for `capacity` bytes.
    pub(crate) unsafe fn new(
        out_error: *mut tcpx_status,
        buffer: *mut c_char,
        capacity: usize,
        out_size: *mut usize,
    ) -> Result<Self, Failure> {
        // SAFETY: passed on from the caller.
        let status = unsafe { Output::new("out_error", out_error) }?;
        // SAFETY: passed on from the caller.
        let text = unsafe { ByteOutput::new(buffer.cast(), capacity, out_size) }?;
        Ok(Self { status, text })
    }

    /// Writes the status, or TCPX_OK where there is no error, and then the text.
    pub(crate) fn write(&self, error: Option<&Error>) -> Result<(), Failure> {
        self.status.write(error.map_or(TCPX_OK, tcpx_status::from));
        self.text.write_text(&error.map(Error::to_string).unwrap_or_default())
    }
}

/// Returns text in an array of a fixed size, always with a NUL at its end.
pub(crate) fn fixed_text<const N: usize>(text: &str) -> [c_char; N] {
    let mut place = [0; N];
    let max_bytes = N - 1;
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    for (place, byte) in place.iter_mut().zip(text.bytes().take(end.unwrap_or(0))) {
        *place = byte as c_char;
    }
    place
}

/// Buffer that is filled with pieces, without gaps.
pub(crate) struct PackedOutput {
    buffer: Option<NonNull<u8>>,
    capacity: usize,
    used: usize,
}

impl PackedOutput {
    /// Checks a buffer that has room for at least `least` bytes; where that is 0 it may be NULL.
    ///
    /// # Safety
    /// `buffer` is NULL or may be written for `capacity` bytes for as long as the result lives.
    pub(crate) unsafe fn new(
        name: &str,
        buffer: *mut u8,
        capacity: usize,
        min_bytes: usize,
    ) -> Result<Self, Failure> {
        let buffer = NonNull::new(buffer);
        if buffer.is_none() && min_bytes > 0 {
            return Err(Failure::null(name));
        }
        if capacity < min_bytes || isize::try_from(capacity).is_err() {
            return Err(Failure::argument(format!(
                "{name} has {capacity} bytes; {min_bytes} are needed"
            )));
        }
        Ok(Self { buffer, capacity, used: 0 })
    }

    /// Appends as much of the bytes as there is room for, and returns where they begin.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> usize {
        let offset = self.used;
        let bytes = &bytes[..bytes.len().min(self.capacity - offset)];
        if let Some(buffer) = self.buffer {
            // SAFETY: the maker of this value vouched for `capacity` writable bytes, and the bytes
            // end within them. They are memory of this library, which no buffer of a caller
            // overlaps.
            unsafe {
                let place = buffer.add(offset);
                place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            }
            self.used += bytes.len();
        }
        offset
    }
}

/// Buffer for the name of a peer, which has room for any name and its terminating NUL. So a call
/// that takes a peer cannot fail for want of room after it has taken one.
pub(crate) struct NameOutput(NonNull<u8>);

impl NameOutput {
    /// Checks a buffer.
    ///
    /// # Safety
    /// `buffer` is NULL or may be written for `capacity` bytes for as long as the result lives.
    pub(crate) unsafe fn new(
        name: &str,
        buffer: *mut c_char,
        capacity: usize,
    ) -> Result<Self, Failure> {
        let buffer = NonNull::new(buffer).ok_or_else(|| Failure::null(name))?;
        if capacity <= TCPX_MAX_NAME_BYTES {
            let min_bytes = TCPX_MAX_NAME_BYTES + 1;
            return Err(Failure::argument(format!(
                "{name} has {capacity} bytes; {min_bytes} are needed"
            )));
        }
        Ok(Self(buffer.cast()))
    }

    /// Writes a name, which every session keeps below the limit, and a NUL.
    pub(crate) fn write(&self, name: &str) {
        let bytes = &name.as_bytes()[..name.len().min(TCPX_MAX_NAME_BYTES)];
        // SAFETY: the maker of this value vouched for more than TCPX_MAX_NAME_BYTES writable bytes.
        // The name is memory of this library, which no buffer of a caller overlaps.
        unsafe {
            self.0.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            self.0.add(bytes.len()).write(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcpx_status::{TCPX_ERR_ARGUMENT, TCPX_ERR_NULL};

    #[test]
    fn bytes_are_written_whole_or_not_at_all() {
        let (mut buffer, mut size) = ([9u8; 4], 0);
        // SAFETY: both are local and large enough.
        let output = unsafe { ByteOutput::new(buffer.as_mut_ptr(), 3, &raw mut size) }.unwrap();
        let failure = output.write(b"four").unwrap_err();
        assert_eq!(failure.status, TCPX_ERR_BUFFER_TOO_SMALL);
        assert!(output.write_text("ab").is_ok());
        assert_eq!((buffer, size), ([b'a', b'b', 0, 9], 3));
    }

    #[test]
    fn a_name_needs_room_for_any_name() {
        let mut buffer = [9 as c_char; TCPX_MAX_NAME_BYTES + 2];
        let new = |buffer, capacity| {
            // SAFETY: NULL is allowed; no capacity is above the buffer's.
            unsafe { NameOutput::new("out_name", buffer, capacity) }
        };
        let null = new(std::ptr::null_mut(), TCPX_MAX_NAME_BYTES + 1);
        assert_eq!(null.err().unwrap().status, TCPX_ERR_NULL);
        let small = new(buffer.as_mut_ptr(), TCPX_MAX_NAME_BYTES);
        assert_eq!(small.err().unwrap().status, TCPX_ERR_ARGUMENT);
        let output = new(buffer.as_mut_ptr(), TCPX_MAX_NAME_BYTES + 1).unwrap();
        output.write("ab");
        assert_eq!(buffer[..4], [b'a' as c_char, b'b' as c_char, 0, 9]);
        output.write(&"x".repeat(TCPX_MAX_NAME_BYTES + 9));
        assert_eq!(buffer[TCPX_MAX_NAME_BYTES..], [0, 9], "nothing past the capacity");
    }

    #[test]
    fn pieces_are_packed_and_never_pass_the_end() {
        let mut buffer = [9u8; 6];
        let first = buffer.as_mut_ptr();
        // SAFETY: no capacity is above the buffer's; NULL is allowed.
        let new = |first, capacity, min_bytes| unsafe {
            PackedOutput::new("buffer", first, capacity, min_bytes)
        };
        let status = |room: Result<PackedOutput, Failure>| room.err().map(|failure| failure.status);
        assert_eq!(status(new(std::ptr::null_mut(), 5, 1)), Some(TCPX_ERR_NULL));
        assert_eq!(status(new(first, 4, 5)), Some(TCPX_ERR_ARGUMENT));
        assert_eq!(new(std::ptr::null_mut(), 0, 0).unwrap().append(b"lost"), 0);
        let mut room = new(first, 5, 5).unwrap();
        assert_eq!([&b"ab"[..], b"", b"cdef", b"g"].map(|piece| room.append(piece)), [0, 2, 2, 5]);
        assert_eq!(buffer, *b"abcde\x09");
    }

    #[test]
    fn a_null_buffer_asks_for_the_size() {
        let mut size = 0;
        // SAFETY: NULL is allowed; `size` is local.
        let output = unsafe { ByteOutput::new(std::ptr::null_mut(), 99, &raw mut size) }.unwrap();
        assert!(output.write(b"four").is_ok());
        assert_eq!(size, 4);
    }

    #[test]
    fn invalid_pointers_are_refused() {
        let mut place = 0u64;
        // SAFETY: refused pointers are never written.
        unsafe {
            let null = Output::<u64>::new("out", std::ptr::null_mut());
            assert_eq!(null.err().unwrap().status, TCPX_ERR_NULL);
            let odd = Output::new("out", (&raw mut place).wrapping_byte_add(1));
            assert_eq!(odd.err().unwrap().status, TCPX_ERR_ARGUMENT);
            let mut size = 0;
            let huge = ByteOutput::new(std::ptr::null_mut(), usize::MAX, &raw mut size);
            assert_eq!(huge.err().unwrap().status, TCPX_ERR_ARGUMENT);
        }
    }

    #[test]
    fn fixed_text_ends_with_nul_and_is_cut_between_characters() {
        let read = |place: [c_char; 4]| place.map(|byte| byte as u8);
        assert_eq!(read(fixed_text("lo")), *b"lo\0\0");
        assert_eq!(read(fixed_text("eth0")), *b"eth\0");
        assert_eq!(read(fixed_text("abé")), *b"ab\0\0");
    }
}
