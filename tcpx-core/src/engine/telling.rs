//! Peers of which a program hears without asking.

use std::sync::Arc;

use tcpx_protocol::types::device::Device;

use super::Engine;
use crate::completions::connected::DeviceAndName;
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

    /// A peer has come up, or has got its name.
    pub(super) fn tell_up(&self, key: PeerKey) {
        let Some(peer) = self.peers.get(key).filter(|peer| peer.name().is_bound()) else { return };
        if matches!(peer.status(), PeerStatus::Up) && !peer.is_left() {
            let (name, connection) = self.told_as(peer.name().as_str());
            self.peer_events.up(name, connection);
        }
    }

    /// The program leaves a peer, or it is dropped.
    pub(super) fn tell_left(&self, peer: &Peer) {
        if peer.name().is_bound() {
            let (name, connection) = self.told_as(peer.name().as_str());
            self.peer_events.left(name, &connection);
        }
    }

    /// A peer has ended.
    pub(super) fn tell_end(&self, key: PeerKey) {
        let Some(peer) = self.peers.get(key).filter(|peer| peer.name().is_bound()) else { return };
        let name = peer.name().as_str();
        match peer.status() {
            PeerStatus::Connecting | PeerStatus::Up => {}
            // A group leaves several connections, of which some may find the peer leaving.
            _ if peer.is_left() && self.membership.is_some() => {}
            PeerStatus::Parted => self.tell_ended(name, PeerState::Parted),
            PeerStatus::Failed(error) => self.tell_failure(name, error),
        }
    }

    /// An attempt to have a peer of this name has failed, or the peer has.
    pub(super) fn tell_failure(&self, name: &str, error: &Error) {
        // That is the program's own doing.
        if !matches!(error, Error::Closed) {
            self.tell_ended(name, PeerState::Failed(error.clone()));
        }
    }

    fn tell_ended(&self, name: &str, how: PeerState) {
        let (name, connection) = self.told_as(name);
        self.peer_events.ended(name, &connection, how);
    }

    /// What the program calls a peer, and the connection that this session has with it.
    fn told_as<'a>(&self, name: &'a str) -> (&'a str, DeviceAndName) {
        let peer = self.membership.as_ref().map_or(name, |_| Device::group_name(name));
        (peer, (self.device(), name.to_owned()))
    }
}
