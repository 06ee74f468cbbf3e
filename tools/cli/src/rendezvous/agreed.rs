//! Last step of both ends: two connected sessions.

use tcpx_core::Session;

use super::link::{DoorLink, SessionLink};
use super::message::Connected;
use super::role::Role;
use crate::failure::Failure;
use crate::session::Memory;

/// One end of a command, once both sessions are connected. Only a rendezvous makes one.
pub(crate) struct Agreed<'a> {
    pub(crate) link: SessionLink<'a>,
    pub(crate) session: &'a Session,
    /// End that this is.
    pub(crate) role: Role,
    pub(crate) memory: Memory,
    /// Of the two sessions.
    pub(crate) channels: u16,
    /// The server's unpack implementation.
    pub(crate) unpack: String,
}

impl<'a> Agreed<'a> {
    /// Returns once both ends have come here: both call connect, and neither says goodbye before.
    /// Later messages go over the session.
    pub(super) fn new(
        door: &DoorLink,
        session: &'a Session,
        role: Role,
        memory: Memory,
        unpack: String,
    ) -> Result<Self, Failure> {
        let name = role.other().name();
        let mut link = door.over(session, name);
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
