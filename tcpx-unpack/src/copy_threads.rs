#![allow(unsafe_code)]
//! Thread pool that copies pieces of jobs.

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

/// Function that starts a thread.
pub(crate) type Spawn = fn(Builder, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

/// Pool of a few threads, which start when there is something to copy. Dropping the pool ends the
/// threads; pieces that no thread has begun are not copied then.
pub(crate) struct CopyThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Largest number of threads. It is smaller than requested when the system has no more threads.
    most: usize,
    spawn: Spawn,
}

struct Shared {
    state: Mutex<PoolState>,
    /// Signalled when there is a piece to copy, or the threads must end.
    changed: Condvar,
    /// Number of the newest finished ticket.
    finished: AtomicU64,
    on_finished: OnceLock<OnFinished>,
}

struct PoolState {
    queue: CopyQueue,
    /// Number of threads that wait for a piece.
    idle: usize,
    /// Whether threads end when nothing is left to copy.
    is_ending: bool,
}

impl CopyThreads {
    /// Creates a pool of at most `most` threads.
    pub(crate) fn new(most: usize) -> Self {
        Self::with_spawn(most, |builder, work| builder.spawn(work))
    }

    pub(crate) fn with_spawn(most: usize, spawn: Spawn) -> Self {
        let state = PoolState { queue: CopyQueue::new(), idle: 0, is_ending: false };
        let shared = Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            finished: AtomicU64::new(Ticket::NONE.number()),
            on_finished: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), threads: Vec::new(), most, spawn }
    }

    /// Sets the function that the threads call whenever [`finished`](Self::finished) has changed.
    pub(crate) fn on_finished(&self, on_finished: OnFinished) {
        let _ = self.shared.on_finished.set(on_finished);
    }

    /// Starts as many threads as jobs of `bytes` bytes are worth. Returns false when there is no
    /// thread.
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

    /// Returns whether a submit of `bytes` bytes may be copied.
    pub(crate) fn have_room(&self, bytes: u64) -> bool {
        self.shared.state().queue.has_room(bytes)
    }

    /// Queues checked jobs for the threads. At least one thread was started.
    ///
    /// # Safety
    /// The caller keeps the memory of every job until [`finished`](Self::finished) has reached the
    /// ticket or [`end`](Self::end) has returned true. Until then, every bounce buffer is readable
    /// and every destination writable, nothing writes the fragments, and nothing uses their
    /// destinations.
    pub(crate) unsafe fn copy(&self, ticket: Ticket, jobs: &[UnpackJob<'_>]) {
        let mut state = self.shared.state();
        let pieces = state.queue.add(ticket, jobs);
        self.shared.note_finished(&state);
        let woken = pieces.min(state.idle);
        drop(state);
        (0..woken).for_each(|_| self.shared.changed.notify_one());
    }

    /// Records a submit that the caller has copied.
    pub(crate) fn note_copied(&self, ticket: Ticket) {
        let mut state = self.shared.state();
        state.queue.add_copied(ticket);
        self.shared.note_finished(&state);
    }

    /// Returns the newest finished ticket.
    pub(crate) fn finished(&self) -> Ticket {
        // A caller that records the call of `on_finished` before it asks sees the new ticket.
        Ticket::new(self.shared.finished.load(Ordering::SeqCst))
    }

    /// Returns a function that counts the pieces that wait for a thread, also while this is being
    /// dropped.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> impl Fn() -> usize + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.state().queue.waiting()
    }

    /// Lets the threads end when everything is copied. Returns whether everything is copied.
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
        // Each thread has at most one piece left.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Locks the state. Nothing panics while the state is inconsistent, so a poisoned state is
    /// still whole.
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_finished(&self, state: &PoolState) {
        self.finished.store(state.queue.finished().number(), Ordering::SeqCst);
    }

    /// Runs a thread.
    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(piece) = state.queue.take() {
                drop(state);
                for extent in &piece.extents {
                    // SAFETY: `copy`, which queued the piece, requires that its memory stays valid
                    // until the ticket is finished. The ticket is not finished before `copied`
                    // below. No other thread has this piece.
                    unsafe { copy(extent) };
                }
                state = self.state();
                if state.queue.copied(piece) {
                    self.note_finished(&state);
                    drop(state);
                    if let Some(on_finished) = self.on_finished.get() {
                        on_finished();
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
/// The source is readable and the destination writable by the CPU, and they don't overlap.
unsafe fn copy(extent: &Extent) {
    let src = ptr::with_exposed_provenance::<u8>(extent.src as usize);
    let dst = ptr::with_exposed_provenance_mut::<u8>(extent.dst as usize);
    // SAFETY: passed on from the caller.
    unsafe { ptr::copy_nonoverlapping(src, dst, extent.bytes as usize) };
}
