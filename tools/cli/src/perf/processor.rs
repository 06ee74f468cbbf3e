//! Processor time of both ends while the session moves bytes: how many cores an end keeps busy, and
//! what a GB costs.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::samples::nanos;

/// Times of one end, in ns: those that passed, and those that processors spent on this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessorTimes {
    pub(super) elapsed_ns: u64,
    processor_ns: u64,
}

impl ProcessorTimes {
    /// Adds the times of another iteration or part.
    pub(super) fn add(&mut self, other: Self) {
        self.elapsed_ns += other.elapsed_ns;
        self.processor_ns += other.processor_ns;
    }

    fn cores(&self) -> f64 {
        self.processor_ns as f64 / self.elapsed_ns.max(1) as f64
    }
}

/// Start of an interval.
#[derive(Debug)]
pub(super) struct Stopwatch {
    processor_ns: u64,
    start: Instant,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { processor_ns: processor_ns(), start: Instant::now() }
    }

    /// Returns the times since the start.
    pub(super) fn read(&self) -> ProcessorTimes {
        let elapsed_ns = nanos(self.start.elapsed());
        ProcessorTimes { elapsed_ns, processor_ns: processor_ns() - self.processor_ns }
    }
}

/// Returns the processor time of all threads of this process, in its code and in the kernel.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What both ends cost their processors, for one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ProcessorFigures {
    /// Cores that an end keeps busy, from "go" until its bytes are sent or in place, or until the
    /// client's operations are done.
    pub(super) client_cores: f64,
    pub(super) server_cores: f64,
    /// Seconds of a core at both ends together for 10^9 bytes.
    pub(super) core_s_per_gb: f64,
}

impl ProcessorFigures {
    /// Returns the figures for `bytes` in all; `None` where an end does not know its times.
    pub(super) fn new(
        bytes: u64,
        client: Option<ProcessorTimes>,
        server: Option<ProcessorTimes>,
    ) -> Option<Self> {
        let (client, server) = (client?, server?);
        Some(Self {
            client_cores: client.cores(),
            server_cores: server.cores(),
            core_s_per_gb: (client.processor_ns + server.processor_ns) as f64 / bytes.max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_costs_follow_from_the_times_of_both_ends() {
        let times = |elapsed_ns, processor_ns| Some(ProcessorTimes { elapsed_ns, processor_ns });
        let figures = ProcessorFigures::new(100, times(50, 25), times(50, 75)).unwrap();
        assert_eq!((figures.client_cores, figures.server_cores), (0.5, 1.5));
        assert_eq!(figures.core_s_per_gb, 1.0);
        assert_eq!(ProcessorFigures::new(100, times(50, 25), None), None);
    }

    #[test]
    fn a_thread_that_computes_costs_processor_time() {
        let watch = Stopwatch::start();
        while watch.read().processor_ns < 1_000_000 {}
        let mut sum = watch.read();
        sum.add(ProcessorTimes { elapsed_ns: 1, processor_ns: 1 });
        assert!(sum.processor_ns > 1_000_000 && sum.elapsed_ns > 0, "{sum:?}");
    }
}
