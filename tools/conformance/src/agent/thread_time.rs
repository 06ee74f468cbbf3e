//! Time that a call takes of its own thread: working and sleeping, without waiting for a
//! processor. A busy machine lengthens only the waiting.

use std::time::{Duration, Instant};

/// Scheduler statistics of the calling thread: nanoseconds on a processor, nanoseconds spent
/// waiting for one, and how often it got one.
const SCHEDULE: &str = "/proc/thread-self/schedstat";

/// Stopwatch of the calling thread's own time.
pub(super) struct ThreadTime {
    begun: Instant,
    waited: Duration,
}

impl ThreadTime {
    /// Starts the stopwatch.
    pub(super) fn start() -> Self {
        Self { waited: waited(), begun: Instant::now() }
    }

    /// Returns the time since the start, less what the thread waited for a processor.
    pub(super) fn elapsed(&self) -> Duration {
        let passed = self.begun.elapsed();
        passed.saturating_sub(waited().saturating_sub(self.waited))
    }
}

/// Returns how long this thread has waited for a processor so far.
fn waited() -> Duration {
    waited_in(&std::fs::read_to_string(SCHEDULE).unwrap_or_default())
}

/// Returns the waiting time by the text of `schedstat`; zero where the system has no figure.
fn waited_in(figures: &str) -> Duration {
    let word = figures.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(word.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_the_time_spent_waiting() {
        assert_eq!(waited_in("101851 3344645 2\n"), Duration::from_nanos(3_344_645));
        assert_eq!(waited_in(""), Duration::ZERO);
        assert_eq!(waited_in("no figures here"), Duration::ZERO);
    }

    #[test]
    fn sleep_is_the_callers_own_time() {
        let (time, slept) = (ThreadTime::start(), Duration::from_millis(30));
        std::thread::sleep(slept);
        // The two clocks may disagree by a tick.
        assert!(time.elapsed() > slept / 2, "{:?}", time.elapsed());
    }
}
