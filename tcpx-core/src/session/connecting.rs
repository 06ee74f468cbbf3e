//! Peers of the session, from connect or accept to disconnect.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tcpx_protocol::types::memory::{Device, LONGEST_SUFFIX};

use super::Session;
use super::devices::OtherDevices;
use super::shared::SharedEngine;
use super::wait::WaitLimit;
use crate::completions::PeerState;
use crate::engine::meeting::accept_queue::Accept;
use crate::error::{Error, Phase, Result, SettingProblem};
#[cfg(doc)]
use crate::settings::SessionOptions;
use crate::types::{MAX_NAME_BYTES, PeerKey};

impl Session {
    /// Opens the control listener and returns the connection info that peers load.
    ///
    /// Any number of peers may use the same bytes, any number of times. The bytes contain a secret,
    /// so send them over a channel that you trust.
    ///
    /// # Errors
    /// [`Error::Io`] when the address cannot be listened on.
    pub fn listen(&self) -> Result<Vec<u8>> {
        self.shared.engine()?.listen()
    }

    /// Waits for a peer that connects, and gives it the name `peer`, by which this session knows it
    /// from then on. A session with a name of its own ([`SessionOptions::name`]) is accepted under
    /// that name only. Where connection info was loaded under the name, only the session that the
    /// info leads to is accepted, whatever its own name.
    ///
    /// A peer does not wait for this call. A session that listens and makes progress connects every
    /// peer that proves to have its connection info. A peer that has gone before the call is
    /// skipped. A session to which this session is connecting goes to that
    /// [`connect`](Self::connect), never to a waiting accept.
    ///
    /// # Errors
    /// [`Error::Deadline`] when no peer came within [`SessionOptions::connect_timeout`];
    /// [`Error::Closed`] as soon as another thread closes the session; [`Error::PeerState`] when
    /// the name is taken, or `listen` was not called; the errors of [`connect`](Self::connect).
    pub fn accept(&self, peer: &str) -> Result<()> {
        self.wait_for_peer(&Accept::Named(peer.to_owned())).map(drop)
    }

    /// Takes the first waiting peer, or waits for a peer, and returns the name by which the peer is
    /// known here from then on. The name is the one that its connection info was loaded under, or
    /// the peer's own ([`SessionOptions::name`]). Where the peer has no name, or another peer has
    /// it, the name is "peer-1", "peer-2" and so on.
    ///
    /// A peer goes to an [`accept`](Self::accept) that waits for its name first.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept).
    pub fn accept_any(&self) -> Result<String> {
        let accept = self.shared.engine()?.accept_of_any();
        self.wait_for_peer(&accept)
    }

    fn wait_for_peer(&self, accept: &Accept) -> Result<String> {
        self.shared.engine()?.start_accept(accept)?;
        let limit = WaitLimit::for_time(self.options.connect_timeout);
        let accepted = self.shared.wait(
            limit,
            |engine| Ok(engine.accepted(accept)?.map_or(Poll::Pending, Poll::Ready)),
            |engine, waited, _| engine.accept_overdue(accept, waited),
        )?;
        let name = self.shared.engine()?.name_of(accepted);
        self.wait_until_up(accepted, limit, Phase::Accept)?;
        Ok(name.unwrap_or_default())
    }

    /// Begins what [`accept`](Self::accept) does, and returns at once. Rounds of progress continue
    /// the attempt; [`peer_state`](Self::peer_state) reports its state. The attempt ends with the
    /// errors of `accept`, after [`SessionOptions::connect_timeout`] at the latest.
    /// [`disconnect`](Self::disconnect) cancels it.
    ///
    /// # Errors
    /// [`Error::PeerState`] when the name is taken, or `listen` was not called; [`Error::Closed`].
    pub fn start_accept(&self, peer: &str) -> Result<()> {
        self.shared.engine()?.begin_accept(Accept::Named(peer.to_owned()), Instant::now())
    }

    /// Begins what [`accept_any`](Self::accept_any) does, and returns at once.
    /// [`poll_accept_any`](Self::poll_accept_any) returns the name. Several such accepts may be
    /// outstanding: each takes one peer.
    ///
    /// # Errors
    /// As for [`start_accept`](Self::start_accept).
    pub fn start_accept_any(&self) -> Result<()> {
        let mut engine = self.shared.engine()?;
        let accept = engine.accept_of_any();
        engine.begin_accept(accept, Instant::now())
    }

    /// Returns the result of [`start_accept_any`](Self::start_accept_any): the name of a peer that
    /// is up. Each accept is answered once, in the order in which they ended.
    ///
    /// # Errors
    /// Errors of [`accept_any`](Self::accept_any), each once; [`Error::PeerState`] when none is
    /// outstanding.
    pub fn poll_accept_any(&self) -> Result<Poll<String>> {
        self.shared.engine()?.poll_accept_of_any()
    }

    /// Cancels the accepts that [`start_accept_any`](Self::start_accept_any) began and that no peer
    /// has come for. They are not answered any more.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn stop_accept_any(&self) -> Result<()> {
        self.shared.engine()?.give_up_accepts_of_any();
        Ok(())
    }

    /// Returns the state of a peer, by its name. Makes no progress.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`] when there is no such peer, and no accept waits for one;
    /// [`Error::Closed`].
    pub fn peer_state(&self, peer: &str) -> Result<PeerState> {
        self.shared.engine()?.peer_state(&self.called(peer))
    }

    /// Remembers how to reach `peer`. `conn_info` is the result of its [`listen`](Self::listen).
    ///
    /// # Errors
    /// [`Error::ConnInfo`] when the bytes are damaged or of another version.
    pub fn load_remote_conn_info(&self, peer: &str, conn_info: &[u8]) -> Result<()> {
        let Some(OtherDevices { names, .. }) = self.others.as_deref() else {
            return self.shared.engine()?.load_conn_info(peer, conn_info);
        };
        let refuse = |problem| Error::setting("peer name", peer, problem);
        if Device::peer_name(peer) != peer {
            return Err(refuse(SettingProblem::NameOfDevice));
        }
        let (bytes, limit) = (peer.len(), MAX_NAME_BYTES - LONGEST_SUFFIX);
        if bytes > limit {
            return Err(refuse(SettingProblem::TooLong { bytes, limit }));
        }
        let info = self.shared.engine()?.check_conn_info(peer, conn_info)?;
        if let Some(unloaded) = names.unloaded_name(&info)
            && !self.is_here(&unloaded)?
        {
            names.unloaded_peer_left(&info);
        }
        let called = names.load(peer, info.clone());
        self.shared.engine()?.know(&called, info)
    }

    /// Forgets how to reach `peer`, and why it ended if it has. An existing connection stays. For
    /// programs whose peers come and go: loaded info stays otherwise.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`] when nothing was loaded under the name; [`Error::Closed`].
    pub fn forget_remote_conn_info(&self, peer: &str) -> Result<()> {
        let called = self.called(peer);
        if let Some(OtherDevices { names, .. }) = self.others.as_deref() {
            let stays = self.is_here(&called)?;
            names.forget(peer, stays);
        }
        for device in self.others() {
            match device.engine()?.forget_conn_info(&called) {
                // None of its devices was reached from this one.
                Ok(()) | Err(Error::UnknownPeer { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.shared.engine()?.forget_conn_info(&called)
    }

    /// Connects to a peer whose connection info was loaded. Afterwards both ends can send and
    /// receive. The peer's program need not have called [`accept`](Self::accept) yet: operations
    /// posted before wait for their counterparts.
    ///
    /// Both ends may connect to each other, at the same time or one after the other, each under a
    /// name of its own: they get one connection. A peer may have come in from the session that the
    /// connection info leads to, without a name from an accept: it gets this name. With
    /// [`SessionOptions::accept_all`] such a peer has a name already, and is known by both from
    /// then on: calls take either name, while errors, events and notifications have the first. If
    /// the peer comes in while this call is dialling, this call takes it, also when an accept of
    /// another name waits. So one direction that leads to the peer is enough. (An accept of *this*
    /// name excludes a connect.)
    ///
    /// Two sessions may have several connections. A connect makes a further connection when all
    /// earlier ones have been named here, by a connect or an accept. Two ends that each want to
    /// connect and to accept begin the second connection when the first is up at both.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Handshake`], [`Error::Deadline`] after
    /// [`SessionOptions::connect_timeout`], [`Error::PeerGone`], [`Error::Plugin`].
    /// [`Error::Unreachable`] when no address of the peer answers within half of the same time (3 s
    /// at least, a minute at most), and the peer has not come in by itself: a session that listens
    /// waits for the peer, for a tenth of the time. [`Error::Closed`] as soon as another thread
    /// closes the session or disconnects the peer.
    pub fn connect(&self, peer: &str) -> Result<()> {
        let key = self.shared.engine()?.start_connect(&self.called(peer))?;
        self.wait_until_up(key, WaitLimit::for_time(self.options.connect_timeout), Phase::Connect)
    }

    /// Begins what [`connect`](Self::connect) does, and returns at once. Rounds of progress
    /// continue the attempt; [`peer_state`](Self::peer_state) reports its state. The attempt ends
    /// with the errors of `connect`, after [`SessionOptions::connect_timeout`] at the latest.
    /// [`disconnect`](Self::disconnect) cancels it.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`]; [`Error::PeerState`] when the name is taken; [`Error::Closed`].
    pub fn start_connect(&self, peer: &str) -> Result<()> {
        self.shared.engine()?.begin_connect(&self.called(peer), Instant::now()).map(drop)
    }

    fn wait_until_up(&self, key: PeerKey, limit: WaitLimit, phase: Phase) -> Result<()> {
        let outcome = self.shared.wait(
            limit,
            |engine| engine.arrival(key),
            |engine, waited, now| engine.end_overdue(key, phase, waited, now),
        );
        if outcome.is_err() {
            let mut engine = self.shared.engine()?;
            // The caller that has left the peer says goodbye to it.
            if !engine.has_left(key) {
                engine.forget(key);
            }
        }
        outcome
    }

    /// Says goodbye to a peer. Operations without a counterpart are withdrawn and end with
    /// [`Error::Closed`]; matched operations are finished. Then both ends close their comms in an
    /// order that loses nothing. The name is free again afterwards, whatever the result.
    ///
    /// A peer that is still connecting, and cannot be up at its own end, is dropped at once. A peer
    /// that was gone before needs no goodbye. An attempt that [`start_accept`](Self::start_accept)
    /// began and that no peer has come for is cancelled; a failed attempt is forgotten.
    ///
    /// # Errors
    /// Everything is closed here all the same:
    /// - [`Error::Deadline`] when the peer did not answer within [`SessionOptions::close_timeout`];
    ///   outstanding operations end with [`Error::PeerGone`], never with the deadline;
    /// - [`Error::PeerGone`] when the peer went away in the middle of the goodbye.
    ///
    /// [`Error::UnknownPeer`] when no peer has the name.
    pub fn disconnect(&self, peer: &str) -> Result<()> {
        let peer = &*self.called(peer);
        let left = self.leave_devices(peer)?;
        if left.is_empty() {
            // Also ends an attempt, and returns the known result.
            return self.disconnect_from(&self.shared, peer);
        }
        let mut outcome = Ok(());
        for (device, name) in left {
            // All of the devices are leaving: the call waits for each.
            match self.disconnect_from(&device, &name) {
                Err(Error::UnknownPeer { .. }) => {}
                parted => outcome = outcome.and(parted),
            }
        }
        outcome
    }

    fn disconnect_from(&self, device: &SharedEngine, peer: &str) -> Result<()> {
        let Some(key) = device.engine()?.leave(peer)? else { return Ok(()) };
        let outcome = device.wait(
            WaitLimit::for_time(self.options.close_timeout),
            |engine| engine.departure(key),
            |engine, waited, now| engine.end_overdue(key, Phase::Close, waited, now),
        );
        device.engine()?.forget(key);
        outcome
    }

    /// Begins what [`disconnect`](Self::disconnect) does, and returns at once. The peer is unknown
    /// when the goodbye is over, for which [`SessionOptions::close_timeout`] is the limit. After a
    /// failure [`peer_state`](Self::peer_state) is [`PeerState::Failed`] with the error.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`] when no peer has the name.
    pub fn start_disconnect(&self, peer: &str) -> Result<()> {
        let peer = &*self.called(peer);
        match self.leave_devices(peer)?.is_empty() {
            true => self.shared.engine()?.begin_disconnect(peer, Instant::now()),
            false => Ok(()),
        }
    }
}

/// Peers with several devices, in a session of all devices.
impl Session {
    /// Returns the connections of a peer with each device, except in a session of one device: the
    /// device, and the connection's name there.
    fn connections_of(&self, peer: &str) -> Result<Vec<(Arc<SharedEngine>, String)>> {
        let mut connections = Vec::new();
        if self.others.is_some() {
            for device in self.devices() {
                let names = device.engine()?.connections_of(peer);
                connections.extend(names.into_iter().map(|name| (Arc::clone(&device), name)));
            }
        }
        Ok(connections)
    }

    /// Returns whether a device has a connection with a peer that is not over.
    fn is_here(&self, called: &str) -> Result<bool> {
        let connections = self.connections_of(called)?;
        Ok(connections.iter().any(|(device, name)| {
            // The peer may have gone since.
            let state = device.engine().and_then(|engine| engine.peer_state(name));
            !matches!(state, Err(_) | Ok(PeerState::Parted | PeerState::Failed(_)))
        }))
    }

    /// Begins to say goodbye to all devices of a peer, in a session of all devices. Returns the
    /// connections.
    fn leave_devices(&self, peer: &str) -> Result<Vec<(Arc<SharedEngine>, String)>> {
        let mut connections = self.connections_of(peer)?;
        connections.retain(|(device, name)| {
            // The peer may have gone since.
            let left = device.engine().and_then(|mut it| it.begin_disconnect(name, Instant::now()));
            left.is_ok()
        });
        Ok(connections)
    }
}
