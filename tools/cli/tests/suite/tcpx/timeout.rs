//! A `--timeout` that is short, and still long enough for the machine.

use std::iter::successors;
use std::time::{Duration, Instant};

use tcpx_testkit::scaled;

/// How often it is doubled at most.
const ATTEMPTS: usize = 5;

/// A `--timeout`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeout(Duration);

impl Timeout {
    /// As a command takes it.
    pub(crate) fn flag(self) -> String {
        self.0.as_secs_f64().to_string()
    }

    /// What a command says whose work has taken too long.
    pub(crate) fn work(self) -> String {
        format!("within {} s (of --timeout {} s)", self.of_work().as_secs_f64(), self.flag())
    }

    /// The time for the work: a quarter is kept for the end.
    pub(crate) fn of_work(self) -> Duration {
        self.0 * 3 / 4
    }

    /// Whether a command that was started at `start` had half of its time left at `moment`. Then
    /// what happened to it at that moment, and not a slow machine, is what its time went to.
    pub(crate) fn had_half(self, start: Instant, moment: Instant) -> bool {
        moment - start < self.0 / 2
    }
}

/// Calls `attempt` with a `--timeout` of `seconds` seconds. It returns `None` if half of that was
/// over before the command had come to the point where the test disturbs it. Then there is another
/// attempt with twice the time.
pub(crate) fn with_timeout<T>(seconds: u64, attempt: impl Fn(Timeout) -> Option<T>) -> T {
    let first = scaled(Duration::from_secs(seconds));
    successors(Some(first), |timeout| Some(*timeout * 2))
        .take(ATTEMPTS)
        .find_map(|timeout| attempt(Timeout(timeout)))
        .expect("a command that comes to where it is disturbed")
}
