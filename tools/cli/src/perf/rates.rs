//! Rates and percentiles of one series of times.

use serde::Serialize;

use super::plan::MAX_ITERATIONS;
use super::samples::{Samples, gb_per_s};

/// Rates and times of the iterations of one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Throughput {
    pub(super) gb_per_s_median: f64,
    pub(super) gb_per_s_min: f64,
    pub(super) gb_per_s_max: f64,
    /// Reached by 99 of 100 iterations, if there were 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gb_per_s_p99: Option<f64>,
    pub(super) mean_ms: f64,
    /// Of each iteration, where there are not too many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) iteration_ms: Vec<f64>,
    #[serde(skip)]
    pub(super) bytes: u64,
    #[serde(skip)]
    pub(super) times_ns: Vec<u64>,
}

/// Percentiles in microseconds, without those for which there were too few times.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p90: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_9: Option<f64>,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Throughput {
    /// Returns the rates of iterations of `bytes` that took `times`, in ns; `None` without any.
    pub(super) fn new(bytes: u64, times: &[u64]) -> Option<Self> {
        let samples = Samples::new(times)?;
        let is_short = times.len() <= MAX_ITERATIONS as usize;
        let listed = if is_short { times } else { &[] };
        Some(Self {
            bytes,
            times_ns: times.to_vec(),
            gb_per_s_median: gb_per_s(bytes, samples.median()),
            gb_per_s_min: gb_per_s(bytes, samples.longest()),
            gb_per_s_max: gb_per_s(bytes, samples.shortest()),
            gb_per_s_p99: samples.percentile(990).map(|nanos| gb_per_s(bytes, nanos)),
            mean_ms: samples.mean() as f64 / 1e6,
            iteration_ms: listed.iter().map(|nanos| *nanos as f64 / 1e6).collect(),
        })
    }

    /// Returns the bytes of all iterations.
    pub(super) fn total_bytes(&self) -> u64 {
        self.bytes * self.times_ns.len() as u64
    }
}

impl Percentiles {
    /// Returns the percentiles of these times.
    pub(super) fn new(samples: &Samples) -> Self {
        let micros = |nanos| nanos as f64 / 1e3;
        let percentile = |per_mille| samples.percentile(per_mille).map(micros);
        Self {
            p50: micros(samples.median()),
            p90: percentile(900),
            p99: percentile(990),
            p99_9: percentile(999),
            min: micros(samples.shortest()),
            max: micros(samples.longest()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_an_iteration_and_bytes_of_all() {
        let rates = Throughput::new(1000, &[100, 400, 200]).unwrap();
        assert_eq!(
            (rates.gb_per_s_median, rates.gb_per_s_max, rates.gb_per_s_min),
            (5.0, 10.0, 2.5)
        );
        assert_eq!(rates.total_bytes(), 3000);
        assert!(Throughput::new(1000, &[]).is_none());
    }
}
