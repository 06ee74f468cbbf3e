//! How other groups are reached and left.

use std::sync::Arc;

use super::Group;
use crate::completions::peer_state::PeerState;
use crate::control::conn_info::ConnInfo;
use crate::error::{Error, Result, SettingProblem};
use crate::session::Session;
use crate::types::MAX_NAME_BYTES;
use crate::types::device::{Device, LONGEST_SUFFIX};

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
    /// of a session that is in none. A peer that connects later by itself has this name too; one
    /// that has connected before keeps the name that it came under.
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
        self.front.load_remote_conn_info(peer, conn_info)?;
        self.members.names.load(peer, ConnInfo::decode(conn_info)?);
        Ok(())
    }

    /// As [`Session::connect`](crate::Session::connect), for notifications and memory of the hosts.
    /// It need not be called: what is posted first connects, and so each pair of devices is
    /// connected. A peer that has connected by itself under this name is one that is up.
    ///
    /// # Errors
    /// As there.
    pub fn connect(&self, peer: &str) -> Result<()> {
        self.front.connect(peer)
    }

    /// As [`Session::start_connect`](crate::Session::start_connect).
    ///
    /// # Errors
    /// As there.
    pub fn start_connect(&self, peer: &str) -> Result<()> {
        self.front.start_connect(peer)
    }

    /// What a peer is up to, as [`Session::peer_state`](crate::Session::peer_state): the connection
    /// of the two hosts.
    ///
    /// # Errors
    /// As there.
    pub fn peer_state(&self, peer: &str) -> Result<PeerState> {
        self.front.peer_state(peer)
    }

    /// As [`Session::disconnect`](crate::Session::disconnect): says goodbye to all devices of a
    /// peer.
    ///
    /// # Errors
    /// As there; the first of those that there are. All are left all the same.
    pub fn disconnect(&self, peer: &str) -> Result<()> {
        let members = self.members.all();
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
