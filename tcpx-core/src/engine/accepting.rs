//! Peers that come in: welcomed as soon as they have proven themselves, named by an accept before
//! or after.

use std::time::Instant;

use super::{Engine, check_peer_name};
use crate::control::inbound_handshake::{InboundHandshake, Welcomed};
use crate::error::{Error, Result};
use crate::peer::Peer;
use crate::types::PeerKey;
use crate::types::peer_name::PeerName;

impl Engine {
    /// An accept begins: the name is its own, and a peer that waits for it is taken at once.
    pub(crate) fn start_accept(&mut self, name: &str) -> Result<()> {
        self.check_open()?;
        check_peer_name(name)?;
        if self.listener.is_none() {
            return Err(Error::PeerState {
                peer: name.to_owned(),
                state: "not able to come",
                cure: "call listen and give the peer the connection info first",
            });
        }
        self.check_free(name)?;
        self.forget_gone_unclaimed();
        if let Some(key) = self.accept_queue.start_accept(name) {
            self.claim(name, key);
        }
        // There may be room now for one who waits.
        self.is_listener_due = true;
        Ok(())
    }

    /// The peer that came for an accept, once there is one.
    pub(crate) fn accepted(&mut self, name: &str) -> Result<Option<PeerKey>> {
        self.check_open()?;
        Ok(self.accept_queue.take_accepted(name))
    }

    /// An accept ends without a peer. Says why nobody came.
    pub(crate) fn stop_accept(&mut self, name: &str) -> String {
        self.accept_queue.stop_accept(name);
        self.accept_queue.why_nobody()
    }

    /// Gives a peer that came in the name that an accept, or a connect, has for it.
    pub(super) fn claim(&mut self, name: &str, key: PeerKey) {
        self.forget_name(name);
        self.names.insert(name.to_owned(), key);
        self.agenda.mark(key);
        if let Some(peer) = self.peers.get_mut(key)
            && let Err(error) = peer.claim(name, &mut self.commons)
        {
            self.fail_peer(key, error);
        }
    }

    /// Looks who has come, and takes in who has proven itself, as far as there is room: peers are
    /// connected whether or not their accept has been called.
    pub(super) fn accept_links(&mut self, now: Instant) -> bool {
        let is_due = std::mem::take(&mut self.is_listener_due);
        let Some(listener) = &mut self.listener else { return false };
        let wants = listener.attention();
        if !is_due && !wants.polls && wants.timeout.is_none_or(|timeout| now < timeout) {
            return false;
        }
        let mut moved = listener.progress(now, &self.commons.session.identity);
        self.forget_gone_unclaimed();
        if let Some(listener) = &self.listener
            && listener.has_proven()
        {
            moved |= self.meet(now);
        }
        self.is_listener_due |= moved;
        moved
    }

    /// Welcomes a peer that no connect of this session waits for.
    pub(super) fn welcome(&mut self, handshake: InboundHandshake, now: Instant) {
        let address = handshake.address();
        let Some(welcomed) = handshake.welcome(&self.commons.session.identity, None) else {
            return;
        };
        let Welcomed { link, agreement, introduction } = welcomed;
        let given = introduction.proven.hello.name.clone();
        let name = PeerName::unclaimed(&given, &address);
        let key = self.peers.insert_with_key(|key| Peer::welcome(key, name.clone(), introduction));
        let claimed = self.accept_queue.arrive(key, &given).map(str::to_owned);
        if let Some(name) = claimed {
            self.claim(&name, key);
        }
        self.agenda.mark(key);
        let Some(peer) = self.peers.get_mut(key) else { return };
        if let Err(error) =
            peer.link_up(link, agreement, now, &self.commons.session, &self.commons.workers)
        {
            self.fail_peer(key, error);
        }
    }

    /// Skips peers that were gone before an accept asked for them.
    pub(super) fn forget_gone_unclaimed(&mut self) {
        let peers = &self.peers;
        let is_gone = |key| peers.get(key).is_none_or(Peer::is_gone);
        for key in self.accept_queue.take_gone(is_gone) {
            let Some(peer) = self.take_out(key) else { continue };
            if let Some(error) = peer.why_gone() {
                tracing::warn!(peer = %peer.name(), %error, "peer left before it was accepted");
            }
        }
    }
}
