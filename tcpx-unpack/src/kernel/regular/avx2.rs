#![allow(unsafe_code)]
//! AVX2 code that fills four places at once, with two fragments in each register.

use std::arch::x86_64::*;

use tcpx_rx::UnpackDescriptor;

use super::super::tile::{TILE_BYTES, Tile};
use crate::job::UnpackJob;

/// Number of fragments whose descriptors share a cache line.
const PER_LINE: usize = 4;

/// Distance of the prefetch ahead of the current descriptors: some 100 ns.
const LINES_AHEAD: usize = 16;

/// Checks the layout: a fragment is two lanes. One has the offset and length of its source, the
/// other its destination's offset.
const _: () = {
    assert!(size_of::<UnpackDescriptor>() == 16 && size_of::<Tile>() == 16);
    assert!(std::mem::offset_of!(UnpackDescriptor, src_off) == 0);
    assert!(std::mem::offset_of!(UnpackDescriptor, len) == 4);
    assert!(std::mem::offset_of!(UnpackDescriptor, dst_off) == 8);
    // All bits of a whole tile's length are beside its destination.
    assert!(TILE_BYTES.is_multiple_of(1 << Tile::LEN_BITS_AT_SRC));
};

/// Fills places as `fill_each` does, for all whole lines of descriptors. Returns the number of
/// those fragments, or `None` where a fragment is not right.
#[target_feature(enable = "avx2")]
pub(super) fn fill(job: &UnpackJob<'_>, places: &mut [Tile]) -> Option<usize> {
    let lanes = Lanes::of(job);
    let is_whole = of_both(!0 << 32, 0);
    let length_of_tile = of_both(TILE_BYTES << 32, 0);
    let mut signs = _mm256_setzero_si256();
    let mut lengths = _mm256_setzero_si256();
    let (descriptors, _) = job.descriptors.as_chunks::<PER_LINE>();
    let (places, _) = places.as_chunks_mut::<PER_LINE>();
    for (line, places) in descriptors.iter().zip(&mut *places) {
        let first = line.as_ptr();
        let ahead = first.wrapping_add(LINES_AHEAD * PER_LINE);
        // SAFETY: the prefetch is a hint, which may name any address.
        #[allow(unused_unsafe, reason = "it is unsafe in the oldest Rust that is promised")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
        }
        // SAFETY: a line has two pairs of descriptors, of the size that is loaded; any alignment
        // will do.
        let pairs =
            unsafe { [_mm256_loadu_si256(first.cast()), _mm256_loadu_si256(first.add(2).cast())] };
        let others = pairs.map(|pair| _mm256_xor_si256(pair, length_of_tile));
        // Nearly all fragments are as long as a tile, which takes half of the work.
        let tiles = if _mm256_testz_si256(_mm256_or_si256(others[0], others[1]), is_whole) == 1 {
            pairs.map(|pair| lanes.whole_tiles(pair, &mut signs))
        } else {
            pairs.map(|pair| lanes.tiles(pair, &mut signs, &mut lengths))
        };
        let first = places.as_mut_ptr();
        // SAFETY: as for the descriptors, of places.
        unsafe {
            _mm256_storeu_si256(first.cast(), tiles[0]);
            _mm256_storeu_si256(first.add(2).cast(), tiles[1]);
        }
    }
    // A length of 0, less 1, has all bits. A length of at most a tile, less 1, has none of these
    // bits.
    let too_long = _mm256_set1_epi64x(!(TILE_BYTES as i64 - 1));
    let is_regular = _mm256_movemask_pd(_mm256_castsi256_pd(signs)) == 0
        && _mm256_testz_si256(lengths, too_long) == 1;
    is_regular.then_some(descriptors.len().min(places.len()) * PER_LINE)
}

/// Returns the same two lanes for both fragments of a pair.
#[inline]
#[target_feature(enable = "avx2")]
fn of_both(src: u64, dst: u64) -> __m256i {
    _mm256_setr_epi64x(src as i64, dst as i64, src as i64, dst as i64)
}

/// Constants of all fragments of a job.
struct Lanes {
    starts: __m256i,
    sizes: __m256i,
    offset_bits: __m256i,
    /// Shuffle that moves the four bytes of a length to their place.
    length_of: __m256i,
    /// Bits of a length that a lane of a tile lacks, because they are in the other lane.
    dropped: __m256i,
    /// Last offsets at which a whole tile may begin. `whole_starts` has the start addresses with
    /// the length of a whole tile.
    room: __m256i,
    whole_starts: __m256i,
}

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(job: &UnpackJob<'_>) -> Self {
        let starts = of_both(job.bounce, job.dst);
        let sizes = of_both(job.bounce_bytes, job.dst_bytes);
        let whole = of_both(0, TILE_BYTES >> Tile::LEN_BITS_AT_SRC << Tile::ADDRESS_BITS);
        Self {
            starts,
            sizes,
            offset_bits: of_both(u64::from(u32::MAX), u64::MAX),
            length_of: _mm256_setr_epi8(
                4, 5, 6, 7, -1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, //
                4, 5, 6, 7, -1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1,
            ),
            dropped: of_both(0, Tile::LEN_BITS_AT_SRC.into()),
            room: _mm256_sub_epi64(sizes, _mm256_set1_epi64x(TILE_BYTES as i64)),
            whole_starts: _mm256_or_si256(starts, whole),
        }
    }

    /// Returns the tiles of two fragments that are both as long as a tile.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn whole_tiles(&self, pair: __m256i, signs: &mut __m256i) -> __m256i {
        let offsets = _mm256_and_si256(pair, self.offset_bits);
        let left = _mm256_sub_epi64(self.room, offsets);
        *signs = _mm256_or_si256(*signs, _mm256_or_si256(left, offsets));
        _mm256_add_epi64(self.whole_starts, offsets)
    }

    /// Returns the tiles of any two fragments. Adds the lengths, less 1, to `lengths`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn tiles(&self, pair: __m256i, signs: &mut __m256i, lengths: &mut __m256i) -> __m256i {
        const UP: i32 = Tile::ADDRESS_BITS as i32;
        let offsets = _mm256_and_si256(pair, self.offset_bits);
        let length = _mm256_shuffle_epi8(pair, self.length_of);
        let left = _mm256_sub_epi64(_mm256_sub_epi64(self.sizes, length), offsets);
        *signs = _mm256_or_si256(*signs, _mm256_or_si256(left, offsets));
        *lengths = _mm256_or_si256(*lengths, _mm256_sub_epi64(length, _mm256_set1_epi64x(1)));
        let length = _mm256_slli_epi64::<UP>(_mm256_srlv_epi64(length, self.dropped));
        _mm256_or_si256(_mm256_add_epi64(self.starts, offsets), length)
    }
}
