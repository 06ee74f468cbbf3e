//! Parts of a case, measured one by one.
//!
//! Between two parts the ends exchange their times, and whether to go on. This bounds the duration,
//! and an interrupt loses nothing.

use std::time::Duration;

use super::case::PlannedCase;
use super::plan::{MAX_ITERATIONS, MAX_PATHS, Plan};

/// Time that a part should take.
pub(super) const PART: Duration = Duration::from_millis(500);
/// Most counted iterations, and most bytes, of the first part: the time of an iteration is not
/// known yet.
const FIRST: u64 = 50;
const FIRST_BYTES: u64 = 256 << 20;
/// Divisor of the warmup: a later part has this fraction of the first part's, because both ends
/// have rested.
const LATER_WARMUP: u64 = 10;
/// Most times that a case records.
const MOST_TIMES: u64 = 10_000_000;

/// The parts of one case.
#[derive(Debug)]
pub(super) struct CaseParts<'a> {
    plan: &'a Plan,
    bytes: u64,
    done: u64,
    /// Number of the next message.
    first_message: u64,
}

impl<'a> CaseParts<'a> {
    /// Returns the parts of a case of `bytes`. `first_message`: number of its first message.
    pub(super) fn new(plan: &'a Plan, bytes: u64, first_message: u64) -> Self {
        Self { plan, bytes, done: 0, first_message }
    }

    /// Returns how many iterations should be counted next, when the case has taken `elapsed`; 0:
    /// the case is over.
    pub(super) fn proposal(&self, elapsed: Duration) -> u32 {
        let wanted = match self.plan.duration_ms {
            None => u64::from(self.plan.iterations),
            Some(_) => MOST_TIMES,
        };
        let left = wanted.saturating_sub(self.done).min(MAX_ITERATIONS.into());
        if self.done == 0 {
            let first = (FIRST_BYTES / self.case(1).total_bytes()).clamp(1, FIRST);
            return first.min(left) as u32;
        }
        let time = match self.plan.duration_ms {
            None => PART,
            Some(ms) => {
                let part = self.plan.interval().map_or(PART, |interval| interval.min(PART));
                part.min(Duration::from_millis(ms.into()).saturating_sub(elapsed))
            }
        };
        if time.is_zero() {
            return 0;
        }
        let rate = self.done as f64 / elapsed.as_secs_f64().max(1e-9);
        ((rate * time.as_secs_f64()) as u64).max(1).min(left) as u32
    }

    /// Returns the next part, with this many counted iterations, 1 or more.
    pub(super) fn take(&mut self, counted: u32) -> PlannedCase<'a> {
        let case = self.case(counted.into());
        self.done += u64::from(counted);
        // One more, for the operations that are posted again with bytes of their own.
        self.first_message += MAX_PATHS * (case.iterations + 1);
        case
    }

    fn case(&self, counted: u64) -> PlannedCase<'a> {
        let is_first = self.done == 0;
        let warmup = u64::from(self.plan.warmup);
        let warmup = if is_first { warmup } else { warmup.div_ceil(LATER_WARMUP) };
        PlannedCase {
            plan: self.plan,
            bytes: self.bytes,
            iterations: warmup + counted,
            warmup,
            first_message: self.first_message,
            is_first,
        }
    }

    /// Returns the number of the first message of the next case.
    pub(super) fn next_message(&self) -> u64 {
        self.first_message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::plan::{Mode, Receives};

    fn plan(iterations: u32, duration_ms: Option<u32>) -> Plan {
        Plan {
            mode: Mode::Throughput,
            sizes: vec![64 << 20],
            iterations,
            duration_ms,
            interval_ms: None,
            warmup: 15,
            seed: 1,
            baseline: false,
            receives: Receives::Ahead,
            idle_ms: 0,
            busy: 0,
            reverse: false,
            is_all_to_all: false,
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn parts_make_up_the_iterations_and_no_two_share_a_payload() {
        let plan = plan(1000, None);
        let mut parts = CaseParts::new(&plan, 64 << 20, 7);
        let (mut counted, mut elapsed, mut end) = (0, Duration::ZERO, 7);
        loop {
            let next = parts.proposal(elapsed);
            if next == 0 {
                break;
            }
            let case = parts.take(next);
            assert_eq!(
                (case.is_first, case.warmup),
                if counted == 0 { (true, 15) } else { (false, 2) }
            );
            assert!(case.first_message >= end, "{case:?}");
            end = case.first_message + MAX_PATHS * case.iterations;
            assert_eq!(case.counted(), u64::from(next));
            counted += next;
            elapsed += SECOND * next / 100;
        }
        assert_eq!(counted, 1000);
        assert!(parts.next_message() >= end);
    }

    #[test]
    fn a_part_is_short_and_a_duration_is_respected() {
        let plan = plan(1, Some(3000));
        let mut parts = CaseParts::new(&plan, 64 << 20, 0);
        assert_eq!(parts.proposal(Duration::ZERO), 4, "256 MiB");
        parts.take(4);
        assert_eq!(parts.proposal(SECOND / 10), 20, "half a second at 40 in one");
        let in_intervals = Plan { interval_ms: Some(100), ..plan.clone() };
        let mut short = CaseParts::new(&in_intervals, 64 << 20, 0);
        short.take(4);
        assert_eq!(short.proposal(SECOND / 10), 4, "a tenth of a second at 40 in one");
        assert_eq!(parts.proposal(SECOND * 29 / 10), 1, "however slow");
        assert_eq!(parts.proposal(3 * SECOND), 0);
        parts.take(MOST_TIMES as u32);
        assert_eq!(parts.proposal(SECOND), 0, "no more are recorded");
        assert_eq!(CaseParts::new(&plan, 16 << 30, 0).proposal(Duration::ZERO), 1);
        assert_eq!(CaseParts::new(&plan, 1, 0).proposal(Duration::ZERO), 50);
    }
}
