//! Signals by which one thread notifies others: a count of events for threads that wait in a call,
//! and a descriptor for event loops.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Result};

/// Longest time that a listening thread waits before it checks again by itself. The event that it
/// waits for wakes it. In unit tests nothing else does, so no test passes where a wake-up is lost.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 1 });

/// Counter of notifications. A thread that listens before it checks misses none.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    count: Mutex<u64>,
    changed: Condvar,
    listeners: AtomicUsize,
}

/// Listener of an [`EventCount`].
#[derive(Debug)]
pub(crate) struct EventListener<'a> {
    events: &'a EventCount,
    seen: u64,
}

impl EventCount {
    /// Listens from now on. A thread that changes something outside the engine's lock has a
    /// [`fence`] between the change and [`notify`](Self::notify). Then either that thread counts
    /// this listener, or this listener sees the change: the fence here is for that.
    pub(crate) fn listen(&self) -> EventListener<'_> {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        EventListener { events: self, seen: *self.count() }
    }

    /// Notifies all listeners that something has changed.
    pub(crate) fn notify(&self) {
        if self.listeners.load(Ordering::SeqCst) > 0 {
            *self.count() += 1;
            self.changed.notify_all();
        }
    }

    fn count(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventListener<'_> {
    /// Waits until a notification comes that was not there when listening began, for at most this
    /// time.
    pub(crate) fn wait(self, timeout: Duration) {
        let (count, is_new) = (self.events.count(), |count: &mut u64| *count == self.seen);
        drop(self.events.changed.wait_timeout_while(count, timeout, is_new));
    }
}

impl Drop for EventListener<'_> {
    fn drop(&mut self) {
        self.events.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Number that is written into the descriptor: any but 0.
const SIGNAL: u64 = 1;

/// Eventfd, made when it is first asked for. Before that, signals cost nothing.
#[derive(Debug, Default)]
pub(crate) struct EventDescriptor {
    descriptor: OnceLock<OwnedFd>,
    /// Whether the descriptor is readable. The lock is held for one system call that never waits.
    is_signalled: Mutex<bool>,
}

impl EventDescriptor {
    /// Opens the descriptor, which is readable at first: earlier events count as a signal.
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

    /// Makes the descriptor unreadable. The caller checks afterwards what the descriptor may
    /// have been signalled for.
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

    #[test]
    fn a_notification_after_listening_began_ends_the_wait_at_once() {
        let events = EventCount::default();
        let listening = events.listen();
        events.notify();
        listening.wait(Duration::MAX);
        assert_eq!(events.listeners.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_wait_ends_at_its_timeout() {
        let events = EventCount::default();
        events.notify();
        events.listen().wait(Duration::from_millis(1));
    }

    #[test]
    fn every_listener_is_notified() {
        let events = EventCount::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| events.listen().wait(Duration::MAX));
            }
            while events.listeners.load(Ordering::SeqCst) < 4 {
                std::hint::spin_loop();
            }
            // A thread that is counted gets every notification from now on.
            while events.listeners.load(Ordering::SeqCst) > 0 {
                events.notify();
            }
        });
    }

    fn is_readable(event: &EventDescriptor) -> bool {
        let descriptor = event.open().unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_a_signal_until_it_is_drained() {
        let event = EventDescriptor::default();
        // No caller has asked for the descriptor: nothing is there to signal or drain.
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
