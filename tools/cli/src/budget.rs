//! Budget of a command's time, from its beginning to its end.

use std::time::{Duration, Instant};

use tcpx_core::{Error, Operation, Transfer};

use crate::deadline::Deadline;
use crate::failure::Failure;

/// Longest time for one step of a command without a time limit.
const STEP: Duration = Duration::from_secs(30);
/// Divisor of a command's time for the time that is reserved for its end, and the upper bound of
/// that.
const END_DIVISOR: u32 = 4;
const MAX_END_TIME: Duration = Duration::from_secs(5);

/// Time of a whole command (`--timeout`), or of each step. It starts with the command, and is
/// passed to everything that waits.
///
/// A quarter of the whole time, at most 5 s, is reserved for the end of the command. Two thirds of
/// it are for the goodbye. The reasons of a failure have a sixth each way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    begun: Instant,
    /// `None`: each step has its own time.
    whole: Option<Duration>,
}

impl Budget {
    /// Begins now. `whole`: `--timeout`, if it was given.
    pub(crate) fn new(whole: Option<Duration>) -> Self {
        Self { begun: Instant::now(), whole }
    }

    /// Returns the deadline of a step that begins now. All steps of a command with a time limit
    /// share one deadline.
    pub(crate) fn step(self) -> Deadline {
        match self.whole {
            Some(whole) => {
                let work = whole.saturating_sub(time_for_end(whole));
                Deadline::of_whole(self.begun + work, work, whole)
            }
            None => Deadline::after(STEP),
        }
    }

    /// Waits for a transfer, as one step.
    pub(crate) fn wait(self, transfer: &Transfer) -> Result<(), Failure> {
        self.wait_with(|time| transfer.wait(Some(time)))
    }

    /// Waits for an operation, as one step.
    pub(crate) fn wait_operation(self, operation: &Operation) -> Result<(), Failure> {
        self.wait_with(|time| operation.wait(Some(time)))
    }

    fn wait_with(
        self,
        wait: impl FnOnce(Duration) -> tcpx_core::Result<()>,
    ) -> Result<(), Failure> {
        let step = self.step();
        Ok(wait(step.left()).map_err(|mut error| {
            // The library knows only the rest of the time.
            if let Error::Deadline { waited, .. } = &mut error {
                *waited = step.limit();
            }
            error
        })?)
    }

    /// Fails once the command has no time left for its work. For work of this end alone.
    pub(crate) fn check_time(self, doing: &str) -> Result<(), Failure> {
        let waited = self.step();
        match waited.left() {
            Duration::ZERO => Err(Failure::OutOfTime { doing: doing.to_owned(), waited }),
            _ => Ok(()),
        }
    }

    /// Returns the deadline of steps after the work: at most `limit` from now, and not past the
    /// command's end.
    pub(crate) fn closing(self, limit: Duration) -> Deadline {
        Deadline::after(self.left().map_or(limit, |left| left.min(limit)))
    }

    /// Returns the deadline for the reason of a failure, one way: at most `limit` from now.
    pub(crate) fn reason_exchange(self, limit: Duration) -> Deadline {
        Deadline::after(self.whole.map_or(limit, |whole| limit.min(time_for_end(whole) / 6)))
    }

    /// Returns the longest time of a goodbye, if the command has a time limit.
    pub(crate) fn goodbye(self) -> Option<Duration> {
        self.whole.map(|whole| time_for_end(whole) * 2 / 3)
    }

    /// Returns the rest of the command's time as a whole.
    pub(crate) fn left(self) -> Option<Duration> {
        self.end().map(Deadline::left)
    }

    /// Returns the deadline of the whole command, if it has a time limit.
    pub(crate) fn end(self) -> Option<Deadline> {
        self.whole.map(|whole| Deadline::of_whole(self.begun + whole, whole, whole))
    }
}

/// Returns the part of the whole time that is reserved for the end.
fn time_for_end(whole: Duration) -> Duration {
    (whole / END_DIVISOR).min(MAX_END_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn work_and_end_fit_into_the_whole() {
        for whole in [SECOND / 1000, SECOND / 3, 3 * SECOND, 60 * SECOND, 86_400 * SECOND] {
            let kept = time_for_end(whole);
            let budget = Budget::new(Some(whole));
            let reasons = 2 * budget.reason_exchange(SECOND).limit();
            let end = budget.goodbye().unwrap() + reasons;
            assert!(end <= kept && kept <= MAX_END_TIME, "{whole:?}: {end:?} of {kept:?}");
            assert_eq!(budget.step().limit() + kept, whole);
            assert!(budget.closing(100_000 * SECOND).limit() <= whole);
        }
    }

    #[test]
    fn every_step_shares_the_whole_and_says_so() {
        let budget = Budget { begun: Instant::now() - 10 * SECOND, whole: Some(4 * SECOND) };
        assert_eq!(budget.step().left(), Duration::ZERO, "it passed before this step began");
        assert_eq!(budget.closing(SECOND).left(), Duration::ZERO);
        assert_eq!(budget.left(), Some(Duration::ZERO));
        assert_eq!(budget.step().to_string(), "3 s (of --timeout 4 s)");
        assert_eq!(budget.end().unwrap().to_string(), "4 s (--timeout)");
    }

    #[test]
    fn without_a_whole_each_step_has_its_own_time() {
        let budget = Budget { begun: Instant::now() - 3600 * SECOND, whole: None };
        assert_eq!(budget.step().to_string(), "30 s");
        assert_eq!(budget.closing(SECOND).limit(), SECOND);
        assert_eq!(budget.reason_exchange(SECOND).limit(), SECOND);
        assert!(budget.left().is_none() && budget.goodbye().is_none() && budget.end().is_none());
    }
}
