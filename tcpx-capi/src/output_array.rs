#![allow(unsafe_code)]
//! Output array of structs that may grow.

use crate::extensible::{self, Extensible};
use crate::failure::Failure;

/// Output array, checked in advance: nothing can fail once results are taken from their source.
pub(crate) struct OutputArray<T> {
    first: *mut T,
    entry_bytes: usize,
    capacity: usize,
}

impl<T: Extensible> OutputArray<T> {
    /// Checks an array of `capacity` entries, of `entry_bytes` each.
    ///
    /// # Safety
    /// For as long as the result lives, `first` is NULL or may be written for `capacity` times
    /// `entry_bytes` bytes.
    pub(crate) unsafe fn new(
        name: &str,
        first: *mut T,
        entry_bytes: usize,
        capacity: usize,
    ) -> Result<Self, Failure> {
        extensible::check_size::<T>(entry_bytes)?;
        let bytes = capacity.checked_mul(entry_bytes).and_then(|bytes| isize::try_from(bytes).ok());
        if bytes.is_none() {
            return Err(Failure::argument(format!(
                "a capacity of {capacity} entries is too large"
            )));
        }
        if first.is_null() && capacity > 0 {
            return Err(Failure::null(name));
        }
        if !first.is_aligned() || !entry_bytes.is_multiple_of(align_of::<T>()) {
            return Err(Failure::argument(format!("{name}, or an entry of it, is not aligned")));
        }
        Ok(Self { first, entry_bytes, capacity })
    }

    /// Returns the number of entries.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes as many of `values` as there are entries.
    pub(crate) fn write(&self, values: impl Iterator<Item = T>) -> Result<(), Failure> {
        for (index, value) in values.take(self.capacity).enumerate() {
            let place = self.first.wrapping_byte_add(index * self.entry_bytes);
            // SAFETY: `index` is below `capacity`, so the maker of this value vouched that
            // `entry_bytes` bytes may be written from there on.
            unsafe { extensible::write(place, self.entry_bytes, value) }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::tcpx_completion;
    use crate::tcpx_status::{TCPX_ERR_ARGUMENT, TCPX_ERR_NULL};

    #[test]
    fn an_array_of_entries_is_checked_before_anything_is_written() {
        let mut entries = [tcpx_completion::default(); 2];
        let check = |entries: *mut tcpx_completion, entry_bytes, capacity| {
            // SAFETY: nothing is written.
            unsafe { OutputArray::new("entries", entries, entry_bytes, capacity) }
                .map(|entries| entries.capacity())
                .map_err(|failure| failure.status)
        };
        let first = entries.as_mut_ptr();
        assert_eq!(check(first, 32, 2), Ok(2));
        assert_eq!(check(first, 40, 1), Ok(1), "a newer program's");
        assert_eq!(check(std::ptr::null_mut(), 32, 0), Ok(0));
        assert_eq!(check(std::ptr::null_mut(), 32, 1), Err(TCPX_ERR_NULL));
        let odd = first.wrapping_byte_add(4);
        for (entries, entry_bytes, capacity) in [
            (first, 0, 1),
            (first, 31, 1),
            (first, 36, 1),
            (first, 8192, 1),
            (first, 32, usize::MAX),
            (first, 32, usize::MAX / 32),
            (odd, 32, 1),
        ] {
            assert_eq!(check(entries, entry_bytes, capacity), Err(TCPX_ERR_ARGUMENT));
        }
    }

    #[test]
    fn entries_have_the_callers_size_and_none_passes_the_end() {
        let mut words = [9usize; 16];
        // SAFETY: twice 40 bytes are ten of the words.
        let entries = unsafe { OutputArray::new("entries", words.as_mut_ptr().cast(), 40, 2) };
        let value = tcpx_completion { context: 7, ..Default::default() };
        entries.unwrap().write([value; 3].into_iter()).unwrap();
        assert_eq!(words[..5], [40, 7, 0, 0, 0]);
        assert_eq!(words[5..], [40, 7, 0, 0, 0, 9, 9, 9, 9, 9, 9]);
    }
}
