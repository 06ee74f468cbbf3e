//! How other groups are reached and left.

use std::sync::Arc;

use tcpx_protocol::types::memory::{Device, LONGEST_SUFFIX};

use super::Group;
use crate::completions::PeerState;
use crate::error::{Error, Result, SettingProblem};
use crate::session::Session;
use crate::types::MAX_NAME_BYTES;

impl Group {
    /// As [`Session::listen`](crate::Session::listen). The connection info leads to all devices,
    /// also to those that nobody has used yet.
    ///
    /// # Errors
    /// As there.
    pub fn listen(&self) -> Result<Vec<u8>> {
        self.front.listen()
    }

    /// As [`Session::load_remote_conn_info`](crate::Session::load_remote_conn_info), of a group or
    /// of a session that is in none. A peer that connects later by itself has this name too. One
    /// that is here already, or whose connection info was loaded before, has both names from then
    /// on: calls take either, while errors, events and notifications have the first.
    ///
    /// # Errors
    /// As there; [`Error::Setting`] for a name of more than 55 bytes, and for one that ends as
    /// those of devices do: "/gpu0".
    pub fn load_remote_conn_info(&self, peer: &str, conn_info: &[u8]) -> Result<()> {
        let refuse = |problem| Error::setting("peer name", peer, problem);
        if Device::group_name(peer) != peer {
            return Err(refuse(SettingProblem::NameOfDevice));
        }
        let (bytes, limit) = (peer.len(), MAX_NAME_BYTES - LONGEST_SUFFIX);
        if bytes > limit {
            return Err(refuse(SettingProblem::TooLong { bytes, limit }));
        }
        let info = self.front.check_conn_info(peer, conn_info)?;
        let names = &self.members.names;
        if let Some(stranger) = names.stranger(&info)
            && !self.is_here(&stranger)?
        {
            names.stranger_left(&info);
        }
        let called = names.load(peer, info.clone());
        self.front.know(&called, info)
    }

    /// As [`Session::forget_remote_conn_info`](crate::Session::forget_remote_conn_info), of all
    /// devices of a peer, by any of its names. A connection that stays is used again when the same
    /// connection info is loaded, under whatever name.
    ///
    /// # Errors
    /// As there.
    pub fn forget_remote_conn_info(&self, peer: &str) -> Result<()> {
        let called = self.members.names.called(peer);
        let stays = self.is_here(&called)?;
        self.members.names.forget(peer, stays);
        for member in self.members.all() {
            match member.forget_remote_conn_info(&called) {
                // None of its devices was reached from this one.
                Ok(()) | Err(Error::UnknownPeer { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.front.forget_remote_conn_info(&called)
    }

    /// Whether a device has a connection with a group that is not over.
    fn is_here(&self, called: &str) -> Result<bool> {
        let members = self.members.all();
        for session in std::iter::once(&self.front).chain(members.iter().map(|it| &**it)) {
            for name in session.peers_of_group(called)? {
                // It may have gone since.
                let state = session.peer_state(&name);
                let is_over =
                    matches!(state, Err(_) | Ok(PeerState::Parted | PeerState::Failed(_)));
                if !is_over {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// As [`Session::connect`](crate::Session::connect), for notifications and memory of the hosts.
    /// It need not be called: what is posted first connects, and so each pair of devices is
    /// connected. A peer that is up, or on its way, by any of its names is waited for.
    ///
    /// # Errors
    /// As there.
    pub fn connect(&self, peer: &str) -> Result<()> {
        self.front.connect(&self.members.names.called(peer))
    }

    /// As [`Session::start_connect`](crate::Session::start_connect).
    ///
    /// # Errors
    /// As there.
    pub fn start_connect(&self, peer: &str) -> Result<()> {
        self.front.start_connect(&self.members.names.called(peer))
    }

    /// What a peer is up to, as [`Session::peer_state`](crate::Session::peer_state): the connection
    /// of the two hosts.
    ///
    /// # Errors
    /// As there.
    pub fn peer_state(&self, peer: &str) -> Result<PeerState> {
        self.front.peer_state(&self.members.names.called(peer))
    }

    /// As [`Session::disconnect`](crate::Session::disconnect): says goodbye to all devices of a
    /// peer.
    ///
    /// # Errors
    /// As there; the first of those that there are. All are left all the same.
    pub fn disconnect(&self, peer: &str) -> Result<()> {
        let members = self.members.all();
        let peer = &self.members.names.called(peer);
        let left = self.leave(peer, &members)?;
        if left.is_empty() {
            // Also ends an attempt, and says what is known.
            return self.front.disconnect(peer);
        }
        let mut outcome = Ok(());
        for (session, name) in left {
            // All of them are leaving: each is waited for.
            match session.disconnect(&name) {
                Err(Error::UnknownPeer { .. }) => {}
                parted => outcome = outcome.and(parted),
            }
        }
        outcome
    }

    /// As [`Session::start_disconnect`](crate::Session::start_disconnect), of all devices of a
    /// peer.
    ///
    /// # Errors
    /// As there.
    pub fn start_disconnect(&self, peer: &str) -> Result<()> {
        let members = self.members.all();
        let peer = &self.members.names.called(peer);
        match self.leave(peer, &members)?.is_empty() {
            true => self.front.start_disconnect(peer),
            false => Ok(()),
        }
    }

    /// Begins to say goodbye to all devices of a peer. Returns who says it to whom.
    fn leave<'a>(
        &'a self,
        peer: &str,
        members: &'a [Arc<Session>],
    ) -> Result<Vec<(&'a Session, String)>> {
        let mut left = Vec::new();
        for session in std::iter::once(&self.front).chain(members.iter().map(|it| &**it)) {
            for name in session.peers_of_group(peer)? {
                // It may have gone since.
                if session.start_disconnect(&name).is_ok() {
                    left.push((session, name));
                }
            }
        }
        Ok(left)
    }
}
