//! How a thread that waits for what another one does hears of it.
//!
//! A descriptor that is readable from a signal until it is drained.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Error, Result};

/// How long a thread that listens waits before it looks again by itself. What it waits for wakes
/// it; in unit tests nothing else does, so none passes where a wake-up is lost.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 1 });

/// Counts what was told. Whoever listens before it looks misses nothing.
#[derive(Debug, Default)]
pub(crate) struct News {
    told: Mutex<u64>,
    changed: Condvar,
    listeners: AtomicUsize,
}

/// Somebody who listens.
#[derive(Debug)]
pub(crate) struct Listening<'a> {
    news: &'a News,
    heard: u64,
}

impl News {
    /// Listens from now on. Whoever changes something outside the engine's lock, and has a
    /// [`fence`] between that and [`tell`](Self::tell), either counts this listener or was seen by
    /// it: that is what the fence here is for.
    pub(crate) fn listen(&self) -> Listening<'_> {
        self.listeners.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Listening { news: self, heard: *self.told() }
    }

    /// Tells everybody who listens that something has changed.
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
    /// Waits until something is told that was not when it began to listen, for at most this time.
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
            // A thread that is counted listens to everything that is told from now on.
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
