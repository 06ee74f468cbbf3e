//! Tokens that wait to go back to the kernel.

use alloc::vec::Vec;

use crate::token_batch::TokenBatches;
use crate::token_range::TokenRange;

/// Tokens that wait to go back to the kernel, in the order in which they came.
///
/// The kernel hands tokens out in ascending order most of the time, so a few ranges hold many
/// tokens. Tokens belong to the socket they came from: keep one value of this type for each socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRanges {
    ranges: Vec<TokenRange>,
}

impl TokenRanges {
    /// Creates an empty set of tokens.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Adds one token. A token that follows the last range extends it; any other token begins a new
    /// range.
    pub fn push(&mut self, token: u32) {
        self.push_range(TokenRange::single(token));
    }

    /// Adds tokens. Tokens that follow the last range extend it; others begin a new range.
    pub fn push_range(&mut self, range: TokenRange) {
        if let Some(last) = self.ranges.last_mut()
            && last.end() == u64::from(range.start())
            && last.extend_to(range.end())
        {
            return;
        }
        self.ranges.push(range);
    }

    /// Sorts the tokens and joins all ranges that touch, so that the fewest ranges are left. A
    /// token that was added more than once stays once.
    pub fn coalesce(&mut self) {
        self.ranges.sort_unstable_by_key(|range| range.start());
        self.ranges.dedup_by(|range, last| {
            if range.end() <= last.end() {
                return true;
            }
            let Some(known) = last.end().checked_sub(u64::from(range.start())) else {
                return false;
            };
            if last.extend_to(range.end()) {
                return true;
            }
            // All 2^32 tokens, one more than a count can hold: two ranges, still disjoint. `range`
            // ends after `last`, so it has more than `known` tokens.
            *range = range.after(known as u32).unwrap_or(*range);
            false
        });
    }

    /// Returns the ranges, ready for [`TokenBatches`].
    #[must_use]
    pub fn as_slice(&self) -> &[TokenRange] {
        &self.ranges
    }

    /// Returns the number of tokens in all ranges together.
    #[must_use]
    pub fn fragments(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.count())).sum()
    }

    /// Returns whether there are no tokens.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Removes all tokens and keeps the memory.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Cuts the tokens into calls that the kernel accepts, in order.
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
    fn a_range_ends_at_the_last_token() {
        let mut ranges = TokenRanges::new();
        ranges.push(u32::MAX);
        ranges.push(0);
        assert_eq!(ranges.as_slice(), [range(u32::MAX, 1), range(0, 1)]);
    }

    #[test]
    fn all_possible_tokens_need_two_ranges() {
        let mut ranges = pushed(&[range(0, u32::MAX), range(u32::MAX, 1)]);
        assert_eq!(ranges.as_slice().len(), 2);
        ranges.coalesce();
        assert_eq!(ranges.fragments(), 1 << 32);

        let mut overlapping = pushed(&[range(7, u32::MAX - 6), range(0, u32::MAX)]);
        overlapping.coalesce();
        assert_eq!(overlapping.as_slice(), [range(0, u32::MAX), range(u32::MAX, 1)]);
    }

    #[test]
    fn coalesce_joins_contained_and_overlapping_ranges() {
        let mut ranges = pushed(&[range(20, 10), range(0, 15), range(3, 2), range(10, 10)]);
        ranges.coalesce();
        assert_eq!(ranges.as_slice(), [range(0, 30)]);
    }
}
