//! Clock and end of copies between GPUs and pinned memory, in both directions.
//!
//! A report needs the clock to say what bounds a run.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use tcpx_cuda::{MarkedStream, PinnedBuffer};

use super::pooled::Pooled;
use crate::sync::AtomicU64;

/// Totals of the copies of this process so far, over all comms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StagingStats {
    /// Number of bytes copied down from GPU memory: before they were sent, or after a NIC had
    /// received them for host memory.
    pub down_bytes: u64,
    /// Nanoseconds in which a comm had such a copy under way, summed over comms. A copy ends when
    /// `test` sees it.
    pub down_ns: u64,
    /// Number of bytes copied up to a bounce region in GPU memory.
    pub up_bytes: u64,
    /// As `down_ns`, for copies up.
    pub up_ns: u64,
}

/// Bytes and time of the copies in one direction.
#[derive(Debug)]
pub(crate) struct CopyCounters {
    bytes: AtomicU64,
    nanos: AtomicU64,
}

impl CopyCounters {
    const fn new() -> Self {
        Self { bytes: AtomicU64::new(0), nanos: AtomicU64::new(0) }
    }
}

/// Copies from GPUs to pinned memory.
pub(crate) static DOWN: CopyCounters = CopyCounters::new();
/// Copies from pinned memory to GPUs.
pub(crate) static UP: CopyCounters = CopyCounters::new();

/// Clock of one comm. It is read twice for a whole series of copies.
#[derive(Debug)]
pub(crate) struct BusyClock {
    counters: &'static CopyCounters,
    since: Option<Instant>,
}

impl BusyClock {
    pub(crate) fn new(counters: &'static CopyCounters) -> Self {
        Self { counters, since: None }
    }

    /// Counts a copy that was queued.
    pub(crate) fn started(&mut self, bytes: usize) {
        self.counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Notes that no copy is under way.
    pub(crate) fn idle(&mut self) {
        if let Some(since) = self.since.take() {
            let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.counters.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }
}

/// Bytes of the word that says how far a stream of copies is.
pub(super) const WORD_BYTES: u64 = size_of::<u32>() as u64;

/// Time for which the end of a comm waits for copies that still run.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Waits until no copy of the stream reads or writes memory any more; returns false when this takes
/// too long.
pub(super) fn drain(stream: &MarkedStream<Pooled<PinnedBuffer>>) -> bool {
    let start = Instant::now();
    while !stream.is_over() {
        if start.elapsed() > DRAIN_LIMIT {
            return false;
        }
        thread::yield_now();
    }
    true
}

/// Returns what was copied so far. All zero without GPUs.
#[must_use]
pub fn staging_stats() -> StagingStats {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    StagingStats {
        down_bytes: get(&DOWN.bytes),
        down_ns: get(&DOWN.nanos),
        up_bytes: get(&UP.bytes),
        up_ns: get(&UP.nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_of_copies_counts_once_and_all_its_bytes() {
        static COUNTERS: CopyCounters = CopyCounters::new();
        let mut clock = BusyClock::new(&COUNTERS);
        clock.idle();
        assert_eq!(COUNTERS.nanos.load(Ordering::Relaxed), 0, "nothing was under way");
        clock.started(10);
        let since = clock.since;
        clock.started(20);
        assert_eq!(clock.since, since, "the series goes on");
        clock.idle();
        assert_eq!((clock.since, COUNTERS.bytes.load(Ordering::Relaxed)), (None, 30));
    }
}
