//! Turns of one-sided operations: the numbers of operations and slots in each.

use std::ops::Range;

use crate::perf::case::PlannedCase;
use crate::perf::operations::OneSided;

/// Most latencies of a turn, and most bytes, but for the first operation.
const LATENCIES: u64 = 50;
const LATENCY_BYTES: u64 = 32 << 20;
/// Most bytes, and operations, of a turn that measures throughput, and uses of each slot in the
/// turn. Where a short operation takes a millisecond, a turn takes two seconds.
const STREAM_BYTES: u64 = 256 << 20;
const STREAM_OPERATIONS: u64 = 2048;
const FEWEST_ROUNDS: u64 = 2;
const MOST_ROUNDS: u64 = 256;
/// Times that an operation is posted again to measure a repeated post.
const FEWEST_REPOSTS: u64 = 3;
const MOST_REPOSTS: u64 = 100;

/// Turns of a case. For latencies each operation is an iteration, and a turn has several of them.
/// For throughput a turn is one iteration, in which each slot is used several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::perf) struct Turns {
    /// Slots, each with the bytes of one operation.
    pub(super) slots: u64,
    /// Uses of a slot in a turn.
    pub(super) rounds: u64,
    pub(super) iterations: u64,
    /// Operations that are posted again.
    pub(super) reposts: u64,
    pub(super) is_latency: bool,
}

impl Turns {
    pub(in crate::perf) fn new(case: &PlannedCase<'_>, one_sided: OneSided) -> Self {
        let (bytes, iterations, is_latency) =
            (case.total_bytes(), case.iterations, one_sided.is_latency);
        let reposts = (STREAM_BYTES / bytes).clamp(FEWEST_REPOSTS, MOST_REPOSTS);
        let depth = u64::from(one_sided.depth);
        let (slots, rounds) = match is_latency {
            true => ((LATENCY_BYTES / bytes).clamp(1, LATENCIES.min(iterations)), 1),
            false => {
                let operations = (STREAM_BYTES / bytes).min(STREAM_OPERATIONS);
                (depth, (operations / depth).clamp(FEWEST_ROUNDS, MOST_ROUNDS))
            }
        };
        Self { slots, rounds, iterations, reposts, is_latency }
    }

    /// Returns the operations of an iteration.
    pub(in crate::perf) fn operations(&self) -> u64 {
        if self.is_latency { 1 } else { self.slots * self.rounds }
    }

    /// Returns the iterations of each turn.
    pub(super) fn all(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let (iterations, step) = (self.iterations, if self.is_latency { self.slots } else { 1 });
        (0..iterations.div_ceil(step)).map(move |turn| {
            let first = turn * step;
            first..iterations.min(first + step)
        })
    }

    /// Returns how many slots a turn of these iterations uses.
    pub(super) fn slots_of(&self, iterations: &Range<u64>) -> u64 {
        if self.is_latency { iterations.end - iterations.start } else { self.slots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::operations::Direction;
    use crate::perf::plan::{Mode, Plan, Receives};

    fn turns(bytes: u64, depth: u32, is_latency: bool) -> Turns {
        let (direction, descriptors) = (Direction::Write, 1);
        let (is_scattered, is_notified) = (false, false);
        let one_sided =
            OneSided { direction, depth, descriptors, is_scattered, is_latency, is_notified };
        let plan = Plan {
            mode: Mode::OneSided(one_sided),
            sizes: vec![bytes],
            iterations: 100,
            duration_ms: None,
            interval_ms: None,
            warmup: 20,
            seed: 0,
            baseline: false,
            receives: Receives::Ahead,
            idle_ms: 0,
            busy: 0,
            reverse: false,
            is_all_to_all: false,
        };
        Turns::new(&PlannedCase::whole(&plan), one_sided)
    }

    #[test]
    fn every_iteration_is_in_one_turn() {
        for (is_latency, count) in [(true, 3), (false, 120)] {
            let turns = turns(4096, 8, is_latency);
            let all: Vec<Range<u64>> = turns.all().collect();
            assert_eq!(all.len(), count);
            assert!(all.iter().cloned().flatten().eq(0..120));
            assert!(all.iter().all(|turn| turns.slots_of(turn) <= turns.slots));
        }
    }

    #[test]
    fn a_turn_has_enough_operations_to_keep_some_under_way_and_ends() {
        for bytes in [1, 4096, 64 << 20, 16 << 30] {
            let stream = turns(bytes, 8, false);
            assert!((2 * 8..=256 * 8).contains(&stream.operations()), "{stream:?}");
            assert!(stream.operations() * bytes <= STREAM_BYTES.max(2 * 8 * bytes));
            for depth in [1, 256, 4096] {
                let operations = turns(bytes, depth, false).operations();
                assert!(operations <= 2048.max(2 * u64::from(depth)), "{operations} of {bytes}");
            }
            let latencies = turns(bytes, 1, true);
            assert_eq!(latencies.operations(), 1);
            assert!(latencies.slots * bytes <= LATENCY_BYTES.max(bytes), "{latencies:?}");
            assert!((3..=100).contains(&latencies.reposts));
        }
    }
}
