//! Threads for what may wait: calls of the plugin that join threads or ask another process, and
//! freeing a GPU's memory, which waits until the GPU is idle.
//!
//! None of it has a limit of time, and an application's kernel may be waiting for bytes that this
//! session is to bring. So nothing of it runs under the session's lock, or on a thread that makes
//! progress: it is handed over here as a *job*, and a [`Ticket`] says when it is over. A job may
//! take many steps, with pauses in between.
//!
//! When a job has come to something, its thread makes a round of progress: a peer may wait for word
//! of it, and the program need not have a reason to call. A job says which peer that is, if it
//! knows one ([`Workers::for_peer`]): of a thousand that wait, only that one is driven.
//!
//! - `queue`: which job is next, and whether another thread is needed. Pure.
//! - `ticket`: what whoever handed something over knows of it.
//!
//! What whoever handed something over knows of it.
//!
//! Threads begin when there is something to do, and one more begins when those that are there seem
//! to be held up. A comm is closed here, and not before a registration on it has been made.

mod queue;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::queue::{HELD_UP_AFTER, Next, Queue};
use crate::types::PeerKey;

/// How long a thread stays that has nothing to do.
const IDLE_TIME: Duration = Duration::from_secs(2);
/// How often something is looked at that may not be dropped yet.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// What a step of a job has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The job is over.
    Done,
    /// Something has come of it, and it goes on.
    Moved,
    /// Nothing can be done for this long.
    Later(Duration),
    /// The job is given up: nothing more is done, and its ticket never ends.
    GivenUp,
}

/// Something to do, step by step.
struct Job {
    step: Box<dyn FnMut() -> Step + Send>,
    /// The one peer that waits for it; `None`: any may.
    peer: Option<PeerKey>,
}

/// What a thread does when a job has come to something, for this peer or for any.
type OnMoved = Box<dyn Fn(Option<PeerKey>) + Send + Sync>;

/// The threads of a session. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Workers {
    inner: Arc<Inner>,
    /// Whom the jobs concern that are handed over through this clone.
    peer: Option<PeerKey>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// There is a job, a thread has ended, or all are to end.
    changed: Condvar,
    on_moved: OnceLock<OnMoved>,
    /// Nothing more is dropped: it might wait for a GPU that hangs.
    is_abandoned: AtomicBool,
    /// Jobs that are not over.
    jobs: AtomicUsize,
}

#[derive(Default)]
struct State {
    queue: Queue<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Threads end when there is nothing left to do.
    is_ending: bool,
    /// The log says once that the system has no thread left.
    has_told: bool,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("queue", &self.inner.state().queue).finish_non_exhaustive()
    }
}

impl Workers {
    /// The same threads, for jobs that only this peer waits for.
    pub(crate) fn for_peer(&self, peer: PeerKey) -> Self {
        Self { inner: Arc::clone(&self.inner), peer: Some(peer) }
    }

    /// Has this called, by the thread, each time when a job has come to something. Set it once.
    pub(crate) fn on_moved(&self, on_moved: impl Fn(Option<PeerKey>) + Send + Sync + 'static) {
        let _ = self.inner.on_moved.set(Box::new(on_moved));
    }

    /// Has a job done, step by step.
    pub(crate) fn run(&self, mut job: impl FnMut() -> Step + Send + 'static) -> Ticket {
        let ticket = Ticket::default();
        let over = ticket.clone();
        self.inner.jobs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.inner.state();
        state.is_ending = false;
        let step = Box::new(move || {
            let step = job();
            if step == Step::Done {
                over.end();
            }
            step
        });
        state.queue.push(Job { step, peer: self.peer });
        Inner::see_to_threads(&self.inner, state);
        self.inner.changed.notify_all();
        ticket
    }

    /// Has a call made, and keeps what it returns.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        let value = Arc::new(Mutex::new(None));
        let (into, mut call) = (Arc::clone(&value), Some(call));
        let ticket = self.run(move || {
            let returned = call.take().map(|call| call());
            *into.lock().unwrap_or_else(PoisonError::into_inner) = returned;
            Step::Done
        });
        Task::new(ticket, value)
    }

    /// Waits until something is over, for at most this time. Returns whether it is. Hold no lock
    /// meanwhile.
    pub(crate) fn wait(&self, ticket: &Ticket, timeout: Duration) -> bool {
        let began = Instant::now();
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            ticket.wait(left.min(HELD_UP_AFTER));
            if ticket.is_done() || left.is_zero() {
                return ticket.is_done();
            }
            self.tend();
        }
    }

    /// Has something dropped.
    pub(crate) fn close(&self, what: impl Send + 'static) -> Ticket {
        self.close_when(what, |_| true)
    }

    /// Has something dropped as soon as it may be.
    pub(crate) fn close_when<T: Send + 'static>(
        &self,
        what: T,
        may_close: impl Fn(&T) -> bool + Send + 'static,
    ) -> Ticket {
        let inner = Arc::downgrade(&self.inner);
        let mut what = Some(what);
        self.run(move || {
            if inner.upgrade().is_some_and(|inner| inner.is_abandoned.load(Ordering::Acquire)) {
                std::mem::forget(what.take());
                return Step::GivenUp;
            }
            if what.as_ref().is_some_and(|what| !may_close(what)) {
                return Step::Later(CLOSE_PAUSE);
            }
            drop(what.take());
            Step::Done
        })
    }

    /// Whether anything that was handed over is not over.
    pub(crate) fn have_jobs(&self) -> bool {
        self.inner.jobs.load(Ordering::Relaxed) > 0
    }

    /// Starts another thread if those that there are seem to be held up.
    pub(crate) fn tend(&self) {
        if self.have_jobs() {
            Inner::see_to_threads(&self.inner, self.inner.state());
        }
    }

    /// A GPU hangs: what has not been dropped stays for as long as the process lives, and its
    /// tickets never end.
    pub(crate) fn abandon(&self) {
        self.inner.is_abandoned.store(true, Ordering::Release);
    }

    /// Waits until everything is done and the threads have ended, for at most this time. False:
    /// they go on alone.
    pub(crate) fn finish(&self, timeout: Duration) -> bool {
        let give_up_at = Instant::now().checked_add(timeout);
        let mut state = self.inner.state();
        state.is_ending = true;
        self.inner.changed.notify_all();
        // The last one to hold the session may be one of the threads.
        let me = thread::current().id();
        let own = usize::from(state.threads.iter().any(|thread| thread.thread().id() == me));
        while state.queue.threads() > own {
            let left = give_up_at.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            // Threads that wait are looked at again: one of them may hold others up.
            state = self.inner.wait(state, left.unwrap_or(IDLE_TIME).min(IDLE_TIME));
        }
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        // All that they still do is to end.
        threads.into_iter().filter(|thread| thread.thread().id() != me).for_each(|thread| {
            let _ = thread.join();
        });
        own == 0
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let woken = self.changed.wait_timeout(state, time);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Starts a thread if one is needed. Where the system has none left, and there is none at all,
    /// the caller's does a step.
    fn see_to_threads(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let now = Instant::now();
        if !state.queue.wants_thread(now) {
            return;
        }
        let inner = Arc::clone(self);
        let spawned = thread::Builder::new().name("tcpx-worker".into()).spawn(move || inner.work());
        match spawned {
            Ok(thread) => {
                state.threads.retain(|thread| !thread.is_finished());
                state.threads.push(thread);
                state.queue.thread_begins();
            }
            Err(error) => {
                if !std::mem::replace(&mut state.has_told, true) {
                    tracing::warn!(%error, "no thread for calls that may wait: they are made in between");
                }
                if state.queue.threads() == 0
                    && let Next::Run(mut job, run) = state.queue.next(now)
                {
                    drop(state);
                    let step = (job.step)();
                    drop(self.put_back(job, run, step));
                }
            }
        }
    }

    /// A thread's life.
    fn work(self: Arc<Self>) {
        let mut state = self.state();
        let mut idle_since = None;
        loop {
            let now = Instant::now();
            match state.queue.next(now) {
                Next::Run(mut job, run) => {
                    drop(state);
                    idle_since = None;
                    let (step, peer) = ((job.step)(), job.peer);
                    let over = self.put_back(job, run, step);
                    if matches!(step, Step::Done | Step::Moved)
                        && let Some(on_moved) = self.on_moved.get()
                    {
                        on_moved(peer);
                    }
                    drop(over);
                    state = self.state();
                }
                Next::Wait(time) => {
                    let since = *idle_since.get_or_insert(now);
                    let is_idle = now.saturating_duration_since(since) >= IDLE_TIME;
                    if time.is_none() && (state.is_ending || is_idle) {
                        state.queue.thread_ends();
                        break;
                    }
                    state.queue.thread_rests();
                    state = self.wait(state, time.unwrap_or(IDLE_TIME).min(IDLE_TIME));
                    state.queue.thread_wakes();
                }
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Notes what a step has come to. Returns the job if it is over, to be dropped without the
    /// lock.
    fn put_back(&self, job: Job, run: queue::RunKey, step: Step) -> Option<Job> {
        let mut state = self.state();
        state.queue.ran(run);
        match step {
            Step::Done | Step::GivenUp => {
                self.jobs.fetch_sub(1, Ordering::Relaxed);
                return Some(job);
            }
            Step::Moved => state.queue.push(job),
            Step::Later(time) => state.queue.push_later(job, Instant::now() + time),
        }
        None
    }
}

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
