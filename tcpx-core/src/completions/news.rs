//! Signals by which one thread notifies another that waits for its work.
//!
//! Descriptor that is readable from a signal until it is drained.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Result};

/// Longest time that a listening thread waits before it looks again by itself. The event that it
/// waits for wakes it. In unit tests nothing else does, so no test passes where a wake-up is lost.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 1 });

/// Counter of notifications. A thread that listens before it looks misses none.
#[derive(Debug, Default)]
pub(crate) struct News {
    told: Mutex<u64>,
    changed: Condvar,
    listeners: AtomicUsize,
}

/// Listener of a [`News`].
#[derive(Debug)]
pub(crate) struct Listening<'a> {
    news: &'a News,
    heard: u64,
}

impl News {
    /// Listens from now on. A thread that changes something outside the engine's lock has a
    /// [`fence`] between the change and [`tell`](Self::tell). Then either that thread counts this
    /// listener, or this listener sees the change: the fence here is for that.
    pub(crate) fn listen(&self) -> Listening<'_> {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Listening { news: self, heard: *self.told() }
    }

    /// Notifies all listeners that something has changed.
    pub(crate) fn tell(&self) {
        if self.listeners.load(Ordering::SeqCst) > 0 {
            *self.told() += 1;
            self.changed.notify_all();
        }
    }

    fn told(&self) -> MutexGuard<'_, u64> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening<'_> {
    /// Waits until a notification comes that was not there when listening began, for at most this
    /// time.
    pub(crate) fn wait(self, timeout: Duration) {
        let (told, is_new) = (self.news.told(), |told: &mut u64| *told == self.heard);
        drop(self.news.changed.wait_timeout_while(told, timeout, is_new));
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.news.listeners.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Number that is written into the descriptor: any but 0.
const SIGNAL: u64 = 1;

/// Eventfd, made when it is first asked for. Before that, signals cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Event {
    descriptor: OnceLock<OwnedFd>,
    /// Whether the descriptor is readable. The lock is held for one system call that never waits.
    is_signalled: Mutex<bool>,
}

impl Event {
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

    /// Makes the descriptor unreadable. The caller looks afterwards for what the descriptor may
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
    fn what_is_told_after_it_began_to_listen_ends_a_wait_at_once() {
        let news = News::default();
        let listening = news.listen();
        news.tell();
        listening.wait(Duration::MAX);
        assert_eq!(news.listeners.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_wait_ends_by_itself() {
        let news = News::default();
        news.tell();
        news.listen().wait(Duration::from_millis(1));
    }

    #[test]
    fn everybody_hears() {
        let news = News::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| news.listen().wait(Duration::MAX));
            }
            while news.listeners.load(Ordering::SeqCst) < 4 {
                std::hint::spin_loop();
            }
            // A thread that is counted hears every notification from now on.
            while news.listeners.load(Ordering::SeqCst) > 0 {
                news.tell();
            }
        });
    }

    fn is_readable(event: &Event) -> bool {
        let descriptor = event.open().unwrap();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_a_signal_until_it_is_drained() {
        let event = Event::default();
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
