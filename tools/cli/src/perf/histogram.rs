//! Histogram of times.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Precision of the recorded times, which is finer than any bucket.
const DIGITS: u8 = 3;
/// Factor from the limit of one bucket to the next.
const STEP: f64 = 1.25;
/// Limit of the first bucket, in ns.
const FIRST_NS: u64 = 100;

/// Times above the bucket before, up to its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Bucket {
    pub(super) up_to_us: f64,
    pub(super) count: u64,
}

/// Returns buckets from the shortest time to the longest, with empty buckets between them.
pub(super) fn of(times_ns: &[u64]) -> Vec<Bucket> {
    let Ok(mut histogram) = Histogram::<u64>::new(DIGITS) else { return Vec::new() };
    // The histogram grows with its times, as long as there is memory.
    let is_complete = times_ns.iter().all(|time| histogram.record(*time).is_ok());
    if !is_complete || histogram.is_empty() {
        return Vec::new();
    }
    let steps = histogram.iter_log(FIRST_NS, STEP).map(|step| Bucket {
        up_to_us: step.value_iterated_to() as f64 / 1e3,
        count: step.count_since_last_iteration(),
    });
    steps.skip_while(|bucket| bucket.count == 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_reaches_it() {
        let times: Vec<u64> = (1..=1000).map(|index| index * 137).collect();
        let buckets = of(&times);
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 1000);
        let last = buckets.last().unwrap();
        assert!(
            last.count > 0 && last.up_to_us >= 137.0 && last.up_to_us < 137.0 * 1.3,
            "{last:?}"
        );
        let mut before = 0.0;
        for bucket in &buckets {
            let inside = |time: &&u64| (before..bucket.up_to_us).contains(&(**time as f64 / 1e3));
            let exact = times.iter().filter(inside).count() as f64;
            assert!(
                (bucket.count as f64 - exact).abs() <= 2.0 + exact / 20.0,
                "{bucket:?} {exact}"
            );
            before = bucket.up_to_us;
        }
    }

    #[test]
    fn no_times_have_no_buckets_and_empty_buckets_between_times_are_listed() {
        assert_eq!(of(&[]), []);
        let buckets = of(&[1000, 1_000_000_000]);
        assert!(buckets.len() > 20 && buckets[0].count == 1, "{buckets:?}");
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 2);
    }
}
