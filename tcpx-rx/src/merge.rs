//! Joins neighbours into one unpack descriptor, for fewer and longer copies.

use alloc::vec::Vec;

use crate::descriptor::UnpackDescriptor;

/// Joins each entry to the one before it where both source and destination continue, and returns
/// how many entries that saved.
///
/// The list copies the same bytes to the same places before and after, whatever it holds. Only
/// neighbours in the list are compared, so sort it first (a successful [`check`](crate::check)
/// leaves it sorted by destination). A list that passed the check passes it again. Entries whose
/// joint length does not fit 32 bits stay apart. Works in place, allocates nothing.
pub fn merge_neighbours(list: &mut Vec<UnpackDescriptor>) -> usize {
    let kept = merge_slice(list);
    let merged = list.len() - kept;
    list.truncate(kept);
    merged
}

/// Moves the merged entries to the front of `list` and returns their number.
fn merge_slice(list: &mut [UnpackDescriptor]) -> usize {
    // Up to the first pair that joins nothing has to move; scattered pages never get further.
    let Some(first_pair) = list.windows(2).position(|pair| joint_len(&pair[0], &pair[1]).is_some())
    else {
        return list.len();
    };
    let mut kept = first_pair;
    let mut index = first_pair;
    while let Some(&first) = list.get(index) {
        let mut joined = first;
        index += 1;
        while let Some(len) = list.get(index).and_then(|entry| joint_len(&joined, entry)) {
            joined.len = len;
            index += 1;
        }
        list[kept] = joined;
        kept += 1;
    }
    kept
}

/// Length of the one entry that does the work of both, if there is one.
#[inline]
fn joint_len(first: &UnpackDescriptor, second: &UnpackDescriptor) -> Option<u32> {
    let continues =
        first.src_end() == u64::from(second.src_off) && first.dst_end() == Some(second.dst_off);
    if continues { first.len.checked_add(second.len) } else { None }
}

#[cfg(test)]
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
