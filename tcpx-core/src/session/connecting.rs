//! The session's peers: how they are reached, come in, and are left.

use std::task::Poll;

use super::Session;
use super::wait::WaitLimit;
use crate::error::{Awaited, Error, Phase, Result};
use crate::peer::PeerStatus;
use crate::types::PeerKey;

impl Session {
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
}
