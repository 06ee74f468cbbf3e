//! Pages of a region for bytes that come elsewhere.

use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::memory::{BounceBuffer, PageRange};

/// Most bytes of one call.
const CALL_BYTES: usize = 256 << 10;

/// Takes pages for at most `most` bytes, and returns how many bytes find room in them; `None` when
/// all are taken.
pub(super) fn take_spare(bounce: &BounceBuffer, most: usize) -> Option<(Vec<PageRange>, usize)> {
    let mut spare = Vec::new();
    // At most 64.
    let mut pages = most.min(CALL_BYTES).div_ceil(UNPACK_PAGE_BYTES) as u32;
    while !bounce.take(pages, &mut spare) {
        if pages <= 1 {
            return None;
        }
        pages /= 2;
    }
    Some((spare, most.min(pages as usize * UNPACK_PAGE_BYTES)))
}

/// Removes the first `pages` pages from `ranges` and returns them.
pub(super) fn split_off(ranges: &mut Vec<PageRange>, pages: usize) -> Vec<PageRange> {
    let (mut first, mut left) = (Vec::new(), pages as u32);
    while left > 0
        && let Some(range) = ranges.first_mut()
    {
        let count = range.count.min(left);
        first.push(PageRange { first: range.first, count });
        left -= count;
        *range = PageRange { first: range.first + count, count: range.count - count };
        if range.count == 0 {
            ranges.remove(0);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pages_are_kept() {
        let range = |first, count| PageRange { first, count };
        let mut ranges = vec![range(3, 2), range(9, 4)];
        assert_eq!(split_off(&mut ranges, 0), []);
        assert_eq!(split_off(&mut ranges, 3), [range(3, 2), range(9, 1)]);
        assert_eq!(ranges, [range(10, 3)]);
        assert_eq!(split_off(&mut ranges, 3), [range(10, 3)]);
        assert!(ranges.is_empty());
    }
}
