//! Check of whether the pages of the bounce buffer are used again.
//!
//! A plugin that forgets pages needs new ones all the time. The places of fragments show this in
//! any pool order. Pages that were never seen before keep turning up, although only few are in use
//! at a time. In a sound pool this ends once the largest load was reached, or the whole pool was
//! used once.

use tcpx_rx::UnpackDescriptor;

const PAGE_SHIFT: u32 = 12;
/// Interval of followed pages: one page in `FOLLOWED` is followed, to keep the cost of a fragment
/// down. A power of two.
const FOLLOWED: u32 = 4;
/// Approximate number of the newest sightings that a verdict rests on.
const RECENT: u32 = 256;
/// Smallest share of fresh pages among the newest sightings: one in `FRESH_SHARE`. A fresh page was
/// never seen before.
const FRESH_SHARE: u32 = 16;
/// Share of all seen pages within which pages come back: one in `REUSE_SHARE`.
const REUSE_SHARE: u64 = 4;

/// Sightings of pages, and their order.
#[derive(Debug, Default)]
pub(crate) struct PageUse {
    /// Number of the last sighting of each followed page, 0 for none. Grows to the largest page
    /// seen.
    last: Vec<u32>,
    /// Number of sightings so far. Wraps after 2^32, when distances are wrong once for each page.
    sightings: u32,
    seen: u32,
    recent: Recent,
}

/// Counts that decay: they are halved when there are many.
#[derive(Debug, Default)]
struct Recent {
    sightings: u32,
    fresh: u32,
    /// Number of sightings between two of the same page, summed over the pages that came back.
    distance: u64,
}

impl PageUse {
    /// Notes the places of the fragments of a chunk. Their offsets were checked against the bounce
    /// buffer.
    pub(crate) fn note(&mut self, descriptors: &[UnpackDescriptor]) {
        for descriptor in descriptors {
            let first = (descriptor.src_off >> PAGE_SHIFT).next_multiple_of(FOLLOWED);
            let end = descriptor.src_end().div_ceil(1 << PAGE_SHIFT);
            for page in (u64::from(first)..end).step_by(FOLLOWED as usize) {
                self.record((page / u64::from(FOLLOWED)) as usize);
            }
        }
    }

    fn record(&mut self, page: usize) {
        if page >= self.last.len() {
            self.last.resize((page + 1).next_power_of_two(), 0);
        }
        self.sightings = self.sightings.wrapping_add(1).max(1);
        let before = std::mem::replace(&mut self.last[page], self.sightings);
        if self.recent.sightings >= RECENT {
            self.recent.sightings /= 2;
            self.recent.fresh /= 2;
            self.recent.distance /= 2;
        }
        self.recent.sightings += 1;
        if before == 0 {
            self.seen += 1;
            self.recent.fresh += 1;
        } else {
            self.recent.distance += u64::from(self.sightings.wrapping_sub(before));
        }
    }

    /// Returns whether pages seem to be lost. The answer is meaningful only while receives stand
    /// still.
    pub(crate) fn is_draining(&self) -> bool {
        let Recent { sightings, fresh, distance } = self.recent;
        let reuses = u64::from(sightings - fresh.min(sightings));
        let is_fresh = fresh > 0 && fresh * FRESH_SHARE >= sightings;
        let is_close = reuses > 0 && distance * REUSE_SHARE <= reuses * u64::from(self.seen);
        is_fresh && is_close
    }

    /// Returns the bytes of all pages seen so far, estimated from the followed pages.
    pub(crate) fn seen_bytes(&self) -> u64 {
        (u64::from(self.seen) * u64::from(FOLLOWED)) << PAGE_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Pool that hands out single pages, and its treatment of those that come back.
    struct Pool {
        free: VecDeque<u32>,
        is_lifo: bool,
    }

    impl Pool {
        fn new(pages: u32, is_lifo: bool) -> Self {
            Self { free: (0..pages).collect(), is_lifo }
        }

        fn take(&mut self, count: usize) -> Option<Vec<u32>> {
            (self.free.len() >= count).then(|| self.free.drain(..count).collect())
        }

        fn give(&mut self, pages: Vec<u32>) {
            for page in pages {
                if self.is_lifo { self.free.push_front(page) } else { self.free.push_back(page) }
            }
        }
    }

    fn note(pages: &mut PageUse, taken: &[u32]) {
        let entries: Vec<_> = taken
            .iter()
            .map(|page| UnpackDescriptor { src_off: page << 12, len: 4096, dst_off: 0 })
            .collect();
        pages.note(&entries);
    }

    /// Runs chunks of 16 pages, four at a time. Every `leak`-th chunk keeps its pages. Returns
    /// whether the pool ran dry, and the verdict.
    fn run(is_lifo: bool, leak: Option<usize>, chunks: usize) -> (bool, bool) {
        let (mut pool, mut pages) = (Pool::new(2048, is_lifo), PageUse::default());
        let mut window = VecDeque::new();
        for chunk in 0..chunks {
            if window.len() == 4
                && let Some(taken) = window.pop_front()
                && leak.is_none_or(|leak| chunk % leak != 0)
            {
                pool.give(taken);
            }
            let Some(taken) = pool.take(16) else { return (true, pages.is_draining()) };
            note(&mut pages, &taken);
            window.push_back(taken);
        }
        (false, pages.is_draining())
    }

    #[test]
    fn a_pool_that_leaks_is_found_out_when_it_is_dry() {
        for leak in [2, 4, 10] {
            assert_eq!(run(true, Some(leak), 10_000), (true, true), "every {leak}th chunk");
        }
    }

    #[test]
    fn sound_pools_of_either_order_are_not_suspected() {
        for is_lifo in [true, false] {
            for chunks in [10, 100, 1000, 10_000] {
                assert_eq!(run(is_lifo, None, chunks), (false, false), "{is_lifo} {chunks}");
            }
        }
    }

    #[test]
    fn runs_count_every_followed_page_once() {
        let mut pages = PageUse::default();
        pages.note(&[UnpackDescriptor { src_off: 4096 + 7, len: 16 * 4096, dst_off: 0 }]);
        assert_eq!((pages.seen, pages.seen_bytes()), (4, 64 << 10));
        pages.note(&[UnpackDescriptor { src_off: u32::MAX - 4095, len: 4096, dst_off: 0 }]);
        assert_eq!(pages.seen, 4, "the last page of 4 GiB is none that is followed");
    }

    #[test]
    fn nothing_seen_is_no_verdict() {
        assert!(!PageUse::default().is_draining());
    }
}
