//! Times and rates of pairs of clients, which a client tells the server.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::rendezvous::Message;
use crate::session::RESULT_LIMIT;

/// Pairs of a client with later ones, for one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PairTimes {
    /// Times of each iteration until the last byte of any of these pairs, in ns.
    pub(super) slowest_ns: Vec<u64>,
    /// Median of each pair, one for each way.
    pub(super) gb_per_s: Vec<f64>,
    /// First wrong byte, in words.
    pub(super) mismatch: Option<String>,
}

impl Message for PairTimes {
    const KIND: u16 = 16;
    const BODY_LIMIT: usize = RESULT_LIMIT;
}

impl PairTimes {
    /// Adds a pair: its times until the last byte of both ways, and the median of each way.
    pub(super) fn add(
        &mut self,
        times_ns: &[u64],
        gb_per_s: impl Iterator<Item = f64>,
        mismatch: Option<&str>,
    ) {
        if self.gb_per_s.is_empty() {
            self.slowest_ns = times_ns.to_vec();
        }
        for (slowest, time) in self.slowest_ns.iter_mut().zip(times_ns) {
            *slowest = (*slowest).max(*time);
        }
        self.gb_per_s.extend(gb_per_s);
        self.mismatch = self.mismatch.take().or_else(|| mismatch.map(str::to_owned));
    }

    /// Returns the number of pairs.
    pub(super) fn pairs(&self) -> u64 {
        self.gb_per_s.len() as u64 / 2
    }

    /// Checks what a client says: it has `pairs` pairs, and as many times as the server counted.
    pub(super) fn check(&self, pairs: usize, iterations: u64) -> Result<(), Failure> {
        let is_complete = self.gb_per_s.len() == 2 * pairs
            && self.gb_per_s.iter().all(|rate| rate.is_finite() && *rate >= 0.0)
            && (pairs == 0 || self.slowest_ns.len() as u64 == iterations);
        match is_complete {
            true => Ok(()),
            false => Err(Failure::OtherEnd(format!(
                "it sent {} rates and {} times for {pairs} pairs and {iterations} iterations",
                self.gb_per_s.len(),
                self.slowest_ns.len(),
            ))),
        }
    }
}

/// Rates of all pairs of ends, each way by itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct EachWay {
    /// Number of ways: two for each pair.
    ways: u64,
    /// Of the medians of all ways.
    pub(super) gb_per_s_min: f64,
    pub(super) gb_per_s_median: f64,
    pub(super) gb_per_s_max: f64,
}

impl EachWay {
    /// Returns the figures of these medians; `None` without any.
    pub(super) fn new(gb_per_s: impl Iterator<Item = f64>) -> Option<Self> {
        let mut rates: Vec<f64> = gb_per_s.collect();
        rates.sort_by(f64::total_cmp);
        Some(Self {
            ways: rates.len() as u64,
            gb_per_s_min: *rates.first()?,
            gb_per_s_median: *rates.get(rates.len() / 2)?,
            gb_per_s_max: *rates.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_a_client_end_with_the_slowest() {
        let mut pairs = PairTimes::default();
        pairs.add(&[10, 40], [1.0, 2.0].into_iter(), None);
        pairs.add(&[20, 20], [3.0, 4.0].into_iter(), Some("wrong"));
        assert_eq!((pairs.slowest_ns.as_slice(), pairs.pairs()), (&[20, 40][..], 2));
        assert_eq!(pairs.mismatch.as_deref(), Some("wrong"));
        assert!(pairs.check(2, 2).is_ok());
        for (count, iterations) in [(1, 2), (2, 3)] {
            assert!(pairs.check(count, iterations).is_err());
        }
        assert!(PairTimes::default().check(0, 5).is_ok(), "the last client has no later ones");
        let all = EachWay::new(pairs.gb_per_s.iter().copied()).unwrap();
        assert_eq!((all.ways, all.gb_per_s_min, all.gb_per_s_max), (4, 1.0, 4.0));
        pairs.gb_per_s[0] = f64::NAN;
        assert!(pairs.check(2, 2).is_err());
        assert_eq!(EachWay::new(std::iter::empty()), None);
    }
}
