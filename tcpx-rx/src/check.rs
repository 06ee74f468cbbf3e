//! Checks of a request's unpack descriptors before any byte is copied.
//!
//! The entries come from the plugin, which took their numbers from the kernel and the amount of
//! data from the peer. The plugin compares none of them with the request. The entries also come
//! unsorted when the data used several sockets. [`check`] is therefore the one gate between the
//! unpack queue and a copy into the user's memory.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::descriptor::UnpackDescriptor;

/// Reason why a list of unpack descriptors must not be used.
///
/// `index` is a position in the list as [`check`] leaves it. All other numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorError {
    /// An entry copies nothing. No receive path makes such an entry, so the list is damaged.
    ZeroLength {
        /// Position of the entry.
        index: usize,
    },
    /// An entry reads beyond the end of the bounce buffer.
    SourceOutOfBounds {
        /// Position of the entry.
        index: usize,
        /// First byte that the entry reads.
        src_off: u32,
        /// Number of bytes that the entry reads.
        len: u32,
        /// Size of the bounce buffer.
        bounce_bytes: u64,
    },
    /// An entry writes beyond the expected bytes: the peer sent more than requested.
    DestinationOutOfBounds {
        /// Position of the entry.
        index: usize,
        /// First byte that the entry writes.
        dst_off: u64,
        /// Number of bytes that the entry writes.
        len: u32,
        /// Number of bytes that the request should deliver.
        expected_bytes: u64,
    },
    /// Two entries write the same bytes.
    Overlap {
        /// Position of the second entry; the first entry stands before it.
        index: usize,
        /// First byte that the second entry writes.
        dst_off: u64,
        /// End of the first entry, exclusive.
        previous_end: u64,
    },
    /// No entry writes some of the bytes: the peer sent less than requested, or entries are
    /// missing.
    Hole {
        /// Position of the entry after the hole, or the length of the list when the end is missing.
        index: usize,
        /// First missing byte.
        start: u64,
        /// End of the missing bytes, exclusive.
        end: u64,
    },
}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroLength { index } => write!(f, "unpack descriptor {index} has length 0"),
            Self::SourceOutOfBounds { index, src_off, len, bounce_bytes } => write!(
                f,
                "unpack descriptor {index} reads {len} bytes at {src_off} of a bounce buffer of \
                 {bounce_bytes} bytes"
            ),
            Self::DestinationOutOfBounds { index, dst_off, len, expected_bytes } => write!(
                f,
                "unpack descriptor {index} writes {len} bytes at {dst_off} of a request of \
                 {expected_bytes} bytes"
            ),
            Self::Overlap { index, dst_off, previous_end } => write!(
                f,
                "unpack descriptor {index} writes at {dst_off}, but the one before it ends at \
                 {previous_end}"
            ),
            Self::Hole { index, start, end } => {
                write!(f, "no unpack descriptor writes bytes {start}..{end} (before entry {index})")
            }
        }
    }
}

impl Error for DescriptorError {}

/// Pair of unpack descriptors that read the same bytes of the bounce buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceOverlap {
    /// Descriptor that starts first.
    pub first: UnpackDescriptor,
    /// Descriptor that starts inside the first one.
    pub second: UnpackDescriptor,
}

impl fmt::Display for SourceOverlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bounce buffer bytes {}..{} and {}..{} belong to two unpack descriptors",
            self.first.src_off,
            self.first.src_end(),
            self.second.src_off,
            self.second.src_end()
        )
    }
}

impl Error for SourceOverlap {}

/// Checks that `list` copies a whole request and nothing else.
///
/// On success every entry has a length and lies inside the bounce buffer of `bounce_bytes`. The
/// destinations cover `[0, expected_bytes)` with every byte written exactly once, and `list` is
/// sorted by `dst_off`. An empty list is right for an empty request only.
///
/// A sorted list is walked once. Any other list is sorted in place. Nothing is allocated.
///
/// # Errors
/// Returns the first violation found, see [`DescriptorError`]. The list may have been sorted by
/// then.
pub fn check(
    list: &mut [UnpackDescriptor],
    bounce_bytes: u64,
    expected_bytes: u64,
) -> Result<(), DescriptorError> {
    if covers_in_order(list, bounce_bytes, expected_bytes) {
        return Ok(());
    }
    check_each(list, bounce_bytes, expected_bytes)?;
    if !list.is_sorted_by_key(|entry| entry.dst_off) {
        list.sort_unstable_by_key(|entry| entry.dst_off);
    }
    check_cover(list, expected_bytes)
}

/// Checks the common case in one pass: right in every respect and already sorted. May return false
/// for a right list.
fn covers_in_order(list: &[UnpackDescriptor], bounce_bytes: u64, expected_bytes: u64) -> bool {
    // The 64-bit sum of this many 32-bit lengths cannot overflow, which spares the loop a test. The
    // test would cost a quarter of the loop's time.
    if u32::try_from(list.len()).is_err() {
        return false;
    }
    let mut next = 0_u64;
    for entry in list {
        if entry.len == 0 || entry.src_end() > bounce_bytes || entry.dst_off != next {
            return false;
        }
        next += u64::from(entry.len);
    }
    next == expected_bytes
}

/// Checks each entry on its own. After this check, no end of an entry overflows.
fn check_each(
    list: &[UnpackDescriptor],
    bounce_bytes: u64,
    expected_bytes: u64,
) -> Result<(), DescriptorError> {
    for (index, entry) in list.iter().enumerate() {
        let UnpackDescriptor { src_off, len, dst_off } = *entry;
        if len == 0 {
            return Err(DescriptorError::ZeroLength { index });
        }
        if entry.src_end() > bounce_bytes {
            return Err(DescriptorError::SourceOutOfBounds { index, src_off, len, bounce_bytes });
        }
        if entry.dst_end().is_none_or(|end| end > expected_bytes) {
            return Err(DescriptorError::DestinationOutOfBounds {
                index,
                dst_off,
                len,
                expected_bytes,
            });
        }
    }
    Ok(())
}

/// Finds an overlap or hole of a sorted list whose entries are right on their own.
fn check_cover(list: &[UnpackDescriptor], expected_bytes: u64) -> Result<(), DescriptorError> {
    let mut next = 0_u64;
    for (index, entry) in list.iter().enumerate() {
        let dst_off = entry.dst_off;
        if dst_off < next {
            return Err(DescriptorError::Overlap { index, dst_off, previous_end: next });
        }
        if dst_off > next {
            return Err(DescriptorError::Hole { index, start: next, end: dst_off });
        }
        next = dst_off + u64::from(entry.len);
    }
    if next < expected_bytes {
        return Err(DescriptorError::Hole { index: list.len(), start: next, end: expected_bytes });
    }
    Ok(())
}

/// Checks that no two entries read the same byte of the bounce buffer.
///
/// A copy does not need this property, and [`check`] does not require it. A plugin that breaks it
/// has handed out one page twice. `scratch` is overwritten with a sorted copy, so that a caller
/// with many requests allocates once. Entries of length 0 read nothing and are ignored.
///
/// # Errors
/// Returns the overlapping pair with the lowest offsets.
#[cfg(feature = "alloc")]
pub fn sources_disjoint(
    list: &[UnpackDescriptor],
    scratch: &mut Vec<UnpackDescriptor>,
) -> Result<(), SourceOverlap> {
    scratch.clear();
    scratch.extend(list.iter().filter(|entry| entry.len > 0));
    scratch.sort_unstable_by_key(|entry| (entry.src_off, entry.len));
    // In a list sorted by start, the first overlap shows between neighbours: if entry k begins
    // inside an earlier entry j, then so does every entry between them.
    for pair in scratch.windows(2) {
        let [first, second] = [pair[0], pair[1]];
        if u64::from(second.src_off) < first.src_end() {
            return Err(SourceOverlap { first, second });
        }
    }
    Ok(())
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    const BOUNCE: u64 = 1 << 20;

    fn entry(src_off: u32, len: u32, dst_off: u64) -> UnpackDescriptor {
        UnpackDescriptor { src_off, len, dst_off }
    }

    #[test]
    fn an_empty_list_is_right_for_an_empty_request_only() {
        assert_eq!(check(&mut [], BOUNCE, 0), Ok(()));
        assert_eq!(
            check(&mut [], BOUNCE, 5),
            Err(DescriptorError::Hole { index: 0, start: 0, end: 5 })
        );
    }

    #[test]
    fn chunks_in_socket_order_are_sorted_and_accepted() {
        let mut list = [
            entry(0, 4096, 4096),
            entry(8192, 4096, 8192),
            entry(4096, 4000, 0),
            entry(1, 96, 4000),
        ];
        assert_eq!(check(&mut list, BOUNCE, 12_288), Ok(()));
        assert_eq!(list.map(|e| e.dst_off), [0, 4000, 4096, 8192]);
    }

    #[test]
    fn the_last_byte_of_the_bounce_buffer_may_be_read_and_no_more() {
        let end = u32::try_from(BOUNCE).unwrap();
        assert_eq!(check(&mut [entry(end - 1, 1, 0)], BOUNCE, 1), Ok(()));
        assert_eq!(
            check(&mut [entry(end - 1, 2, 0)], BOUNCE, 2),
            Err(DescriptorError::SourceOutOfBounds {
                index: 0,
                src_off: end - 1,
                len: 2,
                bounce_bytes: BOUNCE
            })
        );
    }

    #[test]
    fn a_bounce_buffer_of_four_gibibytes_can_be_used_to_its_end() {
        let mut list = [entry(u32::MAX, 1, 0)];
        assert_eq!(check(&mut list, 1 << 32, 1), Ok(()));
    }

    #[test]
    fn each_violation_is_named_with_its_numbers() {
        assert_eq!(
            check(&mut [entry(0, 8, 0), entry(8, 0, 8)], BOUNCE, 8),
            Err(DescriptorError::ZeroLength { index: 1 })
        );
        assert_eq!(
            check(&mut [entry(0, 8, 0), entry(8, 8, 8)], BOUNCE, 15),
            Err(DescriptorError::DestinationOutOfBounds {
                index: 1,
                dst_off: 8,
                len: 8,
                expected_bytes: 15
            })
        );
        assert_eq!(
            check(&mut [entry(0, 8, 0), entry(8, 8, 7), entry(16, 1, 15)], BOUNCE, 16),
            Err(DescriptorError::Overlap { index: 1, dst_off: 7, previous_end: 8 })
        );
        assert_eq!(
            check(&mut [entry(0, 8, 0), entry(8, 7, 9)], BOUNCE, 16),
            Err(DescriptorError::Hole { index: 1, start: 8, end: 9 })
        );
        assert_eq!(
            check(&mut [entry(0, 8, 0)], BOUNCE, 16),
            Err(DescriptorError::Hole { index: 1, start: 8, end: 16 })
        );
    }

    #[test]
    fn a_destination_that_wraps_is_out_of_bounds() {
        let mut list = [entry(0, 16, u64::MAX - 7)];
        assert!(matches!(
            check(&mut list, BOUNCE, u64::MAX),
            Err(DescriptorError::DestinationOutOfBounds { index: 0, .. })
        ));
    }

    #[test]
    fn a_page_handed_out_twice_is_found() {
        let mut scratch = vec![entry(7, 7, 7)];
        let good = [entry(4096, 4096, 0), entry(0, 4096, 4096), entry(0, 0, 9)];
        assert_eq!(sources_disjoint(&good, &mut scratch), Ok(()));

        let bad = [entry(8192, 100, 0), entry(0, 4096, 100), entry(8291, 1, 4196)];
        assert_eq!(
            sources_disjoint(&bad, &mut scratch),
            Err(SourceOverlap { first: bad[0], second: bad[2] })
        );
    }

    #[test]
    fn a_far_overlap_behind_a_long_entry_is_found() {
        let list = [entry(0, 100, 0), entry(10, 1, 100), entry(90, 5, 101)];
        assert_eq!(
            sources_disjoint(&list, &mut Vec::new()),
            Err(SourceOverlap { first: list[0], second: list[1] })
        );
    }

    #[test]
    fn texts_carry_the_numbers() {
        let text = DescriptorError::Hole { index: 3, start: 10, end: 20 }.to_string();
        assert_eq!(text, "no unpack descriptor writes bytes 10..20 (before entry 3)");
        let overlap = SourceOverlap { first: entry(0, 8, 0), second: entry(4, 8, 8) };
        assert_eq!(
            overlap.to_string(),
            "bounce buffer bytes 0..8 and 4..12 belong to two unpack descriptors"
        );
    }
}
