//! The session: what a program holds.

mod progress_thread;
mod registering;
mod shared;
#[cfg(all(test, feature = "soft"))]
mod tests;
pub(crate) mod transfer;
mod wait;

use std::os::fd::BorrowedFd;
use std::sync::{Arc, MutexGuard};
use std::task::Poll;
use std::time::Instant;

use tcpx_sys::{Stay, is_forked};

use self::progress_thread::ProgressThread;
use self::shared::Shared;
use self::transfer::Transfer;
use self::wait::{Moved, WaitLimit};
use crate::completions::completion::Completion;
use crate::completions::queue::CompletionQueue;
use crate::engine::{Engine, UNPACK_TIMEOUT};
use crate::error::{Awaited, Error, Phase, Result};
use crate::peer::PeerStatus;
use crate::plugin::Nic;
use crate::settings::SessionOptions;
use crate::stats::report::SessionReport;
use crate::types::PeerKey;

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
}

impl Session {
    /// Opens the plugin (once per process) and the unpack backend.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Load`], [`Error::Plugin`], [`Error::UnusablePlugin`],
    /// [`Error::NoNic`], [`Error::Unpack`], [`Error::MemoryUnavailable`]; [`Error::Forked`] in a
    /// child forked from a process that had made a session; [`Error::Io`].
    pub fn new(options: SessionOptions) -> Result<Self> {
        // Before any lock: a child forked from now on may find it held.
        let stay = Stay::begin()?;
        stay.claim().map_err(|error| Error::io("registering a fork handler", &error))?;
        let engine = Engine::new(options.clone())?;
        let completions = Arc::clone(engine.commons.ledger.transfers.completions());
        let shared = Shared::new(engine, options.spin);
        let thread = options.progress_thread.then(|| ProgressThread::start(&shared)).transpose()?;
        Ok(Self { shared, options, thread, completions })
    }

    /// Opens the control listener and returns the connection info that peers load.
    ///
    /// Any number of peers may use the same bytes, any number of times. They contain a secret, so
    /// hand them over a channel that you trust.
    ///
    /// # Errors
    /// [`Error::Io`] when the address cannot be listened on.
    pub fn listen(&self) -> Result<Vec<u8>> {
        self.shared.engine()?.listen()
    }

    /// Waits for a peer that connects, and gives it the name `peer`, by which it is known here from
    /// then on. A session that has a name of its own ([`SessionOptions::name`]) is accepted under
    /// that name only.
    ///
    /// A peer does not wait for this call. A session that listens and makes progress connects
    /// everybody who proves to have its connection info. A peer that has gone again before the call
    /// is passed over. A session to which this one is connecting itself goes to that
    /// [`connect`](Self::connect), never to an accept that waits.
    ///
    /// # Errors
    /// [`Error::Deadline`] when nobody came within [`SessionOptions::connect_timeout`];
    /// [`Error::Closed`] as soon as another thread closes the session; [`Error::PeerState`] when
    /// the name is taken, or `listen` was not called; the errors of [`connect`](Self::connect).
    pub fn accept(&self, peer: &str) -> Result<()> {
        self.shared.engine()?.start_accept(peer)?;
        let limit = WaitLimit::for_time(self.options.connect_timeout);
        let accepted = self.shared.wait(
            limit,
            |engine| Ok(engine.accepted(peer)?.map_or(Poll::Pending, Poll::Ready)),
            |engine, waited, _| {
                let detail = Awaited::words(engine.stop_accept(peer));
                let (phase, peer) = (Phase::Accept, Some(peer.to_owned()));
                Error::Deadline { phase, peer, waited, detail }
            },
        )?;
        self.wait_until_up(accepted, limit, Phase::Accept)
    }

    /// Remembers how `peer` is reached. `conn_info` is what its [`listen`](Self::listen) returned.
    ///
    /// # Errors
    /// [`Error::ConnInfo`] when the bytes are damaged or of another version.
    pub fn load_remote_conn_info(&self, peer: &str, conn_info: &[u8]) -> Result<()> {
        self.shared.engine()?.load_conn_info(peer, conn_info)
    }

    /// Connects to a peer whose connection info was loaded. Afterwards both ends can send and
    /// receive. The peer's program need not have called [`accept`](Self::accept) yet: what is
    /// posted before waits for its counterpart.
    ///
    /// Both ends may connect to each other, at the same time or one after the other, each under a
    /// name of its own: they get one connection. A peer that has come in from the session that the
    /// connection info leads to, and that no accept has named, is given this name. One that comes
    /// in while this call is dialling is what the call waits for, also when an accept of another
    /// name waits. So one direction that leads somewhere is enough. (An accept of *this* name
    /// excludes a connect.)
    ///
    /// Two sessions may have several connections. A further one is made by a connect when those
    /// before have been named here, by a connect or an accept. Two ends that each want to connect
    /// and to accept begin the second connection when the first is up at both.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Handshake`], [`Error::Deadline`] after
    /// [`SessionOptions::connect_timeout`], [`Error::PeerGone`], [`Error::Plugin`];
    /// [`Error::Unreachable`] when no address of the peer answers, and the peer has not come in by
    /// itself: a session that listens waits for that, for a tenth of the same time;
    /// [`Error::Closed`] as soon as another thread closes the session or disconnects the peer.
    pub fn connect(&self, peer: &str) -> Result<()> {
        let key = self.shared.engine()?.start_connect(peer)?;
        self.wait_until_up(key, WaitLimit::for_time(self.options.connect_timeout), Phase::Connect)
    }

    fn wait_until_up(&self, key: PeerKey, limit: WaitLimit, phase: Phase) -> Result<()> {
        let outcome = self.shared.wait(
            limit,
            |engine| match engine.status(key) {
                _ if engine.has_left(key) => Err(Error::Closed),
                // It may have been up and parted before anybody looked.
                Some(PeerStatus::Up | PeerStatus::Parted) => Ok(Poll::Ready(())),
                Some(PeerStatus::Failed(error)) => Err(error.clone()),
                Some(PeerStatus::Connecting) => Ok(Poll::Pending),
                None => Err(Error::Closed),
            },
            |engine, waited, now| engine.end_overdue(key, phase, waited, now),
        );
        if outcome.is_err() {
            let mut engine = self.shared.engine()?;
            // Whoever has left the peer says goodbye to it.
            if !engine.has_left(key) {
                engine.forget(key);
            }
        }
        outcome
    }

    /// Says goodbye to a peer. Operations without a counterpart are withdrawn and end with
    /// [`Error::Closed`], those with one are finished, then both ends close their comms in an
    /// order that loses nothing. The name is free again afterwards, whatever the result.
    ///
    /// A peer that is still being connected, and cannot be up at its own end, is dropped at once.
    /// One that was gone before needs no goodbye.
    ///
    /// # Errors
    /// Everything is closed here all the same:
    /// - [`Error::Deadline`] when the peer did not answer within [`SessionOptions::close_timeout`];
    ///   operations under way end with [`Error::PeerGone`], never with the deadline;
    /// - [`Error::PeerGone`] when it went away in the middle of the goodbye.
    ///
    /// [`Error::UnknownPeer`] when no peer has the name.
    pub fn disconnect(&self, peer: &str) -> Result<()> {
        let (key, was_over) = {
            let mut engine = self.shared.engine()?;
            let (key, found) = engine.peer(peer)?;
            let was_over = found.is_gone();
            engine.start_disconnect(key);
            (key, was_over)
        };
        let outcome = self.shared.wait(
            WaitLimit::for_time(self.options.close_timeout),
            |engine| match engine.status(key) {
                None | Some(PeerStatus::Parted) => Ok(Poll::Ready(())),
                Some(PeerStatus::Failed(Error::Closed)) => Ok(Poll::Ready(())),
                Some(PeerStatus::Failed(error)) if !was_over => Err(error.clone()),
                Some(PeerStatus::Failed(_)) => Ok(Poll::Ready(())),
                Some(PeerStatus::Connecting | PeerStatus::Up) => Ok(Poll::Pending),
            },
            |engine, waited, now| engine.end_overdue(key, Phase::Close, waited, now),
        );
        self.shared.engine()?.forget(key);
        outcome
    }

    /// A transfer with a peer: a set of sends and receives that are waited for together.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::PeerState`] or the peer's own error when it is not up.
    pub fn create_transfer(&self, peer: &str) -> Result<Transfer> {
        let (key, cell) = self.shared.engine()?.create_transfer(peer)?;
        let (shared, completions) = (Arc::clone(&self.shared), Arc::clone(&self.completions));
        Ok(Transfer::new(shared, key, cell, completions))
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
        completions: &mut Vec<Completion>,
        most: usize,
    ) -> Result<usize> {
        if is_forked() {
            return Err(Error::Forked);
        }
        Ok(self.completions.take(completions, most))
    }

    /// A descriptor for an event loop of the program: readable when a round of a transfer has
    /// ended, whether or not the transfer reports it, or an attempt that
    /// [`start_connect`](Self::start_connect) and its like began. It is readable at first.
    ///
    /// Only [`poll_completions`](Self::poll_completions) makes it unreadable. So call that first
    /// when it is readable, then look at transfers and peers: whatever ends after that makes it
    /// readable again. It belongs to the session: it is not read from, and not closed.
    ///
    /// # Errors
    /// [`Error::Io`] when the process has no descriptors left; [`Error::Forked`].
    pub fn event_fd(&self) -> Result<BorrowedFd<'_>> {
        if is_forked() {
            return Err(Error::Forked);
        }
        self.completions.event().open()
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
            WaitLimit::for_time(2 * UNPACK_TIMEOUT),
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
        self.shared.progress() != Moved::Nothing
    }

    /// The NICs that the plugin offers; none in a forked child.
    pub fn nics(&self) -> Vec<Nic> {
        let nics = |engine: MutexGuard<'_, Engine>| engine.commons.session.plugin.nics().to_vec();
        self.shared.engine().map(nics).unwrap_or_default()
    }

    /// The session as it is now; in a forked child an empty report.
    pub fn stats(&self) -> SessionReport {
        self.shared.engine().map(|engine| engine.report()).unwrap_or_default()
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
