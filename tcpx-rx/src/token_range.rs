//! Range of consecutive tokens.

/// Range of consecutive tokens, at least one.
///
/// The layout is the kernel's `dmabuf_token`, two `u32`, so `setsockopt` takes an array of these.
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
    /// Returns `count` tokens from `start` on, or `None` for no tokens and for a range that would
    /// wrap.
    #[must_use]
    pub const fn new(start: u32, count: u32) -> Option<Self> {
        if count == 0 || start.checked_add(count - 1).is_none() {
            return None;
        }
        Some(Self { start, count })
    }

    /// Returns a range of one token.
    #[must_use]
    pub const fn single(token: u32) -> Self {
        Self { start: token, count: 1 }
    }

    /// Returns the first token.
    #[must_use]
    pub const fn start(&self) -> u32 {
        self.start
    }

    /// Returns the number of tokens, and thus of fragments; not 0.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number after the last token, at most 2^32.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start as u64 + self.count as u64
    }

    /// Returns the first `count` tokens, or all of a shorter range, or `None` for none.
    pub(crate) fn first(&self, count: u32) -> Option<Self> {
        Self::new(self.start, count.min(self.count))
    }

    /// Returns the tokens after the first `count`, if there are any.
    pub(crate) fn after(&self, count: u32) -> Option<Self> {
        let left = self.count.checked_sub(count).filter(|&left| left > 0)?;
        Self::new(self.start + count, left)
    }

    /// Extends the range from its end up to `end`. Returns whether the count still fits 32 bits; if
    /// not, the range is unchanged.
    #[cfg(feature = "alloc")]
    pub(crate) fn extend_to(&mut self, end: u64) -> bool {
        match u32::try_from(end - u64::from(self.start)) {
            Ok(count) => {
                self.count = count;
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, count: u32) -> TokenRange {
        TokenRange::new(start, count).expect("a valid range")
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
}
