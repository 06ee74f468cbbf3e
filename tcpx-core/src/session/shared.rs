//! Engine of one device behind its lock, with the state that waiting threads share.
//!
//! One thread *leads*: it makes the rounds, and waits for events of the system between them. Other
//! threads that wait are notified when what they wait for may have happened, and one of them leads
//! next. A thread that gives the session work wakes the leader.
//!
//! No thread sleeps through an event that concerns it:
//! - *Work for the leader.* The leader takes the work mark away, and then locks the engine for its
//!   round. A thread that gives work sets the mark with the engine locked. So a mark that is gone
//!   when the leader is about to wait was set for work that the leader's round has seen. A mark
//!   that is set ends the wait (`Poller::wake`): the descriptor stays readable until the leader has
//!   read it, so no other thread that polls can take the wake-up. A copying thread (`tcpx_unpack`)
//!   counts before it sets the mark; the round reads this count after it has taken the mark away.
//! - *Posts that were handed in* without the engine. They lie in the inbox before the mark is set,
//!   and the thread that locks the engine next posts them.
//! - *Events on a descriptor.* The system keeps an event until it is asked. Events that were read
//!   stay in `LeaderState::events`, which passes on with the lead, until a round takes them.
//! - *Results of a round, for other threads.* These threads listen before they check, with the
//!   engine locked. So they see the results of earlier rounds, and later rounds notify them.
//! - *The lead.* A thread that does not get the lead listened before it tried. A thread that
//!   releases the lead notifies afterwards, with a fence at both: either the lead was free, or the
//!   other thread is notified.
//! - *While the progress thread stands back* possibly no thread leads: a thread that asks for
//!   progress makes the rounds, and a thread that waits leads. The progress thread checks
//!   periodically whether the program still asks.
//! - *A time* that a call outside a round has brought forward counts as work: the thread that
//!   releases the engine compares the earliest due time with the time at which the leader wakes up
//!   by itself.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::Duration;

use tcpx_protocol::types::Direction;
use tcpx_sys::{CpuSet, ForkGuard, is_forked};

use super::leader::LeaderState;
use super::progress_thread::ProgressThread;
use super::wait::{QueryRate, Waiters};
use crate::completions::notification_queue::NotificationQueue;
use crate::completions::signals::EventCount;
use crate::engine::Engine;
use crate::engine::inbox::{Inbox, PostTarget};
use crate::engine::meeting::device_context::DeviceContext;
use crate::error::{Error, Result};
use crate::peer::resources::Resources;
use crate::reactor::poller::Poller;
use crate::settings::SessionOptions;
use crate::transfer::Post;

/// Longest time for which a call that makes progress goes on for a copy between the link and a GPU.
const COPY_SPIN: Duration = Duration::from_micros(20);

/// Engine, and what waiting threads need to know.
#[derive(Debug)]
pub(crate) struct SharedEngine {
    engine: parking_lot::Mutex<Engine>,
    /// Posts of threads that did not wait for the engine.
    inbox: Arc<Inbox>,
    pub(super) poller: Arc<Poller>,
    pub(super) notifications: Arc<NotificationQueue>,
    thread: ProgressThread,
    /// State of the leader; locked by the thread that leads.
    lead: Mutex<LeaderState>,
    pub(super) query_rate: QueryRate,
    pub(super) waiters: Waiters,
    /// Whether copies between the link and a GPU are under way.
    pub(super) copies_on_link: AtomicBool,
    /// Longest time for which a call goes on for such copies, in µs.
    pub(super) copy_spin_us: AtomicU32,
    /// Whether the progress thread leads.
    pub(super) thread_leads: AtomicBool,
    /// Time for which the progress thread stands back, where a test sets it.
    #[cfg(test)]
    pub(super) stand_back: std::sync::OnceLock<Duration>,
    /// Signal for threads that wait for a transfer: one has become complete.
    pub(super) completed: EventCount,
    /// Signal for threads that wait for anything else: something about peers has changed.
    pub(super) changed: EventCount,
}

/// Locked engine. Releasing it notifies waiting threads of what was done.
#[derive(Debug)]
pub(crate) struct EngineGuard<'a> {
    pub(super) shared: &'a SharedEngine,
    pub(super) engine: parking_lot::MutexGuard<'a, Engine>,
}

/// Right to lead. Releasing it lets another thread lead.
#[derive(Debug)]
pub(super) struct LeadGuard<'a> {
    shared: &'a SharedEngine,
    pub(super) lead: Option<MutexGuard<'a, LeaderState>>,
}

impl SharedEngine {
    /// Makes the engine of a device, and its progress thread if the options say so.
    pub(super) fn open(options: SessionOptions, context: DeviceContext) -> Result<Arc<Self>> {
        // Before any lock: a child forked from now on may find it held.
        let guard = ForkGuard::begin()?;
        guard.claim().map_err(|error| Error::io("registering a fork handler", &error))?;
        let (spin, has_thread) = (options.spin, options.progress_thread);
        let engine = Engine::new(options, context)?;
        let cpus = engine.resources.session.memory.near_cpus(Path::new("/"));
        let shared = Self::new(engine, spin);
        if has_thread {
            shared.start_thread(cpus)?;
        }
        Ok(shared)
    }

    fn new(engine: Engine, spin: Duration) -> Arc<Self> {
        Arc::new_cyclic(|shared: &Weak<Self>| {
            let shared = Weak::clone(shared);
            engine.resources.workers.on_moved(move |peer| {
                if let Some(shared) = shared.upgrade() {
                    shared.handle_worker_progress(peer);
                }
            });
            Self {
                poller: Arc::clone(&engine.resources.session.poller),
                notifications: Arc::clone(&engine.resources.ledger.notifications),
                thread: ProgressThread::default(),
                inbox: Arc::clone(engine.inbox()),
                engine: parking_lot::Mutex::new(engine),
                lead: Mutex::new(LeaderState::new(spin)),
                query_rate: QueryRate::default(),
                copies_on_link: AtomicBool::new(false),
                copy_spin_us: AtomicU32::new(spin.min(COPY_SPIN).as_micros() as u32),
                waiters: Waiters::default(),
                thread_leads: AtomicBool::new(false),
                #[cfg(test)]
                stand_back: std::sync::OnceLock::new(),
                completed: EventCount::default(),
                changed: EventCount::default(),
            }
        })
    }

    fn start_thread(self: &Arc<Self>, cpus: Option<CpuSet>) -> Result<()> {
        let driven = Arc::clone(self);
        self.thread.start(cpus, move |stopped| {
            // The loop ends when it is stopped, or in a forked child.
            let _ = driven.run_progress_thread(stopped);
        })
    }

    /// Stops the progress thread and waits for its end, which takes at most a round. More than one
    /// call does no harm.
    pub(super) fn stop_thread(&self) {
        self.thread.stop(|| self.wake());
    }

    /// Locks the engine. A panic while it was locked cannot have come from a caller's code, which
    /// never runs inside.
    ///
    /// Fails in a forked child: another thread of the parent may have held the lock.
    pub(crate) fn engine(&self) -> Result<EngineGuard<'_>> {
        Ok(EngineGuard { shared: self, engine: self.lock()? })
    }

    /// Locks the engine and posts what was handed in.
    pub(super) fn lock(&self) -> Result<parking_lot::MutexGuard<'_, Engine>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        let mut engine = self.engine.lock();
        engine.post_handed_in();
        Ok(engine)
    }

    /// Returns the engine, unless another thread has it.
    pub(super) fn try_engine(&self) -> Result<Option<EngineGuard<'_>>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.engine.try_lock().map(|mut engine| {
            engine.post_handed_in();
            EngineGuard { shared: self, engine }
        }))
    }

    /// Hands posts in for the thread that locks the engine next. Returns whether they were taken.
    pub(super) fn try_enqueue(
        &self,
        target: PostTarget<'_>,
        direction: Direction,
        posts: &[Post],
    ) -> bool {
        let is_taken = self.inbox.hand_in(target, direction, posts);
        if is_taken {
            self.poller.wake();
        }
        is_taken
    }

    /// Returns the session's set of descriptors.
    pub(super) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Keeps the engine for as long as the process lives. In a forked child its sockets, GPU memory
    /// and plugin are the parent's, so none of them may ever be closed or freed.
    pub(super) fn leak(self: &Arc<Self>) {
        std::mem::forget(Arc::clone(self));
    }

    /// Wakes all waiting threads, to check again.
    pub(super) fn wake(&self) {
        self.poller.wake();
        self.changed.notify();
    }

    /// Returns whether some thread leads.
    #[cfg(test)]
    pub(super) fn is_led(&self) -> bool {
        self.try_lead().is_none()
    }

    pub(super) fn try_lead(&self) -> Option<LeadGuard<'_>> {
        let lead = match self.lead.try_lock() {
            Ok(lead) => lead,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(LeadGuard { shared: self, lead: Some(lead) })
    }

    /// Ends the rest of the progress thread, if there is one.
    pub(super) fn unpark_thread(&self) {
        self.thread.unpark();
    }
}

impl Deref for EngineGuard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for EngineGuard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for EngineGuard<'_> {
    fn drop(&mut self) {
        let Resources { ledger, batch, .. } = &self.engine.resources;
        let copies = ledger.link_buffers.are_taken() && (batch.is_unpacking() || batch.has_more());
        self.shared.copies_on_link.store(copies, Ordering::Relaxed);
        if self.engine.wants_round() {
            self.shared.poller.wake();
        }
        if self.engine.take_completed() {
            self.shared.completed.notify();
        }
        if self.engine.poll_peers() {
            self.shared.changed.notify();
        }
    }
}

impl Drop for LeadGuard<'_> {
    fn drop(&mut self) {
        drop(self.lead.take());
        fence(Ordering::SeqCst);
        self.shared.completed.notify();
        self.shared.changed.notify();
    }
}
