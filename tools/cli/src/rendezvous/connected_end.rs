//! Last step of both ends: two connected sessions.

use tcpx_core::Session;

use super::link::{RendezvousLink, SessionLink};
use super::message::Connected;
use super::role::Role;
use crate::failure::Failure;
use crate::session::Memory;

/// One end of a command whose two sessions are connected. Only a rendezvous makes one.
pub(crate) struct ConnectedEnd<'a> {
    pub(crate) link: SessionLink<'a>,
    pub(crate) session: &'a Session,
    /// Role of this end.
    pub(crate) role: Role,
    pub(crate) memory: Memory,
    /// Channels between the two sessions.
    pub(crate) channels: u16,
    /// The server's unpack implementation.
    pub(crate) unpack: String,
}

impl<'a> ConnectedEnd<'a> {
    /// Waits until both ends have called this: both connect, and neither says goodbye before. Later
    /// messages travel over the session.
    pub(super) fn new(
        rendezvous: &RendezvousLink,
        session: &'a Session,
        role: Role,
        memory: Memory,
        unpack: String,
    ) -> Result<Self, Failure> {
        let name = role.other().name();
        let mut link = rendezvous.over(session, name);
        link.send(&Connected)?;
        let Connected = link.receive()?;
        link.limit(None);
        let peer = session.stats().peers.into_iter().rfind(|peer| peer.name == name);
        // At most 64.
        let channels = peer.map_or(0, |peer| peer.channels.len() as u16);
        Ok(Self { link, session, role, memory, channels, unpack })
    }

    /// Returns the other end's name in the session.
    pub(crate) fn peer(&self) -> &'static str {
        self.role.other().name()
    }

    /// Closes the connection of the two sessions in order.
    pub(super) fn disconnect(&self) -> Result<(), Failure> {
        Ok(self.session.disconnect(self.peer())?)
    }
}
