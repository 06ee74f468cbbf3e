//! Measured times and what is said of them.

use std::time::Duration;

/// Times of one kind, in the order they were measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    pub(super) fn from_nanos(nanos: &[u64]) -> Self {
        Self(nanos.iter().copied().map(Duration::from_nanos).collect())
    }

    pub(super) fn times(&self) -> &[Duration] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn sorted(&self) -> Vec<Duration> {
        let mut times = self.0.clone();
        times.sort_unstable();
        times
    }

    /// The middle time; of an even number, the mean of the two in the middle.
    pub(super) fn median(&self) -> Duration {
        let times = self.sorted();
        let middle = times.len() / 2;
        match times.len() {
            0 => Duration::ZERO,
            odd if odd % 2 == 1 => times[middle],
            _ => (times[middle - 1] + times[middle]) / 2,
        }
    }

    /// The smallest time that at least `percent` of 100 times do not exceed.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let times = self.sorted();
        let rank = (times.len() * percent).div_ceil(100);
        times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(super) fn mean(&self) -> Duration {
        u32::try_from(self.0.len())
            .ok()
            .and_then(|count| self.0.iter().sum::<Duration>().checked_div(count))
            .unwrap_or_default()
    }

    pub(super) fn shortest(&self) -> Duration {
        self.0.iter().min().copied().unwrap_or_default()
    }

    pub(super) fn longest(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }
}

/// `bytes` in `time`, in units of 10^9 bytes a second.
pub(super) fn gb_per_s(bytes: u64, time: Duration) -> f64 {
    let nanos = time.as_nanos().max(1);
    bytes as f64 / nanos as f64
}

pub(super) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// A duration for the wire.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_numbers() {
        let median = |nanos: &[u64]| Samples::from_nanos(nanos).median().as_nanos();
        assert_eq!(median(&[]), 0);
        assert_eq!(median(&[5]), 5);
        assert_eq!(median(&[9, 1, 5]), 5);
        assert_eq!(median(&[9, 1, 5, 3]), 4);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred: Vec<u64> = (1..=100).rev().collect();
        let samples = Samples::from_nanos(&hundred);
        assert_eq!(samples.percentile(99).as_nanos(), 99);
        assert_eq!(samples.percentile(50).as_nanos(), 50);
        assert_eq!(samples.percentile(100).as_nanos(), 100);
        let twenty: Vec<u64> = (1..=20).collect();
        assert_eq!(Samples::from_nanos(&twenty).percentile(99).as_nanos(), 20, "the slowest");
        assert_eq!(Samples::default().percentile(99), Duration::ZERO);
    }

    #[test]
    fn extremes_mean_and_rate() {
        let samples = Samples::from_nanos(&[4, 2, 6]);
        let nanos =
            [samples.shortest(), samples.mean(), samples.longest()].map(|time| time.as_nanos());
        assert_eq!(nanos, [2, 4, 6]);
        assert_eq!(gb_per_s(64_000_000, Duration::from_millis(16)), 4.0);
    }
}
