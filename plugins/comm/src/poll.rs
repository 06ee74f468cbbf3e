#![allow(unsafe_code)]
//! Waiting for sockets, with a way to end a wait from another thread.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Event that ends another thread's [`wait`].
#[derive(Debug)]
pub struct Waker {
    event: File,
}

impl Waker {
    /// Creates an event without a notification.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers; the result is checked below.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and has no other owner.
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { event: File::from(owned) })
    }

    /// Wakes the waiter, or lets its next wait return at once.
    pub fn notify(&self) {
        // The only failure is a full counter, and then the waiter is being woken already.
        let _ = (&self.event).write(&1u64.to_ne_bytes());
    }

    /// Clears all notifications.
    pub fn clear(&self) {
        // Nothing to read means that there was no notification.
        let _ = (&self.event).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Condition to wait for on one descriptor.
#[derive(Clone, Copy, Debug)]
pub enum Interest {
    /// Bytes to read.
    Read,
    /// Room to write.
    Write,
    /// A failure or an entry in the error queue. Both also end any other wait.
    Error,
}

/// Waits until a descriptor is ready or has failed, or until the timeout. Reports for each
/// descriptor whether it is ready or has failed.
///
/// # Errors
/// Returns the system's error.
pub fn wait(
    descriptors: &[(BorrowedFd<'_>, Interest)],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|(fd, interest)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: match interest {
                Interest::Read => libc::POLLIN,
                Interest::Write => libc::POLLOUT,
                Interest::Error => 0,
            },
            revents: 0,
        })
        .collect();
    let millis = timeout.map_or(-1, |time| {
        // Rounds up, so that a wait of less than a millisecond does not become a spin.
        i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    // SAFETY: the array has as many elements as it says, and outlives the call.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, millis) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; polls.len()]);
    }
    Ok(polls.iter().map(|poll| poll.revents != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_ends_one_wait() {
        let wake = Waker::new().expect("eventfd");
        wake.notify();
        let wait_for = |time| wait(&[(wake.as_fd(), Interest::Read)], Some(time)).expect("poll");
        assert_eq!(wait_for(Duration::from_secs(60)), [true]);
        wake.clear();
        assert_eq!(wait_for(Duration::ZERO), [false]);
    }
}
