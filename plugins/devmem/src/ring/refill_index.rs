//! Position of a refill ring. Pure.

/// Place of the next entry of a ring. One end writes entries and the other end reads them; each end
/// counts its own entries for ever.
#[derive(Debug)]
pub(super) struct RefillIndex {
    entries: u32,
    tail: u32,
}

impl RefillIndex {
    /// Creates the index of an empty ring of `entries` entries, a power of two.
    pub(super) fn new(entries: u32) -> Self {
        Self { entries, tail: 0 }
    }

    /// Returns the place of the next entry, if there is room. The reader has taken all entries up
    /// to `head`. A head that is impossible leaves no room.
    pub(super) fn next(&mut self, head: u32) -> Option<usize> {
        if self.tail.wrapping_sub(head) >= self.entries {
            return None;
        }
        let place = self.tail & (self.entries - 1);
        self.tail = self.tail.wrapping_add(1);
        Some(place as usize)
    }

    /// Returns the tail for the reader.
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_around_and_never_over_those_that_were_not_read() {
        let mut index = RefillIndex::new(4);
        let places = |index: &mut RefillIndex, head| -> Vec<usize> {
            std::iter::from_fn(|| index.next(head)).collect()
        };
        assert_eq!(places(&mut index, 0), [0, 1, 2, 3]);
        assert_eq!((places(&mut index, 0), index.tail()), (vec![], 4));
        assert_eq!(places(&mut index, 3), [0, 1, 2]);
        assert_eq!(index.tail(), 7);
        // The reader is ahead of the writer. That is impossible, so nothing is written.
        assert_eq!(places(&mut index, 8), []);
    }

    #[test]
    fn counts_go_over_their_end() {
        let mut index = RefillIndex { entries: 4, tail: u32::MAX };
        assert_eq!(index.next(u32::MAX), Some(3));
        assert_eq!((index.next(u32::MAX), index.tail()), (Some(0), 1));
        assert_eq!(index.next(u32::MAX - 2), None, "four are unread");
    }
}
