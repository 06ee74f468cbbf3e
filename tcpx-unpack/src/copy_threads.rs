#![allow(unsafe_code)]
//! Threads that copy pieces of jobs.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::copy_queue::{CopyQueue, PIECE_BYTES};
use crate::extent::Extent;
use crate::job::UnpackJob;
use crate::ticket::Ticket;
use crate::unpack::OnFinished;

/// How a thread is started.
pub(crate) type Spawn = fn(Builder, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

/// A few threads, which begin when there is something to copy for them. Dropping them ends them;
/// what none of them has begun with is not copied then.
pub(crate) struct CopyThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// As many as there may be: fewer than asked for when the system has none left.
    most: usize,
    spawn: Spawn,
}

struct Shared {
    state: Mutex<State>,
    /// There is a piece to copy, or the threads are to end.
    changed: Condvar,
    /// Number of the newest finished ticket.
    finished: AtomicU64,
    on_finished: OnceLock<OnFinished>,
}

struct State {
    queue: CopyQueue,
    /// Threads that wait for a piece.
    idle: usize,
    /// Threads end when nothing is left to copy.
    is_ending: bool,
}

impl CopyThreads {
    /// At most so many threads.
    pub(crate) fn new(most: usize) -> Self {
        Self::with_spawn(most, |builder, work| builder.spawn(work))
    }

    pub(crate) fn with_spawn(most: usize, spawn: Spawn) -> Self {
        let state = State { queue: CopyQueue::new(), idle: 0, is_ending: false };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            finished: AtomicU64::new(Ticket::NONE.number()),
            on_finished: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), threads: Vec::new(), most, spawn }
    }

    /// Has this called by the threads whenever [`finished`](Self::finished) has changed.
    pub(crate) fn on_finished(&self, on_finished: OnFinished) {
        let _ = self.shared.on_finished.set(on_finished);
    }

    /// Starts the threads that jobs of so many bytes are worth. False: there is none.
    pub(crate) fn start_for(&mut self, bytes: u64) -> bool {
        let worth = usize::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(usize::MAX);
        while self.threads.len() < self.most.min(worth) {
            let number = self.threads.len();
            let shared = Arc::clone(&self.shared);
            let builder = Builder::new().name(format!("tcpx-copy-{number}"));
            match (self.spawn)(builder, Box::new(move || shared.work())) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    tracing::warn!(%error, threads = number, "no further thread that unpacks");
                    self.most = number;
                }
            }
        }
        !self.threads.is_empty()
    }

    /// Whether a submit of so many bytes may be copied.
    pub(crate) fn have_room(&self, bytes: u64) -> bool {
        self.shared.state().queue.has_room(bytes)
    }

    /// Has checked jobs copied. At least one thread was started.
    ///
    /// # Safety
    /// Until [`finished`](Self::finished) has reached the ticket or [`end`](Self::end) has
    /// answered true, every job's bounce buffer is readable and its destination writable, nobody
    /// writes the fragments, and nobody uses their destinations.
    pub(crate) unsafe fn copy(&self, ticket: Ticket, jobs: &[UnpackJob<'_>]) {
        let mut state = self.shared.state();
        let pieces = state.queue.add(ticket, jobs);
        self.shared.note_finished(&state);
        let woken = pieces.min(state.idle);
        drop(state);
        (0..woken).for_each(|_| self.shared.changed.notify_one());
    }

    /// The caller has copied a submit.
    pub(crate) fn note_copied(&self, ticket: Ticket) {
        let mut state = self.shared.state();
        state.queue.add_copied(ticket);
        self.shared.note_finished(&state);
    }

    /// The newest finished ticket.
    pub(crate) fn finished(&self) -> Ticket {
        // Whoever is told with `on_finished`, and takes note of that before it asks, sees it.
        Ticket::new(self.shared.finished.load(Ordering::SeqCst))
    }

    /// Asks how many pieces wait for a thread, also when this is being dropped.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> impl Fn() -> usize + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.state().queue.waiting()
    }

    /// Lets the threads end when everything is copied. Whether it is.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.shared.state();
        state.is_ending = true;
        self.shared.changed.notify_all();
        state.queue.is_empty()
    }
}

impl Drop for CopyThreads {
    fn drop(&mut self) {
        self.shared.state().queue.forget_waiting();
        self.end();
        // Each has a piece left, at most.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Nothing panics while the state is inconsistent, so a poisoned one is still whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_finished(&self, state: &State) {
        self.finished.store(state.queue.finished().number(), Ordering::SeqCst);
    }

    /// A thread's life.
    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(piece) = state.queue.take() {
                drop(state);
                for extent in &piece.extents {
                    // SAFETY: `copy`, which queued the piece, was promised that its memory stays
                    // as it has to until the ticket is finished, and that is not before
                    // `copied` below. Nobody else has this piece.
                    unsafe { copy(extent) };
                }
                state = self.state();
                if state.queue.copied(piece) {
                    self.note_finished(&state);
                    drop(state);
                    if let Some(tell) = self.on_finished.get() {
                        tell();
                    }
                    state = self.state();
                }
            } else if state.is_ending {
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// Copies one extent with the CPU.
///
/// # Safety
/// Its source is readable and its destination writable by the CPU, and they don't overlap.
unsafe fn copy(extent: &Extent) {
    let src = ptr::with_exposed_provenance::<u8>(extent.src as usize);
    let dst = ptr::with_exposed_provenance_mut::<u8>(extent.dst as usize);
    // SAFETY: passed on from the caller.
    unsafe { ptr::copy_nonoverlapping(src, dst, extent.bytes as usize) };
}
