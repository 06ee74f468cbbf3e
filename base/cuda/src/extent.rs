//! Sizes of buffers, and ranges inside them. Pure.

use crate::driver::CudaError;

/// Size of the pages that buffers start and end on: the plugin registers whole pages.
pub const PAGE_BYTES: u64 = 4096;

/// Returns `bytes` rounded up to whole pages of [`PAGE_BYTES`].
///
/// # Errors
/// Returns [`CudaError::OutOfBounds`] for 0 bytes, and for more than one address range can hold.
pub(crate) fn whole_pages(bytes: u64) -> Result<u64, CudaError> {
    bytes
        .checked_next_multiple_of(PAGE_BYTES)
        .filter(|rounded| (PAGE_BYTES..=isize::MAX as u64).contains(rounded))
        .ok_or(CudaError::OutOfBounds { offset: 0, len: bytes, bytes: 0 })
}

/// Checks that `offset..offset + len` lies inside a buffer of `bytes`.
pub(crate) fn check_range(offset: u64, len: u64, bytes: u64) -> Result<(), CudaError> {
    if len > bytes || offset > bytes - len {
        return Err(CudaError::OutOfBounds { offset, len, bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_pages_that_can_exist() {
        assert_eq!(whole_pages(1), Ok(4096));
        assert_eq!(whole_pages(4096), Ok(4096));
        assert_eq!(whole_pages(4097), Ok(8192));
        for bytes in [0, isize::MAX as u64, u64::MAX - 5000, u64::MAX] {
            let impossible = CudaError::OutOfBounds { offset: 0, len: bytes, bytes: 0 };
            assert_eq!(whole_pages(bytes), Err(impossible));
        }
    }

    #[test]
    fn ranges_are_checked_without_wrapping() {
        assert_eq!(check_range(0, 10, 10), Ok(()));
        assert_eq!(check_range(10, 0, 10), Ok(()));
        for (offset, len) in [(0, 11), (1, 10), (u64::MAX, 1), (1, u64::MAX), (11, 0)] {
            assert_eq!(
                check_range(offset, len, 10),
                Err(CudaError::OutOfBounds { offset, len, bytes: 10 })
            );
        }
    }
}
