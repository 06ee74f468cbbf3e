//! Sessions that come in for another session of the group.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tcpx_protocol::frames::conn_info::ConnInfo;
use tcpx_protocol::types::device::Device;

use super::Engine;
use crate::control::inbound_handshake::InboundHandshake;
use crate::error::Result;

/// Most that are on their way to another session at a time. Making one may take long, where a GPU
/// does.
pub(crate) const MOST_HANDED_OVER: usize = 64;

impl Engine {
    /// The device whose session this is.
    pub(super) fn device(&self) -> Device {
        self.membership.as_ref().map_or(Device::Host, |group| group.device)
    }

    /// Somebody wants the session of another device. A worker brings it there, and makes that
    /// session if nobody has needed it before.
    pub(super) fn hand_over(&mut self, device: Device, handshake: InboundHandshake) {
        let hand_over = self.membership.as_ref().and_then(|group| group.hand_over.as_ref());
        let Some(hand_over) = hand_over.map(Arc::clone) else {
            return handshake.refuse(format!("this session is in no group: it is not of {device}"));
        };
        let under_way = Arc::clone(&self.handed_over);
        if under_way.fetch_add(1, Ordering::Relaxed) >= MOST_HANDED_OVER {
            under_way.fetch_sub(1, Ordering::Relaxed);
            return handshake.refuse(format!("too many wait for {device}; try again"));
        }
        self.commons.workers.call(move || {
            hand_over(device, handshake);
            under_way.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Takes in somebody who has come for this session, and has proven itself to the one that
    /// listens for its group.
    pub(crate) fn take_in(&mut self, mut handshake: InboundHandshake) {
        let Some(listener) = &mut self.listener else {
            return handshake.refuse("the session is closed".to_owned());
        };
        if let Err(error) = handshake.hand_to(&self.commons.session.identity) {
            return handshake.refuse(error.to_string());
        }
        match listener.take_in(handshake) {
            Ok(()) => self.is_listener_due = true,
            Err(error) => tracing::warn!(%error, "somebody who came in was dropped"),
        }
    }

    /// The peers that are sessions of the group with this name.
    pub(crate) fn peers_of_group(&self, name: &str) -> Vec<String> {
        self.names.keys().filter(|peer| Device::group_name(peer) == name).cloned().collect()
    }

    /// Remembers how a session of another group is reached.
    pub(crate) fn know(&mut self, name: &str, info: ConnInfo) -> Result<()> {
        self.check_open()?;
        self.infos.insert(name.to_owned(), info);
        Ok(())
    }
}
