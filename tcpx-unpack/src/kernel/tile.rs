//! Tiles: the pieces of fragments that one warp of the kernel copies, and the entries that name
//! them.
//!
//! An entry names one tile, or a *span* of whole tiles that follow each other at both ends. A
//! launch's *reach* is the largest number of tiles of a span. As many warps look at each entry.

use tcpx_rx::UnpackDescriptor;

pub(super) use super::reach::TILE_BYTES;
use super::reach::{MOST_REACH, Reach};
use crate::error::{Side, UnpackError};
use crate::extent::Extent;
use crate::job::{FragmentStats, UnpackJob};

const ADDRESS_BITS: u32 = Tile::ADDRESS_BITS;
const LEN_BITS_AT_SRC: u32 = Tile::LEN_BITS_AT_SRC;

/// `IS_SPAN` of the kernel: the length counts tiles.
const IS_SPAN: u64 = 1 << 13;

/// Source, destination and length of a tile or a span, packed as the kernel reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(16))]
pub(super) struct Tile {
    src_and_len: u64,
    dst_and_len: u64,
}

const _: () = {
    assert!(size_of::<Tile>() == 16);
    assert!(TILE_BYTES < IS_SPAN && 1 << MOST_REACH < IS_SPAN);
    assert!(IS_SPAN == 1 << (2 * LEN_BITS_AT_SRC - 1));
};

impl Tile {
    /// Bits of an address; the length has the rest. No GPU and no host uses more bits for memory
    /// that a program can have.
    pub(super) const ADDRESS_BITS: u32 = 57;

    /// Length bits beside the source address. The remaining length bits are beside the destination.
    pub(super) const LEN_BITS_AT_SRC: u32 = 64 - Self::ADDRESS_BITS;

    pub(super) fn new(src: u64, dst: u64, bytes: u64) -> Self {
        Self {
            src_and_len: src | bytes << ADDRESS_BITS,
            dst_and_len: dst | bytes >> LEN_BITS_AT_SRC << ADDRESS_BITS,
        }
    }

    fn span(src: u64, dst: u64, tiles: u64) -> Self {
        Self::new(src, dst, tiles | IS_SPAN)
    }
}

/// Returns whether a tile can name addresses before this one.
pub(super) fn fits_tile(end: u64) -> bool {
    end <= 1 << ADDRESS_BITS
}

/// Refuses jobs whose addresses would not fit into a tile.
pub(super) fn check_addresses(jobs: &[UnpackJob<'_>]) -> Result<(), UnpackError> {
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| !job.descriptors.is_empty()) {
        let sides = [
            (Side::Bounce, job.bounce, job.bounce_bytes),
            (Side::Destination, job.dst, job.dst_bytes),
        ];
        for (side, address, bytes) in sides {
            if !fits_tile(address.saturating_add(bytes)) {
                return Err(UnpackError::BadRange { job: index, side, address, bytes });
            }
        }
    }
    Ok(())
}

/// Returns the number of entries that [`Tiles`] makes of `jobs`. `checked` is the result of their
/// check.
pub(super) fn count(jobs: &[UnpackJob<'_>], checked: FragmentStats) -> usize {
    if u64::from(checked.longest) <= TILE_BYTES {
        return checked.fragments;
    }
    count_each(jobs, Reach::of(checked))
}

/// Counts the same entries without knowledge of the jobs except their reach.
pub(super) fn count_each(jobs: &[UnpackJob<'_>], reach: Reach) -> usize {
    let count = |job: &UnpackJob<'_>| -> usize {
        job.descriptors.iter().map(|descriptor| count_of(job.dst, descriptor, reach)).sum()
    };
    jobs.iter().map(count).sum()
}

#[inline]
fn count_of(dst: u64, descriptor: &UnpackDescriptor, reach: Reach) -> usize {
    let bytes = u64::from(descriptor.len);
    if bytes <= TILE_BYTES {
        return usize::from(bytes > 0);
    }
    let head = head_bytes(dst + descriptor.dst_off);
    let (whole, tail) = ((bytes - head) / TILE_BYTES, (bytes - head) % TILE_BYTES);
    usize::from(head > 0) + whole.div_ceil(reach.tiles()) as usize + usize::from(tail > 0)
}

/// Returns the length of the head of a fragment that is longer than one tile. The head ends where
/// the destination is aligned, so that the whole tiles have neither head nor tail.
#[inline]
fn head_bytes(dst: u64) -> u64 {
    (TILE_BYTES - dst % 16) % TILE_BYTES
}

/// Cuts the fragments of jobs into tiles and spans, in order.
pub(super) struct Tiles<'jobs> {
    reach: Reach,
    jobs: std::slice::Iter<'jobs, UnpackJob<'jobs>>,
    bounce: u64,
    dst: u64,
    descriptors: &'jobs [UnpackDescriptor],
    /// Rest of a fragment that is longer than one tile.
    long: Extent,
}

impl<'jobs> Tiles<'jobs> {
    /// Begins at the first job. The jobs are checked, and passed [`check_addresses`].
    pub(super) fn new(jobs: &'jobs [UnpackJob<'jobs>], reach: Reach) -> Self {
        let long = Extent { src: 0, dst: 0, bytes: 0 };
        Self { reach, jobs: jobs.iter(), bounce: 0, dst: 0, descriptors: &[], long }
    }

    /// Puts the next entries into `places`, and returns their number. The number is below that of
    /// the places only when no entry is left.
    pub(super) fn fill(&mut self, places: &mut [Tile]) -> usize {
        let mut filled = 0;
        loop {
            filled += self.fill_long(&mut places[filled..]);
            filled += self.fill_short(&mut places[filled..]);
            if filled == places.len() || !self.next_fragment() {
                return filled;
            }
        }
    }

    /// Fills places with fragments of one tile each, up to the end of the job or the first longer
    /// fragment.
    fn fill_short(&mut self, places: &mut [Tile]) -> usize {
        if self.long.bytes > 0 {
            return 0;
        }
        let together = places.len().min(self.descriptors.len());
        if self.fill_regular(&mut places[..together]) {
            self.descriptors = &self.descriptors[together..];
            return together;
        }
        let (mut filled, mut taken) = (0, 0);
        for descriptor in self.descriptors {
            if filled == places.len() || u64::from(descriptor.len) > TILE_BYTES {
                break;
            }
            let Extent { src, dst, bytes } = self.place(descriptor);
            places[filled] = Tile::new(src, dst, bytes);
            // The next fragment takes the place of a fragment without bytes.
            filled += usize::from(bytes > 0);
            taken += 1;
        }
        self.descriptors = &self.descriptors[taken..];
        filled
    }

    /// Fills all `places`, one fragment each. Returns whether each fragment is one tile, as is
    /// nearly always so. This loop has no branch, and does a sixth more fragments per second than
    /// the careful loop.
    fn fill_regular(&self, places: &mut [Tile]) -> bool {
        let mut irregular = false;
        for (place, descriptor) in places.iter_mut().zip(self.descriptors) {
            let Extent { src, dst, bytes } = self.place(descriptor);
            *place = Tile::new(src, dst, bytes);
            irregular |= bytes.wrapping_sub(1) >= TILE_BYTES;
        }
        !irregular
    }

    fn fill_long(&mut self, places: &mut [Tile]) -> usize {
        let mut filled = 0;
        while filled < places.len() && self.long.bytes > 0 {
            let Extent { src, dst, bytes: left } = self.long;
            let (whole, head) = (left / TILE_BYTES, head_bytes(dst));
            let moved = if whole == 0 || head > 0 {
                let bytes = if left <= TILE_BYTES { left } else { head };
                places[filled] = Tile::new(src, dst, bytes);
                filled += 1;
                bytes
            } else {
                // Nearly all full spans go through one loop that does the same each time.
                let full = (whole / self.reach.tiles()).min((places.len() - filled) as u64);
                let (spans, tiles) = if full > 0 { (full, self.reach.tiles()) } else { (1, whole) };
                let places = &mut places[filled..filled + spans as usize];
                let bytes = tiles * TILE_BYTES;
                for (place, offset) in places.iter_mut().zip((0..).step_by(bytes as usize)) {
                    *place = Tile::span(src + offset, dst + offset, tiles);
                }
                filled += spans as usize;
                spans * bytes
            };
            self.long = Extent { src: src + moved, dst: dst + moved, bytes: left - moved };
        }
        filled
    }

    /// Begins the job's next fragment, a long one, or the next job. Returns false when there is no
    /// fragment.
    fn next_fragment(&mut self) -> bool {
        if let Some((descriptor, rest)) = self.descriptors.split_first() {
            self.long = self.place(descriptor);
            self.descriptors = rest;
            return true;
        }
        let Some(job) = self.jobs.next() else { return false };
        self.bounce = job.bounce;
        self.dst = job.dst;
        self.descriptors = job.descriptors;
        true
    }

    #[inline]
    fn place(&self, descriptor: &UnpackDescriptor) -> Extent {
        Extent {
            // Wrapping: the bounce buffer of a staged job may start before address 0.
            src: self.bounce.wrapping_add(u64::from(descriptor.src_off)),
            dst: self.dst + descriptor.dst_off,
            bytes: u64::from(descriptor.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::check_all;

    /// Unpacks a tile as the kernel does.
    fn parts(tile: Tile) -> (u64, u64, u64) {
        let address = (1 << ADDRESS_BITS) - 1;
        let len =
            tile.src_and_len >> ADDRESS_BITS | tile.dst_and_len >> ADDRESS_BITS << LEN_BITS_AT_SRC;
        (tile.src_and_len & address, tile.dst_and_len & address, len)
    }

    fn job(bounce: u64, dst: u64, descriptors: &[UnpackDescriptor]) -> UnpackJob<'_> {
        UnpackJob { bounce, bounce_bytes: 1 << 32, dst, dst_bytes: 1 << 33, descriptors }
    }

    /// Returns all entries, a few with each call of `fill`.
    fn entries_of(jobs: &[UnpackJob<'_>], reach: Reach, at_a_time: usize) -> Vec<(u64, u64, u64)> {
        let mut tiles = Tiles::new(jobs, reach);
        let mut places = vec![Tile::default(); at_a_time];
        let mut all = Vec::new();
        loop {
            let filled = tiles.fill(&mut places);
            all.extend(places[..filled].iter().copied().map(parts));
            if filled < at_a_time {
                return all;
            }
        }
    }

    /// Returns the tiles that the warps of this entry copy.
    fn tiles_of((src, dst, word): (u64, u64, u64)) -> Vec<(u64, u64, u64)> {
        if word & IS_SPAN == 0 {
            return vec![(src, dst, word)];
        }
        let offsets = (0..word - IS_SPAN).map(|part| part * TILE_BYTES);
        offsets.map(|offset| (src + offset, dst + offset, TILE_BYTES)).collect()
    }

    fn len() -> impl Strategy<Value = u32> {
        prop_oneof![0_u32..20_000, 0_u32..2_000_000, (0_u32..500).prop_map(|pages| pages * 4096)]
    }

    fn reaches() -> impl Strategy<Value = Reach> {
        (0..=MOST_REACH).prop_map(Reach)
    }

    #[test]
    fn a_page_is_one_tile_wherever_it_goes() {
        let descriptors = [UnpackDescriptor { src_off: 8192, len: 4096, dst_off: 9 }];
        assert_eq!(
            entries_of(&[job(1 << 40, 1 << 41, &descriptors)], Reach::ONE, 8),
            [((1 << 40) + 8192, (1 << 41) + 9, 4096)]
        );
    }

    #[test]
    fn long_fragments_are_cut_where_the_destination_is_aligned() {
        let descriptors = [UnpackDescriptor { src_off: 1, len: 25_000, dst_off: 5 }];
        let job = job(0x10000, 0x20000, &descriptors);
        let head = (0x10001, 0x20005, 4091);
        let at = |tiles: u64| (0x10001 + 4091 + tiles * 4096, 0x21000 + tiles * 4096);
        let span = |from: u64, tiles: u64| (at(from).0, at(from).1, IS_SPAN | tiles);
        let tail = (at(5).0, at(5).1, 429);
        let one_each = [head, span(0, 1), span(1, 1), span(2, 1), span(3, 1), span(4, 1), tail];
        assert_eq!(entries_of(&[job], Reach::ONE, 2), one_each);
        assert_eq!(
            entries_of(&[job], Reach(1), 2),
            [head, span(0, 2), span(2, 2), span(4, 1), tail]
        );
        assert_eq!(entries_of(&[job], Reach(3), 2), [head, span(0, 5), tail]);
    }

    #[test]
    fn the_highest_addresses_survive_packing() {
        let tile = Tile::new((1 << 57) - 4096, (1 << 57) - 1, 4096);
        assert_eq!(parts(tile), ((1 << 57) - 4096, (1 << 57) - 1, 4096));
    }

    #[test]
    fn addresses_that_do_not_fit_are_refused() {
        let descriptors = [UnpackDescriptor { src_off: 0, len: 1, dst_off: 0 }];
        let fits = UnpackJob { bounce_bytes: 1, ..job((1 << 57) - 1, 4096, &descriptors) };
        assert_eq!(check_addresses(&[fits]), Ok(()));
        let refused = UnpackJob { bounce_bytes: 2, ..fits };
        assert!(matches!(
            check_addresses(&[fits, refused]),
            Err(UnpackError::BadRange { job: 1, side: Side::Bounce, .. })
        ));
    }

    proptest! {
        #[test]
        fn tiles_cover_every_fragment_once(
            lists in prop::collection::vec(
                (0_u64..32, prop::collection::vec((0_u32..1 << 20, len()), 0..20)), 0..4),
            at_a_time in 1_usize..12,
            reach in reaches(),
        ) {
            let mut dst_off = 0;
            let lists: Vec<(u64, Vec<UnpackDescriptor>)> = lists.into_iter().map(|(dst, list)| {
                (dst, list.into_iter().map(|(src_off, len)| {
                    let descriptor = UnpackDescriptor { src_off, len, dst_off };
                    dst_off += u64::from(len);
                    descriptor
                }).collect())
            }).collect();
            let jobs: Vec<_> =
                lists.iter().map(|(dst, list)| job(1 << 20, (1 << 40) + dst, list)).collect();

            let checked = check_all(&jobs).unwrap();
            let chosen = entries_of(&jobs, Reach::of(checked), at_a_time);
            prop_assert_eq!(chosen.len(), count(&jobs, checked));
            let tiles: usize = chosen.iter().map(|entry| tiles_of(*entry).len()).sum();
            let warps = chosen.len() << Reach::of(checked).log2();
            prop_assert!(warps <= tiles * 2, "{} warps for {} tiles", warps, tiles);

            let entries = entries_of(&jobs, reach, at_a_time);
            prop_assert_eq!(entries.len(), count_each(&jobs, reach));
            let fits = |entry: &(u64, u64, u64)| tiles_of(*entry).len() as u64 <= reach.tiles();
            prop_assert!(entries.iter().all(fits));

            let mut tiles = entries.into_iter().flat_map(tiles_of);
            for job in &jobs {
                for descriptor in job.descriptors {
                    let mut src = job.bounce + u64::from(descriptor.src_off);
                    let mut dst = job.dst + descriptor.dst_off;
                    let mut left = u64::from(descriptor.len);
                    while left > 0 {
                        let tile = tiles.next().unwrap();
                        prop_assert_eq!((tile.0, tile.1), (src, dst));
                        prop_assert!(tile.2 > 0 && tile.2 <= TILE_BYTES.min(left));
                        src += tile.2;
                        dst += tile.2;
                        left -= tile.2;
                        prop_assert!(left == 0 || dst % 16 == 0);
                    }
                }
            }
            prop_assert_eq!(tiles.next(), None);
        }
    }
}
