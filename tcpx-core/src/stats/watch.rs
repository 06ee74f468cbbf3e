//! Checks of the counters, made about once a second. Pure: numbers and time are arguments. This
//! file decides when the next check is due, and holds the session's results of earlier checks. Each
//! peer has results of its own besides.
//!
//! - [`checks`]: an unpack backend that is slower than necessary, sends for which no receive is
//!   found, and first chunks that arrive as zeros.
//! - [`lane`]: a lane whose chunks do not move, or that waits for unpacking or for the network.
//! - [`pages`]: bounce pages that the plugin never uses again.
//! - [`speed`]: a session that is slower than its NICs.
//!
//! The data path pays for two of them. It remembers one in four bounce pages (`pages`). It also
//! checks the first chunks of a lane if the CPU can read the memory (`checks`).

pub(crate) mod checks;
pub(crate) mod lane;
pub(crate) mod pages;
pub(crate) mod speed;

use std::time::{Duration, Instant};

use self::speed::{NicSample, SpeedWatch};
use crate::stats::alarm::{Alarms, Troubles};
use crate::workers::Task;

/// Interval between two checks of the counters.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Longest silence of a peer that counts as alive. A silent peer from which
/// something is awaited gets a ping every two seconds.
pub(crate) const ALIVE: Duration = Duration::from_secs(5);
/// Pause after which this end itself was asleep, and no peer is to blame that nothing moved.
const ASLEEP: Duration = Duration::from_secs(3);

/// Times of the checks.
#[derive(Debug, Default)]
pub(crate) struct CheckSchedule {
    last: Option<Instant>,
}

/// Decision on whether a check is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckTiming {
    /// No check is due yet.
    NotDue,
    /// A check is due, and progress was made regularly since the last one.
    Due,
    /// A check is due, but no thread made progress for a while: waiting times begin anew.
    AfterSleep,
}

impl CheckSchedule {
    /// Returns the time of the next check.
    pub(crate) fn next_at(&self, now: Instant) -> Instant {
        self.last.map_or(now, |last| last + INTERVAL)
    }

    pub(crate) fn next(&mut self, now: Instant) -> CheckTiming {
        let Some(last) = self.last else {
            self.last = Some(now);
            return CheckTiming::AfterSleep;
        };
        let passed = now.saturating_duration_since(last);
        if passed < INTERVAL {
            return CheckTiming::NotDue;
        }
        self.last = Some(now);
        if passed < ASLEEP { CheckTiming::Due } else { CheckTiming::AfterSleep }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SessionWatch {
    pub(crate) schedule: CheckSchedule,
    pub(crate) troubles: Troubles,
    pub(crate) alarms: Alarms,
    pub(crate) speed: SpeedWatch,
    /// Reading of the NICs' counters by a worker, for `speed`.
    pub(crate) nic_reading: Option<Task<NicSample>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_due_each_second_and_sleep_is_noticed() {
        let (mut schedule, start) = (CheckSchedule::default(), Instant::now());
        let mut at = |ms| schedule.next(start + Duration::from_millis(ms));
        assert_eq!(at(0), CheckTiming::AfterSleep);
        assert_eq!(at(999), CheckTiming::NotDue);
        assert_eq!(at(1001), CheckTiming::Due);
        assert_eq!(at(2000), CheckTiming::NotDue);
        assert_eq!(at(2500), CheckTiming::Due);
        assert_eq!(at(6000), CheckTiming::AfterSleep);
        assert_eq!(at(7000), CheckTiming::Due);
    }
}
