//! Measured times, in ns, and their statistics.

use std::time::Duration;

/// Times of one kind, at least one, the shortest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Samples(Vec<u64>);

impl Samples {
    /// Returns the times in order; `None` without any.
    pub(super) fn new(times: &[u64]) -> Option<Self> {
        let mut times = times.to_vec();
        times.sort_unstable();
        (!times.is_empty()).then_some(Self(times))
    }

    /// Returns all of them, the shortest first.
    pub(super) fn all(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn shortest(&self) -> u64 {
        self.0[0]
    }

    pub(super) fn longest(&self) -> u64 {
        self.0[self.0.len() - 1]
    }

    /// Returns the middle time; of an even number, the mean of the two in the middle.
    pub(super) fn median(&self) -> u64 {
        let (low, high) = (self.0[(self.0.len() - 1) / 2], self.0[self.0.len() / 2]);
        low.midpoint(high)
    }

    /// Returns the smallest time that at least `per_mille` of 1000 times do not exceed. Returns
    /// `None` where there are too few times for one that exceeds it: fewer than 100 for 990, fewer
    /// than 1000 for 999.
    pub(super) fn percentile(&self, per_mille: usize) -> Option<u64> {
        let beyond = self.0.len() * 1000_usize.saturating_sub(per_mille);
        let rank = (self.0.len() * per_mille).div_ceil(1000);
        (beyond >= 1000).then(|| self.0[rank.saturating_sub(1)])
    }

    pub(super) fn mean(&self) -> u64 {
        self.0.iter().sum::<u64>() / self.0.len() as u64
    }

    /// Returns the ratio of the medians.
    pub(super) fn ratio(&self, under: &Self) -> f64 {
        self.median() as f64 / under.median().max(1) as f64
    }
}

/// Returns the rate of `bytes` in `nanos`, in units of 10^9 bytes a second.
pub(super) fn gb_per_s(bytes: u64, nanos: u64) -> f64 {
    bytes as f64 / nanos.max(1) as f64
}

/// Returns a duration in ns.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: &[u64]) -> Samples {
        Samples::new(times).unwrap()
    }

    #[test]
    fn median_of_odd_and_even_numbers() {
        assert_eq!(Samples::new(&[]), None);
        assert_eq!(samples(&[5]).median(), 5);
        assert_eq!(samples(&[9, 1, 5]).median(), 5);
        assert_eq!(samples(&[9, 1, 5, 3]).median(), 4);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred = samples(&(1..=100).rev().collect::<Vec<u64>>());
        let ranks = [990, 900, 0].map(|per_mille| hundred.percentile(per_mille));
        assert_eq!(ranks, [Some(99), Some(90), Some(1)]);
        let thousand = samples(&(1..=1000).collect::<Vec<u64>>());
        assert_eq!(thousand.percentile(999), Some(999));
    }

    #[test]
    fn a_percentile_of_too_few_samples_is_not_made_up() {
        let of = |count: u64, per_mille| samples(&vec![1; count as usize]).percentile(per_mille);
        for (per_mille, enough) in [(900, 10), (990, 100), (999, 1000)] {
            assert_eq!((of(enough - 1, per_mille), of(enough, per_mille)), (None, Some(1)));
        }
    }

    #[test]
    fn extremes_mean_and_rate() {
        let samples = samples(&[4, 2, 6]);
        assert_eq!((samples.shortest(), samples.mean(), samples.longest()), (2, 4, 6));
        assert_eq!(gb_per_s(64_000_000, 16_000_000), 4.0);
    }
}
