//! Batches of token ranges that one `setsockopt` call accepts.

use core::error::Error;
use core::fmt;
use core::iter::FusedIterator;
use core::ops::Deref;

use crate::token_range::TokenRange;

/// Largest number of ranges of one call; the kernel refuses more with `EINVAL`.
pub const MAX_BATCH_RANGES: usize = 128;

/// Largest number of fragments of one call; the kernel stops there and returns early.
pub const MAX_BATCH_FRAGMENTS: u32 = 1024;

/// Tokens of one `SO_DEVMEM_DONTNEED` call: at least one range, at most [`MAX_BATCH_RANGES`] ranges
/// and [`MAX_BATCH_FRAGMENTS`] fragments.
///
/// Dereferences to the array to hand to the kernel.
#[derive(Clone, Copy)]
pub struct TokenBatch {
    ranges: [TokenRange; MAX_BATCH_RANGES],
    len: usize,
    fragments: u32,
}

/// Error of a kernel that reports more freed fragments than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FreedTooMany {
    /// Number of fragments that the kernel reports as freed.
    pub freed: u32,
    /// Number of fragments in the batch.
    pub fragments: u32,
}

impl fmt::Display for FreedTooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fragments freed of a batch of {}", self.freed, self.fragments)
    }
}

impl Error for FreedTooMany {}

impl TokenBatch {
    const EMPTY: Self =
        Self { ranges: [TokenRange::single(0); MAX_BATCH_RANGES], len: 0, fragments: 0 };

    /// Returns the number of fragments in the batch. A mainline kernel returns this number when it
    /// freed them all. (Google's kernels return 0 for success and no number.)
    #[must_use]
    pub const fn fragments(&self) -> u32 {
        self.fragments
    }

    /// Returns the batch to submit again when the kernel freed `freed` fragments of this batch, or
    /// `None` when it freed them all.
    ///
    /// The kernel takes the tokens in order and stops early at a limit of its own. It passes over
    /// unknown tokens, and does not report them. The rest is therefore all but the first `freed`
    /// tokens. It holds every token that the kernel has not looked at, and as many freed tokens as
    /// there were unknown ones. Freeing those a second time does nothing, **but only before the
    /// next `recvmsg`** on that socket, which may use their numbers for new fragments. When a call
    /// frees nothing, the kernel knows none of the remaining tokens: drop them.
    ///
    /// # Errors
    /// Returns an error when `freed` is more than the batch holds.
    pub fn rest_after(&self, freed: u32) -> Result<Option<Self>, FreedTooMany> {
        if freed > self.fragments {
            return Err(FreedTooMany { freed, fragments: self.fragments });
        }
        let mut rest = Self::EMPTY;
        let mut skip = freed;
        for range in self.iter() {
            if let Some(remaining) = range.after(skip) {
                rest.push_front_of(&remaining);
            }
            skip = skip.saturating_sub(range.count());
        }
        Ok((rest.len > 0).then_some(rest))
    }

    /// Appends as many tokens from the front of `range` as fit. Returns their number.
    fn push_front_of(&mut self, range: &TokenRange) -> u32 {
        let (Some(slot), Some(taken)) =
            (self.ranges.get_mut(self.len), range.first(MAX_BATCH_FRAGMENTS - self.fragments))
        else {
            return 0;
        };
        *slot = taken;
        self.len += 1;
        self.fragments += taken.count();
        taken.count()
    }
}

impl Deref for TokenBatch {
    type Target = [TokenRange];

    fn deref(&self) -> &[TokenRange] {
        &self.ranges[..self.len]
    }
}

impl fmt::Debug for TokenBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for TokenBatch {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for TokenBatch {}

/// Iterator that cuts ranges into batches, each as full as the order of the ranges allows.
/// Allocates nothing.
#[derive(Clone, Debug)]
pub struct TokenBatches<'a> {
    ranges: core::slice::Iter<'a, TokenRange>,
    /// Part of a range that the previous batch had no place for.
    cut: Option<TokenRange>,
}

impl<'a> TokenBatches<'a> {
    /// Begins at the first range.
    #[must_use]
    pub fn new(ranges: &'a [TokenRange]) -> Self {
        Self { ranges: ranges.iter(), cut: None }
    }
}

impl Iterator for TokenBatches<'_> {
    type Item = TokenBatch;

    fn next(&mut self) -> Option<TokenBatch> {
        let mut batch = TokenBatch::EMPTY;
        while let Some(range) = self.cut.take().or_else(|| self.ranges.next().copied()) {
            let taken = batch.push_front_of(&range);
            self.cut = range.after(taken);
            if self.cut.is_some() {
                break;
            }
        }
        (batch.len > 0).then_some(batch)
    }
}

impl FusedIterator for TokenBatches<'_> {}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn range(start: u32, count: u32) -> TokenRange {
        TokenRange::new(start, count).expect("a valid range")
    }

    fn batches(ranges: &[TokenRange]) -> Vec<Vec<TokenRange>> {
        TokenBatches::new(ranges).map(|batch| batch.to_vec()).collect()
    }

    #[test]
    fn no_ranges_make_no_batch() {
        assert_eq!(TokenBatches::new(&[]).next(), None);
    }

    #[test]
    fn a_long_range_is_cut_at_the_fragment_limit() {
        assert_eq!(
            batches(&[range(1, 1000), range(5000, 1048), range(9000, 1)]),
            [
                [range(1, 1000), range(5000, 24)].to_vec(),
                [range(5024, 1024)].to_vec(),
                [range(9000, 1)].to_vec(),
            ]
        );
    }

    #[test]
    fn many_ranges_are_cut_at_the_range_limit() {
        let ranges: Vec<_> = (0..300).map(|k| range(k * 2, 1)).collect();
        let lengths: Vec<_> = TokenBatches::new(&ranges).map(|batch| batch.len()).collect();
        assert_eq!(lengths, [128, 128, 44]);
        assert_eq!(batches(&ranges).concat(), ranges);
    }

    #[test]
    fn the_rest_is_what_follows_the_freed_fragments() {
        let batch = TokenBatches::new(&[range(10, 4), range(20, 1), range(30, 5)]).next().unwrap();
        assert_eq!(batch.fragments(), 10);
        let rest = |freed| batch.rest_after(freed).map(|rest| rest.map(|rest| rest.to_vec()));
        assert_eq!(rest(0), Ok(Some(batch.to_vec())));
        assert_eq!(rest(3), Ok(Some([range(13, 1), range(20, 1), range(30, 5)].to_vec())));
        assert_eq!(rest(4), Ok(Some([range(20, 1), range(30, 5)].to_vec())));
        assert_eq!(rest(7), Ok(Some([range(32, 3)].to_vec())));
        assert_eq!(rest(10), Ok(None));
        assert_eq!(rest(11), Err(FreedTooMany { freed: 11, fragments: 10 }));
    }

    #[test]
    fn the_rest_of_a_rest_counts_its_own_fragments() {
        let batch = TokenBatches::new(&[range(10, 4)]).next().unwrap();
        let rest = batch.rest_after(1).unwrap().unwrap();
        assert_eq!(rest.fragments(), 3);
        assert_eq!(rest.rest_after(3), Ok(None));
    }
}
