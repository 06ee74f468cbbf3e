//! Timing candidates in turn.

use std::time::{Duration, Instant};

/// Repetitions of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repetitions {
    pub(crate) rounds: usize,
    /// Submissions of one round, back to back.
    pub(crate) submissions: usize,
    pub(crate) latencies: usize,
}

/// Enough for medians that repeat within a few percent.
pub(crate) const FULL: Repetitions = Repetitions { rounds: 15, submissions: 128, latencies: 300 };
/// Shows that the bench works.
pub(crate) const ONCE: Repetitions = Repetitions { rounds: 1, submissions: 2, latencies: 1 };

/// Medians, in µs for one submission.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Medians {
    /// From the first submission to the end of the last, back to back.
    pub(crate) each: f64,
    /// Time that the submitting thread spends.
    pub(crate) cpu: f64,
    /// From a lone submission to the moment its end is seen.
    pub(crate) latency: f64,
}

/// Something that copies chunk `index` (counted without end) of its layout.
pub(crate) trait Candidate {
    fn submit(&mut self, index: usize);
    /// Waits, spinning, until everything submitted has arrived.
    fn finish(&mut self);
}

/// Measures all candidates, taking turns, so that what drifts drifts for all of them.
pub(crate) fn measure(
    candidates: &mut [Box<dyn Candidate + '_>],
    repetitions: Repetitions,
) -> Vec<Medians> {
    let mut each = vec![Vec::new(); candidates.len()];
    let mut cpu = each.clone();
    let mut latency = each.clone();
    for round in 0..=repetitions.rounds {
        for (which, candidate) in candidates.iter_mut().enumerate() {
            let first = round * repetitions.submissions;
            let start = Instant::now();
            for index in first..first + repetitions.submissions {
                candidate.submit(index);
            }
            let submitted = start.elapsed();
            candidate.finish();
            // Round 0 warms up.
            if round > 0 {
                each[which].push(per_submission(start.elapsed(), repetitions));
                cpu[which].push(per_submission(submitted, repetitions));
            }
        }
    }
    for index in 0..repetitions.latencies {
        for (which, candidate) in candidates.iter_mut().enumerate() {
            let start = Instant::now();
            candidate.submit(index);
            candidate.finish();
            latency[which].push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    let medians = each.into_iter().zip(cpu).zip(latency);
    medians
        .map(|((each, cpu), latency)| Medians {
            each: median(each),
            cpu: median(cpu),
            latency: median(latency),
        })
        .collect()
}

fn per_submission(time: Duration, repetitions: Repetitions) -> f64 {
    time.as_secs_f64() * 1e6 / repetitions.submissions as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
