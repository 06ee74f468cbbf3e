//! Pages of the bounce region for the bytes of one device receive. Each chunk gets pieces of them
//! for the socket, and unpack entries for the consumer.

use tcpx_sys::{LoadMeta, UNPACK_PAGE_BYTES};

use super::bounce_buffer::BounceBuffer;
use super::page_pool::PageRange;
use super::piece::Piece;
use super::region::Region;

/// Bounce pages of a message, given out chunk by chunk; every chunk starts on a page of its own.
#[derive(Debug, Default)]
pub(crate) struct ReceivePages {
    ranges: Vec<PageRange>,
    range: usize,
    /// Number of pages of the current range that were given out.
    within: u32,
    /// Memory of a message that lies elsewhere, last piece first; empty for other messages.
    #[cfg(feature = "hooks")]
    pieces: Vec<Piece>,
}

/// Returns the number of pages, and of entries, that a message of `total` bytes in chunks of
/// `chunk_bytes` takes.
pub(crate) fn pages_of(total: u32, chunk_bytes: u32) -> u64 {
    let pages = |bytes: u32| u64::from(bytes.div_ceil(UNPACK_PAGE_BYTES as u32));
    u64::from(total / chunk_bytes) * pages(chunk_bytes) + pages(total % chunk_bytes)
}

impl ReceivePages {
    /// Returns the list to put pages in.
    pub(crate) fn ranges(&mut self) -> &mut Vec<PageRange> {
        &mut self.ranges
    }

    /// Takes the pages of a message of `total` bytes; all or none.
    pub(crate) fn take_pages(
        &mut self,
        bounce: &BounceBuffer,
        total: u32,
        chunk_bytes: u32,
    ) -> bool {
        let pages = u32::try_from(pages_of(total, chunk_bytes)).unwrap_or(u32::MAX);
        bounce.take(pages, &mut self.ranges)
    }

    /// Places the message in these pieces, which cut it at every chunk.
    #[cfg(feature = "hooks")]
    pub(crate) fn set_pieces(&mut self, pieces: impl DoubleEndedIterator<Item = Piece>) {
        self.pieces.extend(pieces.rev());
    }

    /// Adds pages, each by itself.
    pub(crate) fn put_numbers(&mut self, pages: &[u32]) {
        self.ranges.extend(pages.iter().map(|&first| PageRange { first, count: 1 }));
    }

    /// Takes all pages out, each by itself.
    pub(crate) fn take_numbers(&mut self) -> Vec<u32> {
        let pages = |range: PageRange| range.first..range.first + range.count;
        self.ranges.drain(..).flat_map(pages).collect()
    }

    /// Appends the memory of the next chunk to `pieces`.
    pub(crate) fn next_chunk(&mut self, region: &Region, bytes: usize, pieces: &mut Vec<Piece>) {
        let mut left = bytes;
        #[cfg(feature = "hooks")]
        while left > 0
            && let Some(piece) = self.pieces.pop()
        {
            left = left.saturating_sub(piece.len());
            pieces.push(piece);
        }
        while left > 0 {
            let Some(range) = self.ranges.get(self.range) else {
                debug_assert!(false, "a message took more pages than it was given");
                return;
            };
            let start = (range.first + self.within) as usize * UNPACK_PAGE_BYTES;
            let room = (range.count - self.within) as usize * UNPACK_PAGE_BYTES;
            let piece = region.piece(start, room.min(left));
            left -= piece.len();
            self.within += piece.len().div_ceil(UNPACK_PAGE_BYTES) as u32;
            if self.within == range.count {
                self.range += 1;
                self.within = 0;
            }
            pieces.push(piece);
        }
    }

    /// Empties the list for the next message; the pages must have been given back.
    pub(crate) fn reset(&mut self) {
        self.ranges.clear();
        #[cfg(feature = "hooks")]
        self.pieces.clear();
        self.range = 0;
        self.within = 0;
    }
}

/// Returns the unpack entries of a chunk that arrived in `pieces`. None crosses a page.
pub(crate) fn entries(
    region: &Region,
    pieces: &[Piece],
    chunk_offset: u32,
) -> impl Iterator<Item = LoadMeta> {
    let mut destination = u64::from(chunk_offset);
    pieces.iter().flat_map(move |&piece| {
        let start = region.offset(piece);
        let first = destination;
        destination += piece.len() as u64;
        Fragments { start, end: start + piece.len() }.map(move |(source, len)| LoadMeta {
            src_off: source as u32,
            len: len as u32,
            dst_off: first + (source - start) as u64,
        })
    })
}

/// Iterator over a range of the region, page by page: (offset, bytes).
struct Fragments {
    start: usize,
    end: usize,
}

impl Iterator for Fragments {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.start;
        if start == self.end {
            return None;
        }
        let page_end = (start / UNPACK_PAGE_BYTES + 1) * UNPACK_PAGE_BYTES;
        self.start = page_end.min(self.end);
        Some((start, self.start - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_starts_on_a_page() {
        assert_eq!(pages_of(1, 4096), 1);
        assert_eq!(pages_of(4096, 4096), 1);
        assert_eq!(pages_of(4097, 4096), 2);
        assert_eq!(pages_of(4 << 20, 512 << 10), 1024);
        assert_eq!(pages_of(300, 100), 3);
        assert_eq!(pages_of(0, 100), 0);
    }

    #[test]
    fn chunks_go_over_runs_and_entries_over_pages() {
        let region = Region::new(8 * UNPACK_PAGE_BYTES).expect("mapping");
        let mut pages = ReceivePages::default();
        pages.ranges().extend([PageRange { first: 6, count: 2 }, PageRange { first: 1, count: 2 }]);
        let mut pieces = Vec::new();
        pages.next_chunk(&region, 3 * 4096 - 1, &mut pieces);
        let found: Vec<_> = entries(&region, &pieces, 100).collect();
        let entry = |src_off, len, dst_off| LoadMeta { src_off, len, dst_off };
        assert_eq!(
            found,
            [entry(24576, 4096, 100), entry(28672, 4096, 4196), entry(4096, 4095, 8292)]
        );
        pieces.clear();
        pages.next_chunk(&region, 10, &mut pieces);
        let found: Vec<_> = entries(&region, &pieces, 0).collect();
        assert_eq!(found, [entry(8192, 10, 0)]);
    }
}
