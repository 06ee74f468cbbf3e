//! Steps of copying through a staging buffer, in their order.

use crate::extent::Extent;

/// One copy. `at` is an offset in the staging buffer; the other fields are addresses and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// From the bounce buffer into the staging buffer.
    Down { src: u64, at: u64, bytes: u64 },
    /// From the staging buffer to the destination.
    Up { at: u64, dst: u64, bytes: u64 },
}

/// Bytes in the staging buffer that wait for a copy up. They are contiguous there from 0, and at
/// their destination.
#[derive(Clone, Copy)]
struct Staged {
    dst: u64,
    bytes: u64,
}

/// Moves `extents` through a staging buffer of `staging_bytes`, which must not be 0. Fragments that
/// follow each other at the destination go down one by one and up together. A copy up ends where
/// the destination jumps or the staging buffer is full. The next copy up starts over at 0.
pub(crate) fn steps(
    mut extents: impl Iterator<Item = Extent>,
    staging_bytes: u64,
) -> impl Iterator<Item = Step> {
    let mut rest: Option<Extent> = None;
    let mut staged: Option<Staged> = None;
    std::iter::from_fn(move || {
        let extent = rest.take().or_else(|| extents.next());
        let waiting =
            staged.unwrap_or(Staged { dst: extent.map_or(0, |extent| extent.dst), bytes: 0 });
        let room = staging_bytes - waiting.bytes;
        let joins = extent.filter(|extent| extent.dst == waiting.dst + waiting.bytes && room > 0);
        let Some(extent) = joins else {
            rest = extent;
            return staged.take().map(|Staged { dst, bytes }| Step::Up { at: 0, dst, bytes });
        };
        let bytes = extent.bytes.min(room);
        if bytes < extent.bytes {
            let (src, dst) = (extent.src + bytes, extent.dst + bytes);
            rest = Some(Extent { src, dst, bytes: extent.bytes - bytes });
        }
        staged = Some(Staged { bytes: waiting.bytes + bytes, ..waiting });
        Some(Step::Down { src: extent.src, at: waiting.bytes, bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::Step::{Down, Up};
    use super::*;

    fn steps_of(extents: &[(u64, u64, u64)], staging_bytes: u64) -> Vec<Step> {
        let extents = extents.iter().map(|&(src, dst, bytes)| Extent { src, dst, bytes });
        steps(extents, staging_bytes).collect()
    }

    #[test]
    fn fragments_in_order_go_up_together() {
        assert_eq!(
            steps_of(&[(100, 1000, 8), (300, 1008, 2)], 64),
            [
                Down { src: 100, at: 0, bytes: 8 },
                Down { src: 300, at: 8, bytes: 2 },
                Up { at: 0, dst: 1000, bytes: 10 }
            ]
        );
    }

    #[test]
    fn a_jump_of_the_destination_ends_the_copy_up() {
        assert_eq!(
            steps_of(&[(100, 1008, 8), (300, 1000, 8)], 64),
            [
                Down { src: 100, at: 0, bytes: 8 },
                Up { at: 0, dst: 1008, bytes: 8 },
                Down { src: 300, at: 0, bytes: 8 },
                Up { at: 0, dst: 1000, bytes: 8 }
            ]
        );
    }

    #[test]
    fn an_extent_longer_than_the_staging_buffer_is_cut() {
        assert_eq!(
            steps_of(&[(100, 1000, 3), (200, 1003, 6)], 4),
            [
                Down { src: 100, at: 0, bytes: 3 },
                Down { src: 200, at: 3, bytes: 1 },
                Up { at: 0, dst: 1000, bytes: 4 },
                Down { src: 201, at: 0, bytes: 4 },
                Up { at: 0, dst: 1004, bytes: 4 },
                Down { src: 205, at: 0, bytes: 1 },
                Up { at: 0, dst: 1008, bytes: 1 }
            ]
        );
    }

    #[test]
    fn nothing_needs_no_step() {
        assert_eq!(steps_of(&[], 4), []);
    }
}
