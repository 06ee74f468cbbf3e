//! Reach of a launch: the number of warps for each of its entries.

use crate::job::FragmentStats;

/// Longest reach, 32 tiles. The warps of an entry read the same line of the host's memory one after
/// the other. For 256 warps, that took the GPU twice as long as copying 4 MiB (H100).
pub(super) const MOST_REACH: u32 = 5;
/// Bytes of a tile, which is what one warp copies; `TILE_BYTES` of the kernel.
pub(super) const TILE_BYTES: u64 = 4096;

/// Binary logarithm of the number of warps that look at each entry of a launch. That number is a
/// power of two, and also the largest number of tiles of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach(pub(super) u32);

impl Reach {
    /// Reach of one warp for each entry, without spans.
    pub(super) const ONE: Self = Self(0);

    /// Returns the reach for a quarter of the tiles of an average fragment. A fragment leaves at
    /// most three entries with idle warps. Idle warps are thus fewer than the others, and entries
    /// are few.
    pub(super) fn of(checked: FragmentStats) -> Self {
        let average = checked.bytes / TILE_BYTES / checked.fragments.max(1) as u64;
        Self((average / 4).max(1).ilog2().min(MOST_REACH))
    }

    /// Returns the logarithm, as the kernel takes it.
    pub(super) fn log2(self) -> u32 {
        self.0
    }

    /// Returns the reach as a number of tiles.
    pub(super) fn tiles(self) -> u64 {
        1 << self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_warps_find_nothing_to_do() {
        let checked = |fragments, bytes| FragmentStats { fragments, longest: u32::MAX, bytes };
        assert_eq!(Reach::of(FragmentStats::default()), Reach::ONE);
        assert_eq!(Reach::of(checked(1024, 4 << 20)), Reach::ONE);
        assert_eq!(Reach::of(checked(1, 4 << 20)), Reach(MOST_REACH));
        assert_eq!(Reach::of(checked(16, 1 << 20)), Reach(2));
        assert_eq!(Reach::of(checked(3, u64::MAX)), Reach(MOST_REACH));
    }
}
