//! Extents: neighbouring fragments that one copy moves.

use tcpx_rx::UnpackDescriptor;

/// Bytes that are contiguous in the bounce buffer and at the destination, given by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) src: u64,
    pub(crate) dst: u64,
    pub(crate) bytes: u64,
}

/// Joins descriptors that continue each other in list order, and drops empty ones.
///
/// The addresses belong to a checked job, so nothing wraps.
pub(crate) fn extents(
    bounce: u64,
    dst: u64,
    descriptors: &[UnpackDescriptor],
) -> impl Iterator<Item = Extent> {
    let mut rest =
        descriptors.iter().filter(|descriptor| descriptor.len > 0).map(move |descriptor| Extent {
            src: bounce + u64::from(descriptor.src_off),
            dst: dst + descriptor.dst_off,
            bytes: u64::from(descriptor.len),
        });
    let mut pending = rest.next();
    std::iter::from_fn(move || {
        let mut extent = pending.take()?;
        for next in rest.by_ref() {
            if extent.src + extent.bytes != next.src || extent.dst + extent.bytes != next.dst {
                pending = Some(next);
                break;
            }
            extent.bytes += next.bytes;
        }
        Some(extent)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents_of(list: &[(u32, u32, u64)]) -> Vec<(u64, u64, u64)> {
        let list: Vec<_> = list
            .iter()
            .map(|&(src_off, len, dst_off)| UnpackDescriptor { src_off, len, dst_off })
            .collect();
        extents(1000, 50_000, &list).map(|extent| (extent.src, extent.dst, extent.bytes)).collect()
    }

    #[test]
    fn neighbours_are_joined_in_order() {
        assert_eq!(
            extents_of(&[(0, 4096, 0), (4096, 100, 4096), (9000, 1, 4196), (9001, 2, 4197)]),
            [(1000, 50_000, 4196), (10_000, 54_196, 3)]
        );
    }

    #[test]
    fn one_side_alone_does_not_join() {
        assert_eq!(
            extents_of(&[(0, 8, 0), (8, 8, 16), (40, 8, 24)]),
            [(1000, 50_000, 8), (1008, 50_016, 8), (1040, 50_024, 8)]
        );
    }

    #[test]
    fn empty_fragments_neither_copy_nor_separate() {
        assert_eq!(extents_of(&[]), []);
        assert_eq!(extents_of(&[(5, 0, 5)]), []);
        assert_eq!(extents_of(&[(7, 0, 9), (0, 8, 0), (3, 0, 3), (8, 8, 8)]), [(1000, 50_000, 16)]);
    }

    #[test]
    fn an_extent_may_exceed_32_bits() {
        let half = u32::MAX;
        assert_eq!(
            extents_of(&[(0, half, 0), (half, 1, u64::from(half))]),
            [(1000, 50_000, 1 << 32)]
        );
    }
}
