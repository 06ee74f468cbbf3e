//! How a thread that waits for what another one does hears of it.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

#[cfg(test)]
mod tests {
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
}
