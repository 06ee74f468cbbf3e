//! What whoever handed something over knows of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Says when something that was handed over is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticket(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    is_done: AtomicBool,
    waiting: Mutex<()>,
    ended: Condvar,
}

impl Ticket {
    /// Whether it is over, and touches nothing any more.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_done.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.0.is_done.store(true, Ordering::Release);
        // Whoever has just looked is waiting by now, or will look again.
        drop(self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.ended.notify_all();
    }

    /// Waits until it is over, for at most this time.
    pub(super) fn wait(&self, timeout: Duration) {
        let give_up_at = Instant::now().checked_add(timeout);
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_done() {
            let left =
                give_up_at.map_or(timeout, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            let woken = self.0.ended.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A call that was handed over, and what it returns. Whoever lets go of this lets go of the value,
/// which is then dropped by whoever made it.
#[derive(Debug)]
pub(crate) struct Task<T> {
    ticket: Ticket,
    value: Arc<Mutex<Option<T>>>,
}

impl<T> Task<T> {
    pub(super) fn new(ticket: Ticket, value: Arc<Mutex<Option<T>>>) -> Self {
        Self { ticket, value }
    }

    /// Whether the call has returned.
    pub(crate) fn is_done(&self) -> bool {
        self.ticket.is_done()
    }

    /// What it has returned, once.
    pub(crate) fn take(&self) -> Option<T> {
        if !self.is_done() {
            return None;
        }
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
