//! Free and used pages of the bounce region. Pure: numbers only, no memory.
//!
//! A page is free or has a count of fragments that lie in it. Allocation takes the lowest free
//! pages, so a steady stream keeps reusing the few pages that were consumed last, in ascending
//! ranges: they stay in the cache, and a range becomes one entry of a scatter list.

/// Pages that lie one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRange {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

const WORD_PAGES: u32 = 64;

/// The pages of one bounce region.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// One bit for each page, set when the page is free.
    free: Vec<u64>,
    /// First word that may have a free page.
    lowest: usize,
    /// Number of fragments in each page.
    uses: Vec<u16>,
    free_pages: u32,
    low_water: u32,
}

impl PagePool {
    pub(crate) fn new(pages: u32) -> Self {
        let words = pages.div_ceil(WORD_PAGES) as usize;
        let mut free = vec![u64::MAX; words];
        if let (Some(last), rest @ 1..) = (free.last_mut(), pages % WORD_PAGES) {
            *last = (1 << rest) - 1;
        }
        Self { free, lowest: 0, uses: vec![0; pages as usize], free_pages: pages, low_water: pages }
    }

    pub(crate) fn total_pages(&self) -> u32 {
        u32::try_from(self.uses.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn free_pages(&self) -> u32 {
        self.free_pages
    }

    /// Returns the fewest free pages there ever were.
    pub(crate) fn low_water(&self) -> u32 {
        self.low_water
    }

    /// Appends `count` pages, one use each, to `ranges`; all of them or none.
    pub(crate) fn take(&mut self, count: u32, ranges: &mut Vec<PageRange>) -> bool {
        if count > self.free_pages {
            return false;
        }
        let mut wanted = count;
        let mut word = self.lowest;
        while wanted > 0 {
            // There are `free_pages ≥ wanted` set bits at or after `lowest`, so the walk ends
            // before the last word.
            let bits = self.free[word];
            if bits == 0 {
                word += 1;
                continue;
            }
            let start = bits.trailing_zeros();
            let length = (bits >> start).trailing_ones().min(wanted);
            let mask = if length == WORD_PAGES { u64::MAX } else { ((1 << length) - 1) << start };
            self.free[word] &= !mask;
            wanted -= length;
            push_range(ranges, word as u32 * WORD_PAGES + start, length);
            let first = word * WORD_PAGES as usize + start as usize;
            self.uses[first..first + length as usize].fill(1);
        }
        self.lowest = word;
        self.free_pages -= count;
        self.low_water = self.low_water.min(self.free_pages);
        true
    }

    /// Counts one more fragment in a page that is in use.
    #[cfg(any(test, feature = "hooks"))]
    pub(crate) fn share(&mut self, page: u32) {
        let uses = &mut self.uses[page as usize];
        debug_assert!(*uses > 0, "page {page} is free");
        *uses += 1;
    }

    /// Takes one use off each page of the range, and calls `freed` with every page that became
    /// free.
    pub(crate) fn release(&mut self, range: PageRange, mut freed: impl FnMut(u32)) {
        for page in range.first..range.first + range.count {
            let uses = &mut self.uses[page as usize];
            debug_assert!(*uses > 0, "page {page} is already free");
            // A page that is already free stays free, and is not counted twice.
            let was = core::mem::replace(uses, uses.saturating_sub(1));
            if was != 1 {
                continue;
            }
            let word = (page / WORD_PAGES) as usize;
            self.free[word] |= 1 << (page % WORD_PAGES);
            self.lowest = self.lowest.min(word);
            self.free_pages += 1;
            freed(page);
        }
    }
}

fn push_range(ranges: &mut Vec<PageRange>, first: u32, count: u32) {
    match ranges.last_mut() {
        Some(last) if last.first + last.count == first => last.count += count,
        _ => ranges.push(PageRange { first, count }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(pool: &mut PagePool, count: u32) -> Option<Vec<PageRange>> {
        let mut ranges = Vec::new();
        pool.take(count, &mut ranges).then_some(ranges)
    }

    #[test]
    fn a_steady_stream_reuses_one_ascending_run() {
        let mut pool = PagePool::new(1000);
        for _ in 0..50 {
            let ranges = take(&mut pool, 128).expect("room");
            assert_eq!(ranges, [PageRange { first: 0, count: 128 }]);
            pool.release(ranges[0], |_| ());
        }
        assert_eq!((pool.free_pages(), pool.low_water(), pool.total_pages()), (1000, 872, 1000));
    }

    #[test]
    fn all_or_nothing() {
        let mut pool = PagePool::new(70);
        assert_eq!(take(&mut pool, 71), None);
        assert_eq!(take(&mut pool, 70), Some(vec![PageRange { first: 0, count: 70 }]));
        assert_eq!(take(&mut pool, 1), None);
        assert_eq!(take(&mut pool, 0), Some(vec![]));
    }

    #[test]
    fn a_shared_page_is_freed_by_its_last_user() {
        let mut pool = PagePool::new(4);
        let ranges = take(&mut pool, 1).expect("room");
        pool.share(0);
        let mut freed = Vec::new();
        pool.release(ranges[0], |page| freed.push(page));
        assert!(freed.is_empty());
        pool.release(ranges[0], |page| freed.push(page));
        assert_eq!(freed, [0]);
    }

    proptest! {
        #[test]
        fn no_page_is_ever_handed_out_twice(
            pages in 1u32..300,
            steps in prop::collection::vec((0u32..40, 0usize..8, any::<bool>()), 1..200),
        ) {
            let mut pool = PagePool::new(pages);
            let mut users = vec![0u32; pages as usize];
            let mut held: Vec<PageRange> = Vec::new();
            for (count, which, share) in steps {
                let before = held.len();
                let mut ranges = Vec::new();
                if pool.take(count, &mut ranges) {
                    prop_assert_eq!(ranges.iter().map(|range| range.count).sum::<u32>(), count);
                    for range in ranges {
                        for page in range.first..range.first + range.count {
                            prop_assert_eq!(users[page as usize], 0);
                            users[page as usize] = 1;
                        }
                        held.push(range);
                    }
                } else {
                    prop_assert!(count > pool.free_pages() && held.len() == before);
                }
                if held.is_empty() {
                    continue;
                }
                let range = held[which % held.len()];
                if share {
                    pool.share(range.first);
                    users[range.first as usize] += 1;
                    held.push(PageRange { first: range.first, count: 1 });
                } else {
                    held.swap_remove(which % held.len());
                    for page in range.first..range.first + range.count {
                        users[page as usize] -= 1;
                    }
                    let mut freed = Vec::new();
                    pool.release(range, |page| freed.push(page));
                    let all = range.first..range.first + range.count;
                    let expected: Vec<u32> =
                        all.filter(|&page| users[page as usize] == 0).collect();
                    prop_assert_eq!(freed, expected);
                }
                let free = users.iter().filter(|&&n| n == 0).count();
                prop_assert_eq!(pool.free_pages() as usize, free);
            }
        }
    }
}
