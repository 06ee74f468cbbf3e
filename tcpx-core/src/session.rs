//! The session: what a program holds, and the thread that makes progress whatever the program does.

mod connecting;
mod exporting;
mod lead;
mod notifying;
pub(crate) mod operation;
mod registering;
mod shared;
#[cfg(all(test, feature = "soft"))]
mod tests;
pub(crate) mod transfer;
mod wait;
mod waiting;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tcpx_protocol::types::memory::Device;
use tcpx_sys::{Stay, is_forked};

use self::shared::{EngineGuard, Shared};
use self::transfer::Transfer;
use self::wait::{EventSet, WaitLimit};
use crate::completions::TransferCompletion;
use crate::completions::notification_queue::NotificationQueue;
use crate::completions::peer_queue::PeerQueue;
use crate::completions::queue::CompletionQueue;
use crate::engine::meeting::membership::Membership;
use crate::engine::{Engine, UNPACK_TIMEOUT};
use crate::error::{Error, Result};
use crate::plugin::Nic;
use crate::settings::SessionOptions;
use crate::stats::metrics::metrics_text;
use crate::stats::report::SessionReport;

#[cfg(doc)]
use crate::error::Phase;

/// How long copies and comms of peers that have ended may take to let go of memory, and calls of
/// the plugin to take it back.
const LET_GO_TIMEOUT: Duration = UNPACK_TIMEOUT.saturating_mul(2);

/// One GPU (or host memory), its NICs, its peers and its registrations.
///
/// `Send + Sync`: any thread may call anything; calls are serialised inside. Progress is made
/// inside the calls of this library, or by a thread of the session
/// ([`SessionOptions::progress_thread`]).
///
/// Dropping it does what [`close`](Self::close) does; only the error goes to the log. So close it
/// first if memory was registered that is to be freed afterwards: a drop cannot say whether a GPU
/// that hangs, or a plugin that does not return, still writes it.
///
/// In a forked child every call answers [`Error::Forked`] or nothing, and dropping it does nothing;
/// see [Fork](crate#fork).
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    options: SessionOptions,
    thread: Option<ProgressThread>,
    completions: Arc<CompletionQueue>,
    event_set: EventSet,
    notifications: Arc<NotificationQueue>,
    peers: Arc<PeerQueue>,
    /// [`LET_GO_TIMEOUT`] but for tests.
    let_go_timeout: Duration,
}

impl Session {
    /// Opens the plugin (once per process) and the unpack backend.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Load`], [`Error::Plugin`], [`Error::UnusablePlugin`],
    /// [`Error::NoNic`], [`Error::Unpack`], [`Error::MemoryUnavailable`]; [`Error::Forked`] in a
    /// child forked from a process that had made a session; [`Error::Io`].
    pub fn new(options: SessionOptions) -> Result<Self> {
        Self::with_membership(options, None)
    }

    /// A session of a group, or of none.
    pub(crate) fn with_membership(
        options: SessionOptions,
        membership: Option<Membership>,
    ) -> Result<Self> {
        // Before any lock: a child forked from now on may find it held.
        let stay = Stay::begin()?;
        stay.claim().map_err(|error| Error::io("registering a fork handler", &error))?;
        let engine = Engine::new(options.clone(), membership)?;
        let completions = Arc::clone(engine.commons.ledger.transfers.completions());
        let notifications = Arc::clone(&engine.commons.ledger.notifications);
        let peers = Arc::clone(engine.peer_events());
        let shared = Shared::new(engine, options.spin);
        let thread = options.progress_thread.then(|| ProgressThread::start(&shared)).transpose()?;
        let event_set = EventSet::default();
        let let_go_timeout = LET_GO_TIMEOUT;
        Ok(Self {
            shared,
            options,
            thread,
            completions,
            event_set,
            notifications,
            peers,
            let_go_timeout,
        })
    }

    /// A transfer with a peer: a set of sends and receives that are waited for together.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::PeerState`] or the peer's own error when it is not up.
    pub fn create_transfer(&self, peer: &str) -> Result<Transfer> {
        let transfer = self.shared.engine()?.create_transfer(peer)?;
        let (shared, completions) = (Arc::clone(&self.shared), Arc::clone(&self.completions));
        Ok(Transfer::new(shared, transfer, completions))
    }

    /// Takes out of the queue at most `most` transfers of which rounds have ended, those first that
    /// ended first, and appends them to `completions`. Returns how many. Transfers are in the queue
    /// that [report](Transfer::report_completions) there. Makes no progress, and waits for nobody.
    ///
    /// The session's [descriptor](Self::event_fd) is not readable afterwards, unless the queue has
    /// more entries.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_completions(
        &self,
        completions: &mut Vec<TransferCompletion>,
        most: usize,
    ) -> Result<usize> {
        if is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.completions.take(completions, most))
    }

    /// A descriptor for an event loop of the program: readable when a round of a transfer has
    /// ended, whether or not the transfer reports it, or an attempt that
    /// [`start_connect`](Self::start_connect) and its like began, when a notification has come, and
    /// when a peer that is [reported](Self::report_peers) has come up or ended. It is readable at
    /// first. In a session without a progress thread it is also readable when a round of progress
    /// is due: because something has happened on a connection, because something was posted, or
    /// because a time has come.
    ///
    /// When it is readable, call [`progress`](Self::progress) first, if the session has no progress
    /// thread, then [`poll_completions`](Self::poll_completions) or
    /// [`poll_events`](Self::poll_events), and look at transfers, peers and notifications after
    /// that. Only these make it unreadable: whatever happens later makes it readable
    /// again. It belongs to the session: it is not read from, and not closed.
    ///
    /// # Errors
    /// [`Error::Io`] when the process has no descriptors left; [`Error::Forked`].
    pub fn event_fd(&self) -> Result<BorrowedFd<'_>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        let completed = self.completions.event().open()?;
        match self.thread {
            Some(_) => Ok(completed),
            None => self.event_set.open(completed, self.shared.poller()),
        }
    }

    /// Ends the session. It says goodbye to every peer, as [`disconnect`](Self::disconnect) does,
    /// for at most [`SessionOptions::close_timeout`]; then it closes everything. Other calls answer
    /// [`Error::Closed`] from then on, and operations that are left end with it. Closing a closed
    /// session does no harm. When it returns `Ok`, nothing touches registered memory any more.
    ///
    /// # Errors
    /// [`Error::Deadline`] names the peers that did not answer; everything is closed all the same.
    /// In phase [`Phase::Unpack`] it says that something of a peer that ended still uses registered
    /// memory: chunks are being unpacked or gathered, or comms being closed. That memory must stay.
    /// Closing again looks again.
    pub fn close(&self) -> Result<()> {
        let start = Instant::now();
        self.shared.engine()?.start_close();
        let closed = self.shared.wait(
            WaitLimit::for_time(self.options.close_timeout),
            |engine| Ok(if engine.is_quiet() { Poll::Ready(()) } else { Poll::Pending }),
            |engine, waited, now| engine.close_deadline(waited, now),
        );
        self.shared.engine()?.finish_close();
        // What is parked ends, or is given up, within a time of its own.
        let settled = self.shared.wait(
            WaitLimit::for_time(self.let_go_timeout),
            |engine| {
                let is_over = engine.is_settled_or_given_up();
                Ok(if is_over { Poll::Ready(()) } else { Poll::Pending })
            },
            |engine, waited, _| engine.unsettled(waited),
        );
        if let Some(thread) = &self.thread {
            thread.stop();
        }
        settled?;
        let engine = self.shared.engine()?;
        if !engine.is_settled() {
            return Err(engine.unsettled(start.elapsed()));
        }
        // Everything is closed: the workers have only to end.
        let (workers, patience) = (engine.commons.workers.clone(), engine.patience_with_workers());
        drop(engine);
        workers.finish(patience);
        closed
    }

    /// Whether nothing of peers that ended uses registered memory any more. True of a closed
    /// session: nothing touches memory that was registered with it, whether or not every peer
    /// answered.
    pub fn is_settled(&self) -> bool {
        self.shared.engine().is_ok_and(|engine| engine.is_settled())
    }

    /// One round of progress over everything, without waiting. Returns whether anything moved.
    pub fn progress(&self) -> bool {
        self.shared.progress()
    }

    /// The NICs that the plugin offers; none in a forked child.
    pub fn nics(&self) -> Vec<Nic> {
        let nics = |engine: EngineGuard<'_>| engine.commons.session.plugin.nics().to_vec();
        self.shared.engine().map(nics).unwrap_or_default()
    }

    /// The session as it is now; in a forked child an empty report.
    pub fn stats(&self) -> SessionReport {
        let Ok(report) = self.shared.engine().map(|engine| engine.report()) else {
            return SessionReport::default();
        };
        let device = self.options.gpu.map_or(Device::Host, Device::Gpu);
        SessionReport { name: self.options.name.clone(), device: device.to_string(), ..report }
    }

    /// The same as text that Prometheus reads, for a program to offer to it. See
    /// [`metrics_text`](crate::metrics_text), which joins several sessions.
    pub fn metrics_text(&self) -> String {
        metrics_text(&[self.stats()])
    }

    /// The settings it was made with.
    pub fn options(&self) -> &SessionOptions {
        &self.options
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if is_forked() {
            // There is no such thread here, and the C library must not be asked to let go of it.
            std::mem::forget(self.thread.take());
            self.shared.leave();
            return;
        }
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the session did not end cleanly");
        }
    }
}

/// A running progress thread.
#[derive(Debug)]
pub(super) struct ProgressThread {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl ProgressThread {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (driven, stopped) = (Arc::clone(shared), Arc::clone(&stop));
        let handle = std::thread::Builder::new()
            .name("tcpx-progress".into())
            .spawn(move || {
                // It ends when it is stopped, or in a forked child.
                let _ = driven.serve(&stopped);
            })
            .map_err(|error| Error::io("starting the progress thread", &error))?;
        Ok(Self { shared: Arc::clone(shared), stop, handle: Mutex::new(Some(handle)) })
    }

    /// Lets it end, and waits for that: at most a round. More than one call does no harm.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = &handle {
            handle.thread().unpark();
        }
        if let Some(handle) = handle
            && handle.thread().id() != std::thread::current().id()
        {
            let _ = handle.join();
        }
    }
}
