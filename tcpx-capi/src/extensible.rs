#![allow(unsafe_code)]
//! Structs that may get new members at their end.
//!
//! The first member, `size`, says which members the caller knows. A caller that knows fewer than
//! this library passes a smaller size, and the rest has its default. A caller that knows more
//! passes a larger size, which is fine as long as the members that are unknown here are zero.

use std::mem::MaybeUninit;

use crate::failure::Failure;

/// Bound on the size of these structs: no version comes near it.
pub(crate) const MAX_STRUCT_BYTES: usize = 4096;

/// A struct that may grow.
///
/// # Safety
/// The struct is `repr(C)` without padding, every member is valid for every bit pattern, and the
/// first is a `usize` that holds the struct's size. Padding would make bytes of a larger version
/// look uninitialised to this one.
pub(crate) unsafe trait Extensible: Copy {
    /// Name of the struct in error texts.
    const NAME: &'static str;
    /// Size of the struct's first version.
    const FIRST_BYTES: usize;
}

/// Returns the size that a caller wrote into a struct, checked.
///
/// # Safety
/// `pointer` is NULL or points to a readable `usize`.
unsafe fn caller_size<T: Extensible>(pointer: *const T) -> Result<usize, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(T::NAME));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("{} is not aligned", T::NAME)));
    }
    // SAFETY: not NULL, aligned at least as a usize, readable as the caller says.
    let size = unsafe { pointer.cast::<usize>().read() };
    check_size::<T>(size)
}

/// Checks a size that a caller gave.
pub(crate) fn check_size<T: Extensible>(size: usize) -> Result<usize, Failure> {
    if (T::FIRST_BYTES..=MAX_STRUCT_BYTES).contains(&size) {
        return Ok(size);
    }
    let (name, first) = (T::NAME, T::FIRST_BYTES);
    let text = format!("{name}.size is {size}; set it to sizeof({name}), {first} or more");
    Err(Failure::argument(text))
}

/// Reads a struct of the caller's version over `defaults`.
///
/// # Safety
/// `pointer` is NULL or points to a `usize` that gives the number of initialised bytes from
/// `pointer` on.
pub(crate) unsafe fn read<T: Extensible>(pointer: *const T, defaults: T) -> Result<T, Failure> {
    // SAFETY: passed on from the caller.
    let size = unsafe { caller_size(pointer) }?;
    // SAFETY: the caller says that there are `size` bytes; every bit pattern is a T.
    unsafe { overlay(T::NAME, pointer.cast(), size, defaults) }
}

/// Lays `size` bytes of the caller's version of a struct over `defaults`. Bytes behind the members
/// that this library knows must be zero.
///
/// # Safety
/// There are `size` initialised bytes, and every bit pattern is a `T`.
pub(crate) unsafe fn overlay<T: Copy>(
    name: &str,
    bytes: *const u8,
    size: usize,
    defaults: T,
) -> Result<T, Failure> {
    // SAFETY: `size` initialised bytes, as the caller says.
    let is_set = (size_of::<T>()..size).any(|index| unsafe { bytes.add(index).read() } != 0);
    if is_set {
        let text = format!("{name} has members that this version of the library does not know");
        return Err(Failure::argument(text));
    }
    let mut value = MaybeUninit::new(defaults);
    // SAFETY: the source has `size` bytes, the destination size_of::<T>(); both are distinct. Every
    // bit pattern is a T.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes, value.as_mut_ptr().cast(), size.min(size_of::<T>()));
        Ok(value.assume_init())
    }
}

/// Writes a struct in the caller's version. Members that the caller does not know are left out, and
/// members that this library does not know are zero.
///
/// # Safety
/// `pointer` is NULL or may be written for `size` bytes.
pub(crate) unsafe fn write<T: Extensible>(
    pointer: *mut T,
    size: usize,
    value: T,
) -> Result<(), Failure> {
    let size = check_size::<T>(size)?;
    if pointer.is_null() {
        return Err(Failure::null(T::NAME));
    }
    if !pointer.is_aligned() {
        return Err(Failure::argument(format!("{} is not aligned", T::NAME)));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes may be written, as the caller says; the struct's first member is a usize
    // within them.
    unsafe {
        pointer.cast::<u8>().write_bytes(0, size);
        std::ptr::copy_nonoverlapping((&raw const value).cast(), pointer.cast::<u8>(), known);
        pointer.cast::<usize>().write(size);
    }
    Ok(())
}

/// Struct of the caller, which gives its own size, for a result.
pub(crate) struct StructOutput<T> {
    pointer: *mut T,
    size: usize,
}

impl<T: Extensible> StructOutput<T> {
    /// Checks the struct before the work begins.
    ///
    /// # Safety
    /// For as long as the result lives, `pointer` is NULL or points to a `usize` that gives the
    /// number of bytes from `pointer` on that may be written.
    pub(crate) unsafe fn new(pointer: *mut T) -> Result<Self, Failure> {
        // SAFETY: passed on from the caller.
        let size = unsafe { caller_size(pointer.cast_const()) }?;
        Ok(Self { pointer, size })
    }

    /// Writes the result in the caller's version.
    pub(crate) fn write(&self, value: T) -> Result<(), Failure> {
        // SAFETY: the maker of this value vouched that `size` bytes may be written.
        unsafe { write(self.pointer, self.size, value) }
    }
}

/// As [`write`], with the size that the caller wrote into the struct.
///
/// # Safety
/// `pointer` is NULL or points to a `usize` that gives the number of bytes from `pointer` on that
/// may be written.
pub(crate) unsafe fn fill<T: Extensible>(pointer: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: passed on from the caller.
    unsafe { StructOutput::new(pointer) }?.write(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcpx_status::{TCPX_ERR_ARGUMENT, TCPX_ERR_NULL};

    /// Second version; the first had no `new`.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Sample {
        size: usize,
        old: u64,
        new: u64,
    }

    // SAFETY: three words, no padding.
    unsafe impl Extensible for Sample {
        const NAME: &'static str = "sample";
        const FIRST_BYTES: usize = 16;
    }

    const DEFAULTS: Sample = Sample { size: 24, old: 1, new: 2 };

    fn read_words(words: &[usize; 4]) -> Result<Sample, Failure> {
        // SAFETY: no test passes a size above the array's.
        unsafe { read(words.as_ptr().cast(), DEFAULTS) }
    }

    #[test]
    fn older_callers_get_defaults_and_newer_ones_must_leave_the_rest_zero() {
        assert_eq!(read_words(&[16, 7, 8, 9]).unwrap(), Sample { size: 16, old: 7, new: 2 });
        assert_eq!(read_words(&[24, 7, 8, 9]).unwrap(), Sample { size: 24, old: 7, new: 8 });
        assert_eq!(read_words(&[32, 7, 8, 0]).unwrap(), Sample { size: 32, old: 7, new: 8 });
        for words in [[32, 7, 8, 9], [0; 4], [15; 4], [usize::MAX; 4], [MAX_STRUCT_BYTES + 1; 4]] {
            assert_eq!(read_words(&words).unwrap_err().status, TCPX_ERR_ARGUMENT);
        }
        // SAFETY: NULL is allowed.
        let null = unsafe { read(std::ptr::null(), DEFAULTS) };
        assert_eq!(null.unwrap_err().status, TCPX_ERR_NULL);
    }

    #[test]
    fn nothing_is_written_past_the_callers_size() {
        let mut words = [16usize, 5, 6, 7];
        // SAFETY: the size is below the array's.
        unsafe { fill(words.as_mut_ptr().cast::<Sample>(), DEFAULTS) }.unwrap();
        assert_eq!(words, [16, 1, 6, 7]);
        words[0] = 32;
        // SAFETY: the size is the array's.
        unsafe { fill(words.as_mut_ptr().cast::<Sample>(), DEFAULTS) }.unwrap();
        assert_eq!(words, [32, 1, 2, 0]);
    }
}
