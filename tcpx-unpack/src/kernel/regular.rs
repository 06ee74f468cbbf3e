#![allow(unsafe_code)]
//! Fast path for jobs whose every fragment is one tile, as in nearly all jobs: check and cut in one
//! pass.
//!
//! Each chunk goes through this pass, which is the longest part of a submit. One pass that only
//! gathers signs takes half the time of a check and a pass that cuts. AVX2, which does four
//! fragments at once, takes a fifth of that time where fragments are whole pages.

#[cfg(target_arch = "x86_64")]
mod avx2;

use tcpx_rx::UnpackDescriptor;

use super::tile::{TILE_BYTES, Tile, fits_tile};
use crate::job::UnpackJob;

/// Returns the number of tiles of the jobs, if the jobs are regular. Returns `None` when a job
/// names a memory that cannot be. Only [`fill`] checks the fragments.
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

/// Fills a place for each fragment of the jobs, in order. Returns whether each fragment lies inside
/// its job's memories and is one tile. If not, the contents of the places are undefined.
///
/// There are as many places as [`count`] returned for these jobs.
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
        let Some(filled) = (unsafe { avx2::fill(job, places) }) else { return false };
        let rest = UnpackJob { descriptors: &job.descriptors[filled..], ..*job };
        return fill_each(&rest, &mut places[filled..]);
    }
    fill_each(job, places)
}

/// Fills one place after the other.
///
/// Sizes and addresses are below 2^57 and lengths below 2^32. A difference that should not be
/// negative therefore shows an error by its sign. Offsets as large as 2^57 are the exception.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::reach::Reach;
    use super::super::tile::Tiles;
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

    /// Generates mostly right descriptors, often at a border, sometimes far beyond.
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
