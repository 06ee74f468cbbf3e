//! The peers that operations and notifications go to. One that is not there, or was lost, is
//! connected first, if its connection info was loaded.

use std::time::Instant;

use slotmap::Key;
use tcpx_protocol::error::remote_problem::RemoteProblem;
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::types::{PreparedKey, TransferKey};

use super::{Engine, unknown};
use crate::error::{Error, Result};
use crate::peer::{Peer, PeerStatus};
use crate::types::PeerKey;

impl Engine {
    /// Checks that operations on memory of these sessions may be prepared with a peer: it is up, or
    /// being connected, or will be with the next post.
    pub(super) fn check_reachable(
        &self,
        name: &str,
        mut sessions: impl Iterator<Item = SessionId>,
    ) -> Result<()> {
        let is_of: &dyn Fn(&SessionId) -> bool = match (self.present(name), self.infos.get(name)) {
            (Ok((_, peer)), _) => {
                peer.check_requests()?;
                &|session| peer.is_of_session(session)
            }
            (Err(_), Some(info)) => &|session| info.session == *session,
            (Err(unknown), None) => return Err(unknown),
        };
        match sessions.all(|session| is_of(&session)) {
            true => Ok(()),
            false => {
                let (peer, problem) = (Some(name.to_owned()), RemoteProblem::AnotherSession);
                Err(Error::Remote { peer, memory: None, problem })
            }
        }
    }

    /// The peer that has this name, which is connected if it is not there. What a lost one was
    /// doing has failed, and is not done again.
    pub(super) fn reach(&mut self, name: &str) -> Result<PeerKey> {
        match self.present(name) {
            Ok((key, _)) => Ok(key),
            Err(unknown) if !self.infos.contains_key(name) => Err(unknown),
            Err(_) => self.begin_connect(name, Instant::now()),
        }
    }

    /// The peer that has this name, unless it was lost.
    fn present(&self, name: &str) -> Result<(PeerKey, &Peer)> {
        let (key, peer) = self.peer(name)?;
        match self.is_lost(name, peer) {
            true => Err(unknown(name, self.names.keys())),
            false => Ok((key, peer)),
        }
    }

    /// Whether a peer has failed, or has left and other connection info was loaded since, so that a
    /// post connects it again. One that has said goodbye is believed.
    fn is_lost(&self, name: &str, peer: &Peer) -> bool {
        let Some(info) = self.infos.get(name) else { return false };
        let is_over = match peer.status() {
            PeerStatus::Connecting | PeerStatus::Up => false,
            PeerStatus::Parted => !peer.is_of_session(&info.session),
            PeerStatus::Failed(_) => true,
        };
        is_over && !peer.is_left()
    }

    /// The peer that an operation goes to: while it is under way that of the post before, otherwise
    /// the one that has its name now, if it is of the same session. Nothing is known there of its
    /// list.
    pub(super) fn peer_of(
        &mut self,
        prepared: PreparedKey,
        transfer: TransferKey,
    ) -> Result<PeerKey> {
        let operation = self.prepared.get(prepared).ok_or(Error::Closed)?;
        let is_idle = self.commons.ledger.transfers.get(transfer)?.is_complete();
        let now = self.names.get(&*operation.peer_name).filter(|_| is_idle);
        let has_moved = now.is_some_and(|now| *now != operation.peer);
        let before = self.peers.get(operation.peer).filter(|_| !has_moved);
        let is_lost = |peer: &Peer| is_idle && self.is_lost(&operation.peer_name, peer);
        if before.is_some_and(|peer| !is_lost(peer)) {
            return Ok(operation.peer);
        }
        let (name, session) = (operation.peer_name.clone(), operation.session);
        // One that was there and cannot be reached from here has been left.
        let is_known = self.names.contains_key(&*name) || self.infos.contains_key(&*name);
        if !operation.peer.is_null() && !is_known {
            return Err(Error::Closed);
        }
        self.check_reachable(&name, session.into_iter())?;
        let key = self.reach(&name)?;
        if let Some(operation) = self.prepared.get_mut(prepared) {
            operation.peer = key;
        }
        self.commons.ledger.transfers.move_to(transfer, key);
        Ok(key)
    }
}
