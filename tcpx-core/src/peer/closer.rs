//! A thread that drops what may wait while it is dropped.
//!
//! The plugin closes a comm by joining threads, by asking another process, and by freeing GPU
//! memory, which waits until the GPU is idle. None of it has a limit of time, and an application's
//! kernel may be waiting for bytes that this session is to bring. So nothing of it runs under the
//! session's lock: it is handed to this thread, and a ticket says when it is over. The
//! thread then makes a round of progress, because the peer may wait for word of it, and the program
//! need not have a reason to call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Something to be dropped.
type Closing = Box<dyn Send>;

type Job = (Closing, CloseTicket);

/// The thread as its session sees it.
#[derive(Debug)]
struct Queue {
    jobs: Sender<Job>,
    /// Its other end goes with the thread.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

/// Says when something that was handed over has been dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct CloseTicket(Arc<AtomicBool>);

impl CloseTicket {
    /// Whether it is closed, and touches nothing any more.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What the thread does each time when something is closed.
type OnClosed = Arc<dyn Fn() + Send + Sync>;

/// Hands things over, in order. The thread begins with the first of them.
#[derive(Default)]
pub(crate) struct Closer {
    queue: Option<Queue>,
    on_closed: Option<OnClosed>,
    /// Nothing more is dropped: it might wait for a GPU that hangs.
    is_abandoned: Arc<AtomicBool>,
}

impl std::fmt::Debug for Closer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closer").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Closer {
    /// Has this called, by the thread, each time when something is closed.
    pub(crate) fn on_closed(&mut self, on_closed: impl Fn() + Send + Sync + 'static) {
        self.on_closed = Some(Arc::new(on_closed));
    }

    /// Has something dropped by the thread.
    pub(crate) fn close(&mut self, what: impl Send + 'static) -> CloseTicket {
        let ticket = CloseTicket::default();
        let job: Job = (Box::new(what), ticket.clone());
        if self.queue.is_none() {
            self.queue = start(Arc::clone(&self.is_abandoned), self.on_closed.clone());
        }
        let refused = match &self.queue {
            Some(queue) => queue.jobs.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = refused {
            drop_one(job, &self.is_abandoned);
        }
        ticket
    }

    /// Waits until everything is dropped, for at most this time. False: the thread goes on alone.
    pub(crate) fn finish(&mut self, timeout: Duration) -> bool {
        let Some(Queue { jobs, ended, thread }) = self.queue.take() else { return true };
        drop(jobs);
        if thread.thread().id() == thread::current().id() {
            // The last one to hold the session was the thread itself.
            return false;
        }
        let has_ended = ended.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected);
        // All that it still does is to end.
        has_ended && thread.join().is_ok()
    }

    /// A GPU hangs: what has not been dropped stays for as long as the process lives, and its
    /// tickets are never done.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }
}

/// Starts the thread. It ends when everything was dropped that its session has handed over. `None`:
/// the system has no thread left.
fn start(is_abandoned: Arc<AtomicBool>, on_closed: Option<OnClosed>) -> Option<Queue> {
    let ((jobs, to_close), (ends, ended)) = (channel::<Job>(), channel());
    let run = move || {
        for job in to_close {
            drop_one(job, &is_abandoned);
            if let Some(on_closed) = &on_closed {
                on_closed();
            }
        }
        drop(ends);
    };
    match thread::Builder::new().name("tcpx-closer".into()).spawn(run) {
        Ok(thread) => Some(Queue { jobs, ended, thread }),
        Err(error) => {
            tracing::warn!(%error, "no thread for closing comms: they are closed in between");
            None
        }
    }
}

fn drop_one((what, ticket): Job, is_abandoned: &AtomicBool) {
    if is_abandoned.load(Ordering::Acquire) {
        std::mem::forget(what);
        return;
    }
    drop(what);
    ticket.0.store(true, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use super::*;

    /// Something whose drop waits until it may end, and is remembered.
    struct Slow {
        name: u32,
        may_end: Arc<AtomicBool>,
        dropped: Arc<Mutex<Vec<u32>>>,
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            while !self.may_end.load(Ordering::Acquire) {
                thread::yield_now();
            }
            self.dropped.lock().unwrap().push(self.name);
        }
    }

    fn wait_for(ticket: &CloseTicket) {
        let give_up_at = Instant::now() + Duration::from_secs(60);
        while !ticket.is_done() {
            assert!(Instant::now() < give_up_at, "it is never closed");
            thread::yield_now();
        }
    }

    #[test]
    fn what_is_handed_over_is_dropped_in_order_and_nobody_waits_for_it() {
        let (may_end, dropped) = <(Arc<AtomicBool>, Arc<Mutex<Vec<u32>>>)>::default();
        let slow =
            |name| Slow { name, may_end: Arc::clone(&may_end), dropped: Arc::clone(&dropped) };
        let mut closer = Closer::default();
        let tickets: Vec<_> = (0..3).map(|name| closer.close(slow(name))).collect();
        assert!(tickets.iter().all(|ticket| !ticket.is_done()));
        assert!(!closer.finish(Duration::from_millis(1)), "the first still waits");
        may_end.store(true, Ordering::Release);
        // Also without the closer.
        drop(closer);
        tickets.iter().for_each(wait_for);
        assert_eq!(*dropped.lock().unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_closer_can_be_waited_for_and_begins_anew() {
        let (may_end, dropped) = <(Arc<AtomicBool>, Arc<Mutex<Vec<u32>>>)>::default();
        may_end.store(true, Ordering::Release);
        let slow =
            |name| Slow { name, may_end: Arc::clone(&may_end), dropped: Arc::clone(&dropped) };
        let mut closer = Closer::default();
        assert!(closer.finish(Duration::ZERO), "it never began");
        for name in 0..2 {
            let ticket = closer.close(slow(name));
            assert!(closer.finish(Duration::from_secs(60)) && ticket.is_done());
        }
        assert_eq!(*dropped.lock().unwrap(), [0, 1]);
    }

    #[test]
    fn somebody_is_told_of_each_thing_that_is_closed() {
        let (tells, told) = channel();
        let mut closer = Closer::default();
        closer.on_closed(move || tells.send(()).unwrap());
        let tickets = [closer.close(1), closer.close(2)];
        for ticket in tickets {
            told.recv_timeout(Duration::from_secs(60)).unwrap();
            assert!(ticket.is_done());
        }
    }

    #[test]
    fn after_a_stall_nothing_is_dropped() {
        let (may_end, dropped) = <(Arc<AtomicBool>, Arc<Mutex<Vec<u32>>>)>::default();
        let slow =
            |name| Slow { name, may_end: Arc::clone(&may_end), dropped: Arc::clone(&dropped) };
        let mut closer = Closer::default();
        let first = closer.close(slow(0));
        let second = closer.close(slow(1));
        // The first may be in the middle of its drop; the second waits behind it.
        closer.abandon();
        may_end.store(true, Ordering::Release);
        assert!(closer.finish(Duration::from_secs(60)), "the thread ends all the same");
        assert!(!second.is_done(), "its memory may be in use");
        let dropped = dropped.lock().unwrap();
        assert!(dropped.iter().all(|name| *name == 0) && first.is_done() == dropped.contains(&0));
    }
}
