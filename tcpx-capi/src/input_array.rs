#![allow(unsafe_code)]
//! Input arrays of structs without a size of their own.
//!
//! The call gives the size of one struct. So the structs may grow, without a size in each of them.

use std::marker::PhantomData;

use crate::extensible;
use crate::failure::Failure;

/// Struct of such an array.
///
/// # Safety
/// The struct is `repr(C)` without padding, and every member is valid for every bit pattern.
pub(crate) unsafe trait InputItem: Copy + Default {
    /// Name of the struct in error texts.
    const NAME: &'static str;
    /// Size of the struct's first version.
    const FIRST_BYTES: usize;
}

/// Array of the caller's version of the struct.
#[derive(Clone, Copy)]
pub(crate) struct InputArray<'a, T> {
    first: *const u8,
    item_bytes: usize,
    count: usize,
    lent: PhantomData<&'a T>,
}

impl<T: InputItem> InputArray<'_, T> {
    /// Checks an array of at most `max_count` items, of `item_bytes` each. With a count of 0 the
    /// pointer may be NULL.
    ///
    /// # Safety
    /// If the count is not 0 and not above `max_count`, `first` is NULL or the start of `count`
    /// times `item_bytes` initialised bytes. No thread writes them as long as the result lives.
    pub(crate) unsafe fn new(
        name: &str,
        first: *const T,
        item_bytes: usize,
        count: usize,
        max_count: usize,
    ) -> Result<Self, Failure> {
        let (min_bytes, item, align) = (T::FIRST_BYTES, T::NAME, align_of::<T>());
        let is_a_size = (min_bytes..=extensible::MAX_STRUCT_BYTES).contains(&item_bytes);
        if !is_a_size || !item_bytes.is_multiple_of(align) {
            let right = format!("it is sizeof({item}), {min_bytes} or more");
            return Err(Failure::argument(format!(
                "the size of one of {name} is {item_bytes}; {right}"
            )));
        }
        if count > max_count {
            let text = format!("{name} has {count} items, at most {max_count} are taken");
            return Err(Failure::argument(text));
        }
        if first.is_null() && count > 0 {
            return Err(Failure::null(name));
        }
        if !first.is_aligned() {
            return Err(Failure::argument(format!("{name} is not aligned to {align}")));
        }
        Ok(Self { first: first.cast(), item_bytes, count, lent: PhantomData })
    }

    /// Returns the number of items.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Reads the items in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<T, Failure>> + use<'_, T> {
        (0..self.count).map(|index| {
            let item = self.first.wrapping_add(index * self.item_bytes);
            // SAFETY: `index` is below the count, so the maker of this value vouched for
            // `item_bytes` initialised bytes from there on; every bit pattern is a T.
            unsafe { extensible::overlay(T::NAME, item, self.item_bytes, T::default()) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcpx_status::{self, TCPX_ERR_ARGUMENT, TCPX_ERR_NULL};

    /// Second version; the first had no `new`.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Sample {
        old: u64,
        new: u64,
    }

    // SAFETY: two words, no padding.
    unsafe impl InputItem for Sample {
        const NAME: &'static str = "sample";
        const FIRST_BYTES: usize = 8;
    }

    fn read(words: &[u64], item_bytes: usize, count: usize) -> Result<Vec<Sample>, tcpx_status> {
        // SAFETY: what is not refused fits the array, in every test.
        let items = unsafe {
            InputArray::<Sample>::new("items", words.as_ptr().cast(), item_bytes, count, 3)
        };
        items.and_then(|items| items.iter().collect()).map_err(|failure| failure.status)
    }

    #[test]
    fn items_are_read_in_the_callers_version() {
        let both = |old, new| Sample { old, new };
        assert_eq!(read(&[1, 2, 3], 8, 3), Ok(vec![both(1, 0), both(2, 0), both(3, 0)]));
        assert_eq!(read(&[1, 2, 3, 4], 16, 2), Ok(vec![both(1, 2), both(3, 4)]));
        assert_eq!(read(&[1, 2, 0, 3, 4, 0], 24, 2), Ok(vec![both(1, 2), both(3, 4)]));
        assert_eq!(read(&[1, 2, 0, 3, 4, 5], 24, 2), Err(TCPX_ERR_ARGUMENT));
        assert_eq!(read(&[], 16, 0), Ok(vec![]));
    }

    #[test]
    fn invalid_arrays_are_refused_before_they_are_read() {
        for (item_bytes, count) in
            [(0, 1), (7, 1), (12, 1), (4104, 1), (usize::MAX, 1), (16, 4), (16, usize::MAX)]
        {
            assert_eq!(read(&[1, 2, 3, 4], item_bytes, count), Err(TCPX_ERR_ARGUMENT));
        }
        let place = |first: *const Sample, count| {
            // SAFETY: refused, or not read.
            unsafe { InputArray::new("items", first, 16, count, 3) }
                .map(|items| items.count())
                .map_err(|failure| failure.status)
        };
        let word = 0u64;
        assert_eq!(place(std::ptr::null(), 0), Ok(0));
        assert_eq!(place(std::ptr::null(), 1), Err(TCPX_ERR_NULL));
        let odd = (&raw const word).wrapping_byte_add(1).cast();
        assert_eq!(place(odd, 1), Err(TCPX_ERR_ARGUMENT));
    }
}
