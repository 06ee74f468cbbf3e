//! Duration of an observation: a time, and a least number of polls for busy machines.

use std::time::{Duration, Instant};

/// Polls of an observation, however long they take.
const MIN_POLLS: u32 = 50;

/// A time of polling for an event that must not happen.
#[derive(Debug)]
pub(crate) struct Observation {
    until: Instant,
    polls_left: u32,
}

impl Observation {
    /// Starts an observation that lasts for `time`, and for 50 polls.
    pub(crate) fn lasting(time: Duration) -> Self {
        Self { until: Instant::now() + time, polls_left: MIN_POLLS }
    }

    /// Returns whether to poll once more, and counts the poll.
    pub(crate) fn continues(&mut self) -> bool {
        let promised = self.polls_left > 0;
        self.polls_left = self.polls_left.saturating_sub(1);
        promised || Instant::now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_time_leaves_fifty_polls() {
        let mut observation = Observation::lasting(Duration::ZERO);
        let polls = std::iter::from_fn(|| observation.continues().then_some(())).count();
        assert_eq!(polls, 50);
    }

    #[test]
    fn a_long_time_leaves_more() {
        let mut observation = Observation::lasting(Duration::from_secs(3600));
        assert!((0..1000).all(|_| observation.continues()));
    }
}
