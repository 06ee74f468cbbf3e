//! Tokens, kept as ranges.

use alloc::vec::Vec;

use crate::TokenBatches;

/// Consecutive tokens, at least one. The layout, two `u32` of 4 bytes each, is the kernel's
/// (`dmabuf_token`), so an array of these is what `setsockopt` takes.
///
/// The range does not wrap: its last token is at most `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct TokenRange {
    start: u32,
    count: u32,
}

const _: () = {
    assert!(size_of::<TokenRange>() == 8);
    assert!(align_of::<TokenRange>() == 4);
    assert!(core::mem::offset_of!(TokenRange, count) == 4);
};

impl TokenRange {
    /// `count` tokens from `start` on; `None` for no tokens and for a range that would wrap.
    #[must_use]
    pub const fn new(start: u32, count: u32) -> Option<Self> {
        if count == 0 || start.checked_add(count - 1).is_none() {
            return None;
        }
        Some(Self { start, count })
    }

    /// One token.
    #[must_use]
    pub const fn single(token: u32) -> Self {
        Self { start: token, count: 1 }
    }

    /// First token.
    #[must_use]
    pub const fn start(&self) -> u32 {
        self.start
    }

    /// Number of tokens, and so of fragments; not 0.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The number after the last token, at most 2^32.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start as u64 + self.count as u64
    }

    /// The first `count` tokens, or all of a shorter range; `None` for none.
    pub(crate) fn first(&self, count: u32) -> Option<Self> {
        Self::new(self.start, count.min(self.count))
    }

    /// What follows the first `count` tokens, if anything does.
    pub(crate) fn after(&self, count: u32) -> Option<Self> {
        let left = self.count.checked_sub(count).filter(|&left| left > 0)?;
        Self::new(self.start + count, left)
    }

    /// Takes in the tokens from its own end up to `end`, if the count still fits 32 bits.
    fn extend_to(&mut self, end: u64) -> bool {
        match u32::try_from(end - u64::from(self.start)) {
            Ok(count) => {
                self.count = count;
                true
            }
            Err(_) => false,
        }
    }
}

/// Tokens that wait to go back to the kernel, in the order they came.
///
/// The kernel hands tokens out in ascending order most of the time, so a few ranges hold many.
/// Tokens belong to the socket they came from: keep one of these for each socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRanges {
    ranges: Vec<TokenRange>,
}

impl TokenRanges {
    /// No tokens.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Adds one token. It extends the last range if it follows it, else it begins a new one.
    pub fn push(&mut self, token: u32) {
        self.push_range(TokenRange::single(token));
    }

    /// Adds tokens. They extend the last range if they follow it, else they begin a new one.
    pub fn push_range(&mut self, range: TokenRange) {
        if let Some(last) = self.ranges.last_mut()
            && last.end() == u64::from(range.start)
            && last.extend_to(range.end())
        {
            return;
        }
        self.ranges.push(range);
    }

    /// Sorts the tokens and joins everything that touches, for the fewest ranges. A token that was
    /// added more than once stays once.
    pub fn coalesce(&mut self) {
        self.ranges.sort_unstable_by_key(|range| range.start);
        self.ranges.dedup_by(|range, last| {
            if range.end() <= last.end() {
                return true;
            }
            let Some(known) = last.end().checked_sub(u64::from(range.start)) else { return false };
            if last.extend_to(range.end()) {
                return true;
            }
            // All 2^32 tokens, one more than a count can hold: two ranges, still disjoint. `range`
            // ends after `last`, so it has more than `known` tokens.
            *range = range.after(known as u32).unwrap_or(*range);
            false
        });
    }

    /// The ranges, ready for [`TokenBatches`].
    #[must_use]
    pub fn as_slice(&self) -> &[TokenRange] {
        &self.ranges
    }

    /// Number of tokens in all ranges together.
    #[must_use]
    pub fn fragments(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.count)).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Forgets all tokens, keeps the memory.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Cuts the tokens into calls the kernel accepts, in order.
    #[must_use]
    pub fn batches(&self) -> TokenBatches<'_> {
        TokenBatches::new(&self.ranges)
    }
}

impl Extend<TokenRange> for TokenRanges {
    fn extend<I: IntoIterator<Item = TokenRange>>(&mut self, ranges: I) {
        for range in ranges {
            self.push_range(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, count: u32) -> TokenRange {
        TokenRange::new(start, count).expect("a valid range")
    }

    fn pushed(ranges: &[TokenRange]) -> TokenRanges {
        let mut all = TokenRanges::new();
        all.extend(ranges.iter().copied());
        all
    }

    #[test]
    fn a_range_has_tokens_and_does_not_wrap() {
        assert_eq!(TokenRange::new(5, 0), None);
        assert_eq!(TokenRange::new(u32::MAX, 2), None);
        assert_eq!(range(u32::MAX, 1).end(), 1 << 32);
        assert_eq!(range(0, u32::MAX).end(), u64::from(u32::MAX));
    }

    #[test]
    fn a_range_splits_anywhere() {
        let four = range(10, 4);
        assert_eq!((four.first(0), four.after(0)), (None, Some(four)));
        assert_eq!((four.first(3), four.after(3)), (Some(range(10, 3)), Some(range(13, 1))));
        assert_eq!((four.first(4), four.after(4)), (Some(four), None));
        assert_eq!((four.first(9), four.after(9)), (Some(four), None));
        assert_eq!(range(u32::MAX, 1).after(1), None);
    }

    #[test]
    fn consecutive_tokens_share_a_range() {
        let mut ranges = TokenRanges::new();
        for token in [4, 5, 6, 9, 8, 9] {
            ranges.push(token);
        }
        assert_eq!(ranges.as_slice(), [range(4, 3), range(9, 1), range(8, 2)]);
        assert_eq!(ranges.fragments(), 6);
        ranges.coalesce();
        assert_eq!(ranges.as_slice(), [range(4, 3), range(8, 2)]);
        assert_eq!(ranges.fragments(), 5);
    }

    #[test]
    fn the_last_token_has_no_follower() {
        let mut ranges = TokenRanges::new();
        ranges.push(u32::MAX);
        ranges.push(0);
        assert_eq!(ranges.as_slice(), [range(u32::MAX, 1), range(0, 1)]);
    }

    #[test]
    fn all_tokens_there_are_need_two_ranges() {
        let mut ranges = pushed(&[range(0, u32::MAX), range(u32::MAX, 1)]);
        assert_eq!(ranges.as_slice().len(), 2);
        ranges.coalesce();
        assert_eq!(ranges.fragments(), 1 << 32);

        let mut overlapping = pushed(&[range(7, u32::MAX - 6), range(0, u32::MAX)]);
        overlapping.coalesce();
        assert_eq!(overlapping.as_slice(), [range(0, u32::MAX), range(u32::MAX, 1)]);
    }

    #[test]
    fn coalesce_takes_contained_and_overlapping_ranges_in() {
        let mut ranges = pushed(&[range(20, 10), range(0, 15), range(3, 2), range(10, 10)]);
        ranges.coalesce();
        assert_eq!(ranges.as_slice(), [range(0, 30)]);
    }
}
