//! Deadlines, and waiting until them.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// End of a wait, and the length that was given to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
    /// Time of the whole command, if the limit comes from that.
    whole: Option<Duration>,
}

impl Deadline {
    /// Returns the deadline `limit` from now.
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit, whole: None }
    }

    /// Returns the deadline at a point in time: `limit` after the beginning of a command that has
    /// `whole` for everything.
    pub(crate) fn of_whole(at: Instant, limit: Duration, whole: Duration) -> Self {
        Self { at, limit, whole: Some(whole) }
    }

    /// Returns the time that is left; zero once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Returns the length that was given to the wait.
    pub(crate) fn limit(self) -> Duration {
        self.limit
    }

    /// Waits until one of `fds` is ready. Returns false when the deadline has passed.
    pub(crate) fn poll(self, fds: &mut [PollFd<'_>]) -> std::io::Result<bool> {
        loop {
            let left = Timespec::try_from(self.left()).map_err(|_| Errno::INVAL)?;
            match poll(fds, Some(&left)) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Prints the limit as on the command line, and the limit that it is a part of.
impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", seconds(self.limit))?;
        match self.whole {
            Some(whole) if whole == self.limit => write!(f, " (--timeout)"),
            Some(whole) => write!(f, " (of --timeout {} s)", seconds(whole)),
            None => Ok(()),
        }
    }
}

/// Rounded to whole milliseconds, which is exact enough for readers.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
