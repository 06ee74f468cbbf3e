//! Merging of neighbours into one unpack descriptor, for fewer and longer copies.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use crate::descriptor::UnpackDescriptor;

/// Joins each entry to the previous entry where both source and destination continue. Returns how
/// many entries the merge saved.
///
/// The list copies the same bytes to the same places before and after, whatever it holds. Only
/// neighbours in the list are compared, so sort it first (a successful [`check`](crate::check)
/// leaves it sorted by destination). A list that passed the check passes it again. Entries whose
/// joint length does not fit 32 bits stay apart. Works in place, allocates nothing.
#[cfg(feature = "alloc")]
pub fn merge_neighbours(list: &mut Vec<UnpackDescriptor>) -> usize {
    let len = merge_slice(list);
    let merged = list.len() - len;
    list.truncate(len);
    merged
}

/// Number of entries of a long run that are checked together. Shorter runs are no slower.
const BLOCK: usize = 4;

/// Merges neighbours as `merge_neighbours` does, in a list that cannot shrink. Moves the merged
/// entries to the front of `list` and returns their number. The entries behind have no meaning.
pub fn merge_slice(list: &mut [UnpackDescriptor]) -> usize {
    // No entry up to the first pair that joins has to move; scattered pages never get further.
    let Some(first_pair) = list.windows(2).position(|pair| joint_len(&pair[0], &pair[1]).is_some())
    else {
        return list.len();
    };
    merge_from(list, first_pair)
}

/// Does the same for a list whose entries before this pair stay as they are. Not inlined: it would
/// slow down the search above.
#[inline(never)]
fn merge_from(list: &mut [UnpackDescriptor], first_pair: usize) -> usize {
    let mut written = first_pair;
    let mut index = first_pair;
    while let Some(&first) = list.get(index) {
        let mut joined = first;
        index += 1;
        let long = index + BLOCK;
        while let Some(len) = list.get(index).and_then(|entry| joint_len(&joined, entry)) {
            joined.len = len;
            index += 1;
            if index == long {
                (index, joined.len) = join_blocks(list, index, joined.len);
            }
        }
        list[written] = joined;
        written += 1;
    }
    written
}

/// Extends a run of `len` bytes that ends before `index`, for as long as whole blocks belong to it.
/// Returns the new end of the run, and its length. Not inlined, for the sake of short runs.
#[inline(never)]
fn join_blocks(list: &[UnpackDescriptor], mut index: usize, mut len: u32) -> (usize, u32) {
    let blocks = list[index - 1..].windows(BLOCK + 1).step_by(BLOCK);
    for bytes in blocks.map_while(block_len) {
        let Some(joint) = u32::try_from(bytes).ok().and_then(|bytes| len.checked_add(bytes)) else {
            break;
        };
        len = joint;
        index += BLOCK;
    }
    (index, len)
}

/// Returns the bytes that the entries after the first of a window add to the first entry's run, if
/// each continues the previous one. Uses one branch for all of them.
#[inline]
fn block_len(window: &[UnpackDescriptor]) -> Option<u64> {
    let mut continue_all = true;
    let mut len = 0;
    for pair in window.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let first_len = u64::from(first.len);
        continue_all &= first.src_end() == u64::from(second.src_off);
        continue_all &= second.dst_off.wrapping_sub(first.dst_off) == first_len;
        // Nor does the end of the first wrap.
        continue_all &= second.dst_off >= first.dst_off;
        len += u64::from(second.len);
    }
    continue_all.then_some(len)
}

/// Returns the length of the one entry that does the work of both, if there is such an entry.
#[inline]
fn joint_len(first: &UnpackDescriptor, second: &UnpackDescriptor) -> Option<u32> {
    let continues =
        first.src_end() == u64::from(second.src_off) && first.dst_end() == Some(second.dst_off);
    if continues { first.len.checked_add(second.len) } else { None }
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::vec;

    use super::*;

    fn entry(src_off: u32, len: u32, dst_off: u64) -> UnpackDescriptor {
        UnpackDescriptor { src_off, len, dst_off }
    }

    #[test]
    fn runs_become_one_entry_each() {
        let mut list = vec![
            entry(0, 4096, 0),
            entry(4096, 4096, 4096),
            entry(8192, 10, 8192),
            entry(16_384, 10, 8202),
            entry(16_394, 6, 8212),
        ];
        assert_eq!(merge_neighbours(&mut list), 3);
        assert_eq!(list, [entry(0, 8202, 0), entry(16_384, 16, 8202)]);
    }

    #[test]
    fn long_runs_end_where_they_do_at_any_place_of_a_block() {
        for run in 1..20_u32 {
            for following in [entry(run * 8 + 1, 8, 0), entry(run * 8, 8, 1), entry(0, 1, 0)] {
                let following = UnpackDescriptor {
                    dst_off: u64::from(run) * 8 + following.dst_off,
                    ..following
                };
                let mut list: Vec<_> =
                    (0..run).map(|index| entry(index * 8, 8, u64::from(index) * 8)).collect();
                list.extend([following; 6]);
                assert_eq!(merge_neighbours(&mut list), run as usize - 1);
                assert_eq!(list[0], entry(0, run * 8, 0));
                assert_eq!(list[1..], [following; 6]);
            }
        }
    }

    #[test]
    fn a_long_run_is_cut_where_its_length_ends() {
        let quarter = 1 << 30;
        // All together they have one byte more than a length can express.
        let mut list: Vec<_> = (0..4).map(|n| entry(n, 1, u64::from(n))).collect();
        list.extend((0..3).map(|n| entry(4 + n * quarter, quarter, 4 + u64::from(n * quarter))));
        list.push(entry(4 + 3 * quarter, quarter - 4, 4 + 3 * u64::from(quarter)));
        assert_eq!(merge_neighbours(&mut list.clone()), 6);
        list[7].len = quarter - 5;
        assert_eq!(merge_neighbours(&mut list), 7);
        assert_eq!(list, [entry(0, u32::MAX, 0)]);
    }

    #[test]
    fn short_lists_stay_as_they_are() {
        let mut list = vec![];
        assert_eq!(merge_neighbours(&mut list), 0);
        list.push(entry(5, 6, 7));
        assert_eq!(merge_neighbours(&mut list), 0);
        assert_eq!(list, [entry(5, 6, 7)]);
    }

    #[test]
    fn continuing_on_one_side_only_is_not_enough() {
        let source_only = vec![entry(0, 8, 0), entry(8, 8, 9)];
        let destination_only = vec![entry(0, 8, 0), entry(9, 8, 8)];
        for list in [source_only, destination_only] {
            let mut merged = list.clone();
            assert_eq!(merge_neighbours(&mut merged), 0);
            assert_eq!(merged, list);
        }
    }

    #[test]
    fn a_joint_length_beyond_32_bits_is_not_made() {
        let mut list = vec![entry(0, u32::MAX, 0), entry(u32::MAX, 1, u64::from(u32::MAX))];
        assert_eq!(merge_neighbours(&mut list), 0);
        let mut list =
            vec![entry(0, u32::MAX - 1, 0), entry(u32::MAX - 1, 1, u64::from(u32::MAX - 1))];
        assert_eq!(merge_neighbours(&mut list), 1);
        assert_eq!(list, [entry(0, u32::MAX, 0)]);
    }

    #[test]
    fn ends_that_wrap_never_touch_a_start() {
        let mut list = vec![entry(u32::MAX, 1, 0), entry(0, 1, 1)];
        assert_eq!(merge_neighbours(&mut list), 0);
        let mut list = vec![entry(0, 1, u64::MAX), entry(1, 1, 0)];
        assert_eq!(merge_neighbours(&mut list), 0);
    }
}
