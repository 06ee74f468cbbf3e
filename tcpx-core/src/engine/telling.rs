//! Peers of which a program hears without asking.

use std::sync::Arc;

use super::Engine;
use crate::completions::peer_queue::PeerQueue;
use crate::completions::peer_state::PeerState;
use crate::error::Error;
use crate::peer::{Peer, PeerStatus};
use crate::types::PeerKey;

impl Engine {
    /// Where peers that come up or end wait for the program.
    pub(crate) fn peer_events(&self) -> &Arc<PeerQueue> {
        &self.peer_events
    }

    /// The program wants to hear of peers from now on.
    pub(crate) fn report_peers(&mut self) {
        if !self.peer_events.want() {
            self.peers.values().for_each(|peer| self.tell_if_up(peer));
        }
    }

    /// A peer has come up, or has got its name.
    pub(super) fn tell_up(&self, key: PeerKey) {
        self.peers.get(key).into_iter().for_each(|peer| self.tell_if_up(peer));
    }

    fn tell_if_up(&self, peer: &Peer) {
        let is_up = matches!(peer.status(), PeerStatus::Up);
        if is_up && !peer.is_left() && peer.name().is_bound() {
            self.peer_events.up(peer.name().as_str());
        }
    }

    /// A peer has ended.
    pub(super) fn tell_end(&self, key: PeerKey) {
        let Some(peer) = self.peers.get(key).filter(|peer| peer.name().is_bound()) else { return };
        match peer.status() {
            PeerStatus::Connecting | PeerStatus::Up => {}
            PeerStatus::Parted => self.peer_events.ended(peer.name().as_str(), PeerState::Parted),
            PeerStatus::Failed(error) => self.tell_failure(peer.name().as_str(), error),
        }
    }

    /// An attempt to have a peer of this name has failed, or the peer has.
    pub(super) fn tell_failure(&self, name: &str, error: &Error) {
        // That is the program's own doing.
        if !matches!(error, Error::Closed) {
            self.peer_events.ended(name, PeerState::Failed(error.clone()));
        }
    }
}
