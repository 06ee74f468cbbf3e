//! Duration of an observation: a time, and enough looks even on a machine that is too busy for it.

use std::time::{Duration, Instant};

/// Looks that are taken however long they last.
const LOOKS: u32 = 50;

/// One stretch of looking.
#[derive(Debug)]
pub(crate) struct Observation {
    until: Instant,
    looks_left: u32,
}

impl Observation {
    /// Lasts for `time`, and for 50 looks.
    pub(crate) fn of(time: Duration) -> Self {
        Self { until: Instant::now() + time, looks_left: LOOKS }
    }

    /// Returns whether to look once more. Counts the look.
    pub(crate) fn goes_on(&mut self) -> bool {
        let promised = self.looks_left > 0;
        self.looks_left = self.looks_left.saturating_sub(1);
        promised || Instant::now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_over_leaves_fifty_looks() {
        let mut observation = Observation::of(Duration::ZERO);
        let looks = std::iter::from_fn(|| observation.goes_on().then_some(())).count();
        assert_eq!(looks, 50);
    }

    #[test]
    fn a_long_time_leaves_more() {
        let mut observation = Observation::of(Duration::from_secs(3600));
        assert!((0..1000).all(|_| observation.goes_on()));
    }
}
