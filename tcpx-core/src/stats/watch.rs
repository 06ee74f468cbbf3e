//! Judgements of the counters, made about once a second. Pure: numbers and time are arguments. This
//! file decides when the next look is due.
//!
//! - [`backend`]: an unpack backend that is slower than necessary.
//! - [`lane`]: a lane whose chunks do not move, or that waits for unpacking or for the network.
//! - [`mod@matches`]: sends for which no receive is found.
//! - [`pages`]: bounce pages that the plugin never uses again.
//! - [`payload`]: first chunks that arrive as zeros.
//!
//! Also the session's memory of earlier looks; each peer has its own memory besides.
//!
//! The data path pays for two judgements. It remembers one in four bounce pages (`pages`). It also
//! looks at the first chunks of a lane if the CPU can read the memory (`judgements`).

pub(crate) mod judgements;
pub(crate) mod lane;
pub(crate) mod pages;

use std::time::{Duration, Instant};

use crate::stats::alarm::{Alarms, Troubles};

/// Interval between two looks at the counters.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// Time within which a peer must have been heard to count as alive. A silent peer from which
/// something is awaited gets a ping every two seconds.
pub(crate) const ALIVE: Duration = Duration::from_secs(5);
/// Pause after which this end itself was asleep, and no peer is to blame that nothing moved.
const ASLEEP: Duration = Duration::from_secs(3);

/// Times of the looks.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    last: Option<Instant>,
}

/// Decision on whether a look is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// No look is due yet.
    Early,
    /// A look is due, and progress was made regularly since the last one.
    Due,
    /// A look is due, but no thread made progress for a while: waiting times begin anew.
    AfterSleep,
}

impl Rounds {
    /// Returns the time of the next look.
    pub(crate) fn next_at(&self, now: Instant) -> Instant {
        self.last.map_or(now, |last| last + INTERVAL)
    }

    pub(crate) fn next(&mut self, now: Instant) -> Round {
        let Some(last) = self.last else {
            self.last = Some(now);
            return Round::AfterSleep;
        };
        let passed = now.saturating_duration_since(last);
        if passed < INTERVAL {
            return Round::Early;
        }
        self.last = Some(now);
        if passed < ASLEEP { Round::Due } else { Round::AfterSleep }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SessionWatch {
    pub(crate) rounds: Rounds,
    pub(crate) troubles: Troubles,
    pub(crate) alarms: Alarms,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_a_second_and_sleep_is_noticed() {
        let (mut rounds, start) = (Rounds::default(), Instant::now());
        let mut at = |ms| rounds.next(start + Duration::from_millis(ms));
        assert_eq!(at(0), Round::AfterSleep);
        assert_eq!(at(999), Round::Early);
        assert_eq!(at(1001), Round::Due);
        assert_eq!(at(2000), Round::Early);
        assert_eq!(at(2500), Round::Due);
        assert_eq!(at(6000), Round::AfterSleep);
        assert_eq!(at(7000), Round::Due);
    }
}
