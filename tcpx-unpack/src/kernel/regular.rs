#![allow(unsafe_code)]
//! Jobs of which every fragment is one tile, as nearly all are: checked and cut in one pass.
//!
//! Each chunk goes through here, and nothing else of a submit takes as long. One pass that only
//! gathers signs takes half the time of a check and a pass that cuts; with AVX2, which does two
//! fragments at once, a third.

use tcpx_rx::UnpackDescriptor;

use super::tile::{TILE_BYTES, Tile, fits_tile};
use crate::job::UnpackJob;

/// How many tiles the jobs are, if they are regular; `None` when one of them names a memory that
/// cannot be. Their fragments are looked at by [`fill`] alone.
pub(super) fn count(jobs: &[UnpackJob<'_>]) -> Option<usize> {
    let is_plain = |job: &UnpackJob<'_>| {
        let ends = job.bounce.checked_add(job.bounce_bytes).zip(job.dst.checked_add(job.dst_bytes));
        job.descriptors.is_empty()
            || ends.is_some_and(|(bounce_end, dst_end)| {
                let is_apart = job.bounce >= dst_end || job.dst >= bounce_end;
                let is_somewhere = job.bounce != 0 && job.dst != 0;
                is_apart && is_somewhere && fits_tile(bounce_end) && fits_tile(dst_end)
            })
    };
    jobs.iter().all(is_plain).then(|| jobs.iter().map(|job| job.descriptors.len()).sum())
}

/// Fills a place for each fragment of the jobs, in order, and says whether that was right: whether
/// each lies inside its job's memories and is one tile. If not, the places hold anything.
///
/// There are as many places as [`count`] said of these jobs.
pub(super) fn fill(jobs: &[UnpackJob<'_>], mut places: &mut [Tile]) -> bool {
    for job in jobs {
        let Some((own, rest)) = places.split_at_mut_checked(job.descriptors.len()) else {
            return false;
        };
        if !fill_job(job, own) {
            return false;
        }
        places = rest;
    }
    places.is_empty()
}

fn fill_job(job: &UnpackJob<'_>, places: &mut [Tile]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { fill_avx2(job, places) };
    }
    fill_each(job, places)
}

/// One fragment after the other.
///
/// Sizes and addresses are below 2^57 and lengths below 2^32, so every difference that should not
/// be negative shows it by its sign, but for offsets that are that large themselves.
fn fill_each(job: &UnpackJob<'_>, places: &mut [Tile]) -> bool {
    let mut signs = 0_u64;
    for (place, descriptor) in places.iter_mut().zip(job.descriptors) {
        let &UnpackDescriptor { src_off, len, dst_off } = descriptor;
        let (src_off, len) = (u64::from(src_off), u64::from(len));
        signs |= job.bounce_bytes.wrapping_sub(src_off + len);
        signs |= job.dst_bytes.wrapping_sub(dst_off.wrapping_add(len));
        signs |= dst_off;
        signs |= TILE_BYTES.wrapping_sub(len);
        signs |= len.wrapping_sub(1);
        *place = Tile::new(job.bounce.wrapping_add(src_off), job.dst.wrapping_add(dst_off), len);
    }
    signs >> 63 == 0
}

/// Fragments whose descriptors share a line of the cache.
#[cfg(target_arch = "x86_64")]
const PER_LINE: usize = 4;

/// How far ahead of the descriptors that it looks at [`fill_avx2`] asks for others: some 100 ns.
#[cfg(target_arch = "x86_64")]
const LINES_AHEAD: usize = 16;

/// Two fragments at once, as [`fill_each`] does one.
///
/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_avx2(job: &UnpackJob<'_>, places: &mut [Tile]) -> bool {
    use std::arch::x86_64::*;

    /// A fragment is two lanes: the offset and length of its source, and its destination's offset.
    const _: () = {
        assert!(size_of::<UnpackDescriptor>() == 16 && size_of::<Tile>() == 16);
        assert!(std::mem::offset_of!(UnpackDescriptor, src_off) == 0);
        assert!(std::mem::offset_of!(UnpackDescriptor, len) == 4);
        assert!(std::mem::offset_of!(UnpackDescriptor, dst_off) == 8);
        // All bits of a whole tile's length are beside its destination.
        assert!(TILE_BYTES % (1 << Tile::LEN_BITS_AT_SRC) == 0);
    };
    let of_both =
        |src: u64, dst: u64| _mm256_setr_epi64x(src as i64, dst as i64, src as i64, dst as i64);
    let starts = of_both(job.bounce, job.dst);
    let sizes = of_both(job.bounce_bytes, job.dst_bytes);
    let offset_bits = of_both(u64::from(u32::MAX), u64::MAX);
    // Where a tile has the low and the high bits of its length.
    let dropped = of_both(0, Tile::LEN_BITS_AT_SRC.into());
    let length_of = _mm256_setr_epi8(
        4, 5, 6, 7, -1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, //
        4, 5, 6, 7, -1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1,
    );
    let one = _mm256_set1_epi64x(1);
    // For fragments that are as long as a tile, which nearly all are.
    let (length_bits, length_of_tile) = (of_both(!0 << 32, 0), of_both(TILE_BYTES << 32, 0));
    let room = _mm256_sub_epi64(sizes, _mm256_set1_epi64x(TILE_BYTES as i64));
    let tile_bits = of_both(0, TILE_BYTES >> Tile::LEN_BITS_AT_SRC << Tile::ADDRESS_BITS);
    let tile_starts = _mm256_or_si256(starts, tile_bits);

    let (mut signs, mut lengths) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    let lines = places.len().min(job.descriptors.len()) / PER_LINE;
    for line in 0..lines {
        let descriptors = job.descriptors.as_ptr().wrapping_add(line * PER_LINE);
        let places = places.as_mut_ptr().wrapping_add(line * PER_LINE);
        // A hint, which may name any address.
        _mm_prefetch::<_MM_HINT_T0>(descriptors.wrapping_add(LINES_AHEAD * PER_LINE).cast());
        let pairs = [0, 2].map(|pair| {
            // SAFETY: two descriptors from this one on belong to a line below the number of lines,
            // so they are there; they have the size that is loaded, and need no alignment.
            unsafe { _mm256_loadu_si256(descriptors.add(pair).cast()) }
        });
        let other_lengths = _mm256_or_si256(
            _mm256_xor_si256(pairs[0], length_of_tile),
            _mm256_xor_si256(pairs[1], length_of_tile),
        );
        let tiles = if _mm256_testz_si256(other_lengths, length_bits) == 1 {
            pairs.map(|pair| {
                let offsets = _mm256_and_si256(pair, offset_bits);
                let left = _mm256_sub_epi64(room, offsets);
                signs = _mm256_or_si256(signs, _mm256_or_si256(left, offsets));
                _mm256_add_epi64(tile_starts, offsets)
            })
        } else {
            pairs.map(|pair| {
                let offsets = _mm256_and_si256(pair, offset_bits);
                let length = _mm256_shuffle_epi8(pair, length_of);
                let left = _mm256_sub_epi64(_mm256_sub_epi64(sizes, length), offsets);
                signs = _mm256_or_si256(signs, _mm256_or_si256(left, offsets));
                lengths = _mm256_or_si256(lengths, _mm256_sub_epi64(length, one));
                let length = _mm256_slli_epi64::<{ Tile::ADDRESS_BITS as i32 }>(_mm256_srlv_epi64(
                    length, dropped,
                ));
                _mm256_or_si256(_mm256_add_epi64(starts, offsets), length)
            })
        };
        for (pair, tiles) in [0, 2].into_iter().zip(tiles) {
            // SAFETY: as for the descriptors, of places.
            unsafe { _mm256_storeu_si256(places.add(pair).cast(), tiles) };
        }
    }
    // A length of 0 less 1 has all bits; one of at most a tile, less 1, has none of these.
    let too_long = _mm256_set1_epi64x(!(TILE_BYTES as i64 - 1));
    let is_regular = _mm256_movemask_pd(_mm256_castsi256_pd(signs)) == 0
        && _mm256_testz_si256(lengths, too_long) == 1;
    let done = lines * PER_LINE;
    let last = UnpackJob { descriptors: &job.descriptors[done..], ..*job };
    is_regular && fill_each(&last, &mut places[done..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tile::{Reach, Tiles};
    use super::*;
    use crate::job::check_all;

    const BOUNCE_BYTES: u64 = 1 << 20;
    const DST_BYTES: u64 = 1 << 21;

    fn job(descriptors: &[UnpackDescriptor]) -> UnpackJob<'_> {
        UnpackJob {
            bounce: (1 << 40) + 3,
            bounce_bytes: BOUNCE_BYTES,
            dst: (1 << 41) + 5,
            dst_bytes: DST_BYTES,
            descriptors,
        }
    }

    /// Mostly right, often at a border, sometimes far beyond.
    fn descriptor() -> impl Strategy<Value = UnpackDescriptor> {
        let near = |end: u64| prop_oneof![0..end, end - 5000..end + 3, Just(0), Just(end)];
        let len = prop_oneof![1 => 1_u32..4097, 4 => Just(4096), 1 => Just(1)];
        let odd_len = prop_oneof![Just(0_u32), Just(4097), Just(u32::MAX), 4097..9000_u32];
        let len = prop_oneof![40 => len, 1 => odd_len];
        let dst_off = prop_oneof![
            40 => 0..DST_BYTES - 4096,
            2 => near(DST_BYTES),
            1 => prop_oneof![Just(u64::MAX), Just(1 << 63), Just((1 << 63) - 1), any::<u64>()],
        ];
        let src_off = prop_oneof![40 => 0..BOUNCE_BYTES - 4096, 2 => near(BOUNCE_BYTES), 1 => Just(u64::from(u32::MAX))];
        (src_off, len, dst_off).prop_map(|(src_off, len, dst_off)| UnpackDescriptor {
            src_off: src_off as u32,
            len,
            dst_off,
        })
    }

    type Fill = fn(&UnpackJob<'_>, &mut [Tile]) -> bool;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn it_is_right_exactly_where_check_and_tiles_are(
            list in prop::collection::vec(descriptor(), 0..40),
        ) {
            let job = job(&list);
            let is_tile = |d: &UnpackDescriptor| (1..=4096).contains(&d.len);
            let expected = check_all(&[job]).is_ok() && list.iter().all(is_tile);
            let mut cut = vec![Tile::default(); list.len()];
            if expected {
                prop_assert_eq!(Tiles::new(&[job], Reach::ONE).fill(&mut cut), list.len());
            }
            for fill in [fill_job as Fill, fill_each] {
                let mut places = vec![Tile::default(); list.len()];
                prop_assert_eq!(fill(&job, &mut places), expected);
                if expected {
                    prop_assert_eq!(&places, &cut);
                }
            }
        }
    }

    #[test]
    fn several_jobs_fill_one_row_of_places() {
        let list = [UnpackDescriptor { src_off: 8, len: 16, dst_off: 32 }; 5];
        let jobs = [job(&list[..2]), job(&[]), job(&list)];
        assert_eq!(count(&jobs), Some(7));
        let (mut places, mut cut) = (vec![Tile::default(); 7], vec![Tile::default(); 7]);
        assert!(fill(&jobs, &mut places));
        assert_eq!(Tiles::new(&jobs, Reach::ONE).fill(&mut cut), 7);
        assert_eq!(places, cut);
        assert!(!fill(&jobs, &mut places[..6]), "too few places");
    }

    #[test]
    fn memories_that_cannot_be_are_left_to_the_check() {
        let list = [UnpackDescriptor { src_off: 0, len: 1, dst_off: 0 }];
        let good = job(&list);
        assert_eq!(count(&[good]), Some(1));
        for bad in [
            UnpackJob { bounce: 0, ..good },
            UnpackJob { dst: 0, ..good },
            UnpackJob { bounce: u64::MAX, ..good },
            UnpackJob { dst_bytes: u64::MAX, ..good },
            UnpackJob { dst: (1 << 57) - DST_BYTES + 1, ..good },
            UnpackJob { dst: good.bounce + BOUNCE_BYTES - 1, ..good },
        ] {
            assert_eq!(count(&[good, bad]), None, "{bad:?}");
            assert_eq!(count(&[good, UnpackJob { descriptors: &[], ..bad }]), Some(1));
        }
    }
}
