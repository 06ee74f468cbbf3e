//! A point in time by which something must have happened, and waiting until then.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// When waiting ends, and how long it was meant to last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
    /// The time of the whole command, if that is what the limit comes from.
    whole: Option<Duration>,
}

impl Deadline {
    /// In so much time from now.
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit, whole: None }
    }

    /// At a point in time: `limit` after the beginning of a command that has `whole` for
    /// everything.
    pub(crate) fn of_whole(at: Instant, limit: Duration, whole: Duration) -> Self {
        Self { at, limit, whole: Some(whole) }
    }

    /// The time that is left; zero once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// How long waiting was meant to last.
    pub(crate) fn limit(self) -> Duration {
        self.limit
    }

    /// Waits until one of `fds` has something to say. False: the deadline passed.
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

/// What was given, as on the command line, and what it is a part of.
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

/// In whole milliseconds, which is as exact as anybody reads it.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
