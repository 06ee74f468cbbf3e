//! The order of the copies through a staging buffer.

use crate::run::Run;

/// One copy; `at` counts from the start of the staging buffer, all else are addresses and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// From the bounce buffer into the staging buffer.
    Down { src: u64, at: u64, bytes: u64 },
    /// From the staging buffer to the destination.
    Up { at: u64, dst: u64, bytes: u64 },
}

/// What waits in the staging buffer, contiguous there from 0 and at its destination.
#[derive(Clone, Copy)]
struct Stretch {
    dst: u64,
    bytes: u64,
}

/// Moves `runs` through a staging buffer of `staging_bytes`, which must not be 0: fragments that
/// follow each other at the destination go down one by one and up together. A stretch ends where
/// the destination jumps or the staging buffer is full; the next one starts over at 0.
pub(crate) fn steps(
    mut runs: impl Iterator<Item = Run>,
    staging_bytes: u64,
) -> impl Iterator<Item = Step> {
    let mut rest: Option<Run> = None;
    let mut stretch: Option<Stretch> = None;
    std::iter::from_fn(move || {
        let run = rest.take().or_else(|| runs.next());
        let waiting = stretch.unwrap_or(Stretch { dst: run.map_or(0, |run| run.dst), bytes: 0 });
        let room = staging_bytes - waiting.bytes;
        let joins = run.filter(|run| run.dst == waiting.dst + waiting.bytes && room > 0);
        let Some(run) = joins else {
            rest = run;
            return stretch.take().map(|Stretch { dst, bytes }| Step::Up { at: 0, dst, bytes });
        };
        let bytes = run.bytes.min(room);
        if bytes < run.bytes {
            let (src, dst) = (run.src + bytes, run.dst + bytes);
            rest = Some(Run { src, dst, bytes: run.bytes - bytes });
        }
        stretch = Some(Stretch { bytes: waiting.bytes + bytes, ..waiting });
        Some(Step::Down { src: run.src, at: waiting.bytes, bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::Step::{Down, Up};
    use super::*;

    fn steps_of(runs: &[(u64, u64, u64)], staging_bytes: u64) -> Vec<Step> {
        let runs = runs.iter().map(|&(src, dst, bytes)| Run { src, dst, bytes });
        steps(runs, staging_bytes).collect()
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
    fn a_jump_of_the_destination_ends_the_stretch() {
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
    fn a_run_longer_than_the_staging_buffer_is_cut() {
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
