//! The judgements: about once a second they look at the counters and say what those mean. Pure:
//! numbers and time are arguments. This file says when it is time to look.
//!
//! - [`backend`]: an unpack backend that is slower than it has to be.
//! - [`lane`]: a lane whose chunks do not move, or that waits for unpacking or for the network.
//! - [`mod@matches`]: sends that no receive is found for.
//! - [`pages`]: bounce pages that the plugin never uses again.
//! - [`payload`]: first chunks that arrive as zeros.
//!
//! What a session remembers of earlier looks; each peer has its own memory besides.
//!
//! The data path pays for two things. One in four bounce pages is remembered (`pages`), and the
//! first chunks of a lane are looked at, where the CPU can read the memory (`judgements`).

pub(crate) mod judgements;
pub(crate) mod lane;
pub(crate) mod pages;

use std::time::{Duration, Instant};

use crate::stats::alarm::{Alarms, Troubles};

/// How often the counters are looked at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// A peer that was heard within this time is alive. A silent one of which something is
/// awaited is asked for a sign of life every two seconds.
pub(crate) const ALIVE: Duration = Duration::from_secs(5);
/// After a longer pause this end itself was asleep, and nobody else is to blame that nothing moved.
const ASLEEP: Duration = Duration::from_secs(3);

/// When to look next.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    last: Option<Instant>,
}

/// Whether it is time to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Not yet.
    Early,
    /// Time, and progress was made regularly since the last look.
    Due,
    /// Time, but nobody made progress for a while: waiting times begin anew.
    AfterSleep,
}

impl Rounds {
    /// When it is time to look next.
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
