//! Worker threads for calls that may block: calls of the plugin that join threads or ask another
//! process, and freeing a GPU's memory, which waits until the GPU is idle.
//!
//! Such calls have no time limit, and an application's kernel may be waiting for bytes that this
//! session must bring. So they never run under the session's lock, or on a thread that makes
//! progress. The session hands them over here as a *job*, and a [`Ticket`] reports the end of the
//! job. A job may take many steps, with pauses in between.
//!
//! When a job has made progress, its thread makes a round of progress too. A peer may wait for the
//! result, and the program need not have a reason to call. A job names its peer if it has one
//! ([`Workers::for_peer`]): of a thousand waiting peers, only that one is driven.
//!
//! - `queue`: choice of the next job, and of whether another thread is needed. Pure.
//! - `ticket`: the caller's handle for a job.
//!
//! Threads begin when there is a job. One more begins when the present ones seem to be held up. A
//! comm is closed here, and not before a registration on it has been made.

mod queue;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::queue::{BLOCKED_AFTER, NextAction, Queue};
use crate::types::{ObservedTime, PeerKey};

/// Time after which an idle thread ends.
const IDLE_TIME: Duration = Duration::from_secs(2);
/// Interval between two checks of whether a value may be dropped.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);

/// Outcome of a step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobStep {
    /// The job is over.
    Done,
    /// The job has made progress, and goes on.
    Moved,
    /// The job cannot do anything for this long.
    Later(Duration),
    /// The job is given up: nothing more is done, and its ticket never ends.
    GivenUp,
}

/// Job, step by step.
struct Job {
    step: Box<dyn FnMut() -> JobStep + Send>,
    /// The only peer that waits for the job; `None`: any peer may.
    peer: Option<PeerKey>,
}

/// Callback of a thread after progress of a job, for this peer or for any.
type OnMoved = Box<dyn Fn(Option<PeerKey>) + Send + Sync>;

/// Threads of a session. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Workers {
    inner: Arc<WorkerPool>,
    /// Peer that the jobs of this clone concern.
    peer: Option<PeerKey>,
}

#[derive(Default)]
struct WorkerPool {
    state: Mutex<PoolState>,
    /// Condition that there is a job, that a thread has ended, or that all threads must end.
    changed: Condvar,
    on_moved: OnceLock<OnMoved>,
    /// Whether nothing more is dropped, because a drop might wait for a GPU that hangs.
    is_abandoned: AtomicBool,
    /// Number of jobs that are not over.
    jobs: AtomicUsize,
}

#[derive(Default)]
struct PoolState {
    queue: Queue<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Whether threads end when there is nothing left to do.
    is_ending: bool,
    /// Whether the log has said that the system has no thread left. It says so once.
    has_warned: bool,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("queue", &self.inner.state().queue).finish_non_exhaustive()
    }
}

impl Workers {
    /// Returns a handle of the same threads, for jobs that only this peer waits for.
    pub(crate) fn for_peer(&self, peer: PeerKey) -> Self {
        Self { inner: Arc::clone(&self.inner), peer: Some(peer) }
    }

    /// Sets the callback that a thread makes each time that a job has made progress. Call this
    /// once.
    pub(crate) fn on_moved(&self, on_moved: impl Fn(Option<PeerKey>) + Send + Sync + 'static) {
        let _ = self.inner.on_moved.set(Box::new(on_moved));
    }

    /// Runs a job on a thread, step by step.
    pub(crate) fn run(&self, mut job: impl FnMut() -> JobStep + Send + 'static) -> Ticket {
        let ticket = Ticket::default();
        let over = ticket.clone();
        self.inner.jobs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.inner.state();
        state.is_ending = false;
        let step = Box::new(move || {
            let step = job();
            if step == JobStep::Done {
                over.end();
            }
            step
        });
        state.queue.push(Job { step, peer: self.peer });
        WorkerPool::spawn_if_needed(&self.inner, state);
        self.inner.changed.notify_all();
        ticket
    }

    /// Makes a call on a thread, and keeps its return value.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        let value = Arc::new(Mutex::new(None));
        let (into, mut call) = (Arc::clone(&value), Some(call));
        let ticket = self.run(move || {
            let returned = call.take().map(|call| call());
            *into.lock().unwrap_or_else(PoisonError::into_inner) = returned;
            JobStep::Done
        });
        Task::new(ticket, value)
    }

    /// Waits until a job is over, for at most this [time](ObservedTime). Returns whether it is
    /// over. Hold no lock meanwhile.
    pub(crate) fn wait(&self, ticket: &Ticket, timeout: Duration) -> bool {
        let mut waited = ObservedTime::since(Instant::now());
        loop {
            let left = timeout.saturating_sub(waited.look(Instant::now()));
            ticket.wait(left.min(BLOCKED_AFTER));
            if ticket.is_done() || left.is_zero() {
                return ticket.is_done();
            }
            self.spawn_if_blocked();
        }
    }

    /// Drops a value on a thread.
    pub(crate) fn close(&self, what: impl Send + 'static) -> Ticket {
        self.close_when(what, |_| true)
    }

    /// Drops a value on a thread, as soon as it may be dropped.
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
                return JobStep::GivenUp;
            }
            if what.as_ref().is_some_and(|what| !may_close(what)) {
                return JobStep::Later(CLOSE_PAUSE);
            }
            drop(what.take());
            JobStep::Done
        })
    }

    /// Returns whether any job is not over.
    pub(crate) fn have_jobs(&self) -> bool {
        self.inner.jobs.load(Ordering::Relaxed) > 0
    }

    /// Starts another thread if the present ones seem to be held up.
    pub(crate) fn spawn_if_blocked(&self) {
        if self.have_jobs() {
            WorkerPool::spawn_if_needed(&self.inner, self.inner.state());
        }
    }

    /// Abandons all jobs, because a GPU hangs. Values that were not dropped stay for as long as the
    /// process lives, and their tickets never end.
    pub(crate) fn abandon(&self) {
        self.inner.is_abandoned.store(true, Ordering::Release);
    }

    /// Waits until all jobs are done and the threads have ended, for at most this time. Returns
    /// false if the threads go on alone.
    pub(crate) fn finish(&self, timeout: Duration) -> bool {
        let give_up_at = Instant::now().checked_add(timeout);
        let mut state = self.inner.state();
        state.is_ending = true;
        self.inner.changed.notify_all();
        // The last holder of the session may be one of the threads.
        let me = thread::current().id();
        let own = usize::from(state.threads.iter().any(|thread| thread.thread().id() == me));
        while state.queue.threads() > own {
            let left = give_up_at.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            // The wait is bounded to check the threads again: one of them may hold others up.
            state = self.inner.wait(state, left.unwrap_or(IDLE_TIME).min(IDLE_TIME));
        }
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        // These threads have nothing left to do but to end.
        threads.into_iter().filter(|thread| thread.thread().id() != me).for_each(|thread| {
            let _ = thread.join();
        });
        own == 0
    }
}

impl WorkerPool {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, PoolState>,
        time: Duration,
    ) -> MutexGuard<'a, PoolState> {
        let woken = self.changed.wait_timeout(state, time);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Starts a thread if one is needed. If the system has none left, and the session has no thread
    /// at all, the caller's thread does a step.
    fn spawn_if_needed(self: &Arc<Self>, mut state: MutexGuard<'_, PoolState>) {
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
                state.queue.thread_started();
            }
            Err(error) => {
                if !std::mem::replace(&mut state.has_warned, true) {
                    tracing::warn!(%error, "no thread for calls that may wait: they are made in between");
                }
                if state.queue.threads() == 0
                    && let NextAction::Run(mut job, run) = state.queue.next(now)
                {
                    drop(state);
                    let step = (job.step)();
                    drop(self.requeue(job, run, step));
                }
            }
        }
    }

    /// Runs a thread until its end.
    fn work(self: Arc<Self>) {
        let mut state = self.state();
        let mut idle_since = None;
        loop {
            let now = Instant::now();
            match state.queue.next(now) {
                NextAction::Run(mut job, run) => {
                    drop(state);
                    idle_since = None;
                    let (step, peer) = ((job.step)(), job.peer);
                    let over = self.requeue(job, run, step);
                    if matches!(step, JobStep::Done | JobStep::Moved)
                        && let Some(on_moved) = self.on_moved.get()
                    {
                        on_moved(peer);
                    }
                    drop(over);
                    state = self.state();
                }
                NextAction::Wait(time) => {
                    let since = *idle_since.get_or_insert(now);
                    let is_idle = now.saturating_duration_since(since) >= IDLE_TIME;
                    if time.is_none() && (state.is_ending || is_idle) {
                        state.queue.thread_ended();
                        break;
                    }
                    state.queue.thread_waits();
                    state = self.wait(state, time.unwrap_or(IDLE_TIME).min(IDLE_TIME));
                    state.queue.thread_woke();
                }
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Notes the outcome of a step. Returns the job if it is over, to be dropped without the lock.
    fn requeue(&self, job: Job, run: queue::RunKey, step: JobStep) -> Option<Job> {
        let mut state = self.state();
        state.queue.step_ended(run);
        match step {
            JobStep::Done | JobStep::GivenUp => {
                self.jobs.fetch_sub(1, Ordering::Relaxed);
                return Some(job);
            }
            JobStep::Moved => state.queue.push(job),
            JobStep::Later(time) => state.queue.push_later(job, Instant::now() + time),
        }
        None
    }
}

/// Ticket that reports the end of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticket(Arc<TicketState>);

#[derive(Debug, Default)]
struct TicketState {
    is_done: AtomicBool,
    waiting: Mutex<()>,
    ended: Condvar,
}

impl Ticket {
    /// Returns whether the job is over, and touches nothing any more.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_done.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.0.is_done.store(true, Ordering::Release);
        // A thread that has just checked is waiting by now, or will check again.
        drop(self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.ended.notify_all();
    }

    /// Waits until the job is over, for at most this time.
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

/// Call that was handed over, and its return value. Dropping the task drops the value, on the
/// thread that made it if the call has not returned yet.
#[derive(Debug)]
pub(crate) struct Task<T> {
    ticket: Ticket,
    value: Arc<Mutex<Option<T>>>,
}

impl<T> Task<T> {
    pub(super) fn new(ticket: Ticket, value: Arc<Mutex<Option<T>>>) -> Self {
        Self { ticket, value }
    }

    /// Returns whether the call has returned.
    pub(crate) fn is_done(&self) -> bool {
        self.ticket.is_done()
    }

    /// Returns the value of the call, once.
    pub(crate) fn take(&self) -> Option<T> {
        if !self.is_done() {
            return None;
        }
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
