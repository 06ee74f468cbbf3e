//! A descriptor that is readable from a signal until it is drained.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Result};

/// What is written into the descriptor: any number but 0.
const SIGNAL: u64 = 1;

/// An eventfd, from when somebody first asks for it. Before that, signals cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Event {
    descriptor: OnceLock<OwnedFd>,
    /// Whether the descriptor is readable. The lock is held for one system call that never waits.
    is_signalled: Mutex<bool>,
}

impl Event {
    /// The descriptor, which is readable at first: what happened before counts as a signal.
    pub(crate) fn open(&self) -> Result<BorrowedFd<'_>> {
        let mut is_signalled = self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(descriptor) = self.descriptor.get() {
            return Ok(descriptor.as_fd());
        }
        let descriptor = eventfd(SIGNAL as u32, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::io("making an event descriptor", &error.into()))?;
        *is_signalled = true;
        Ok(self.descriptor.get_or_init(|| descriptor).as_fd())
    }

    /// Makes the descriptor readable, if it is not.
    pub(crate) fn signal(&self) {
        let Some(descriptor) = self.descriptor.get() else { return };
        let mut is_signalled = self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_signalled {
            *is_signalled = rustix::io::write(descriptor, &SIGNAL.to_ne_bytes()).is_ok();
        }
    }

    /// Makes the descriptor unreadable. Whoever drains looks afterwards at what it may have been
    /// signalled for.
    pub(crate) fn drain(&self) {
        let Some(descriptor) = self.descriptor.get() else { return };
        let mut is_signalled = self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_signalled {
            let _ = rustix::io::read(descriptor, &mut [0; size_of::<u64>()]);
            *is_signalled = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(event: &Event) -> bool {
        let descriptor = event.open().unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_a_signal_until_it_is_drained() {
        let event = Event::default();
        // Nobody has asked for the descriptor: nothing is there to signal or drain.
        event.signal();
        event.drain();
        assert!(event.descriptor.get().is_none());

        assert!(is_readable(&event), "something may have happened before");
        event.drain();
        event.drain();
        assert!(!is_readable(&event));
        event.signal();
        event.signal();
        assert!(is_readable(&event));
        event.drain();
        assert!(!is_readable(&event), "two signals are drained at once");
    }
}
