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
}

impl Deadline {
    /// In so much time from now.
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit }
    }

    /// The time that is left; zero once it has passed.
    pub(crate) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
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

/// What was given, as on the command line.
impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.limit.as_secs_f64())
    }
}
