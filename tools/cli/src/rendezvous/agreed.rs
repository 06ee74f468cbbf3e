//! The last step of both ends: two connected sessions.

use std::ops::Deref;

use tcpx_core::Session;

use super::link::{DoorLink, SessionLink};
use super::message::Connected;
use super::role::Role;
use crate::failure::Failure;
use crate::session::Memory;

/// What both ends know once their sessions are connected.
pub(crate) struct Agreement {
    /// Which end this is.
    pub(crate) role: Role,
    pub(crate) memory: Memory,
    /// Of the two sessions, once they are connected.
    pub(crate) channels: u16,
    /// The server's unpack implementation.
    pub(crate) unpack: String,
}

/// Two ends whose sessions are connected. Only the steps of a rendezvous make one.
pub(crate) struct Agreed<'a> {
    pub(crate) link: SessionLink<'a>,
    pub(crate) session: &'a Session,
    agreement: Agreement,
}

impl<'a> Agreed<'a> {
    /// Returns once both ends have come here: connected is what both call so, and neither says
    /// goodbye before. What is said from now on goes over the session.
    pub(super) fn new(
        door: &DoorLink,
        session: &'a Session,
        mut agreement: Agreement,
    ) -> Result<Self, Failure> {
        let mut link = door.over(session, agreement.role.other().name());
        link.send(&Connected)?;
        let Connected = link.receive()?;
        link.end_rendezvous();
        let mut peers = session.stats().peers.into_iter();
        let peer = peers.rfind(|peer| peer.name == agreement.role.other().name());
        // At most 64.
        agreement.channels = peer.map_or(0, |peer| peer.channels.len() as u16);
        Ok(Self { link, session, agreement })
    }

    /// The other end's name in the session.
    pub(crate) fn peer(&self) -> &'static str {
        self.role.other().name()
    }

    /// Closes the connection of the two sessions in order.
    pub(super) fn disconnect(&self) -> Result<(), Failure> {
        Ok(self.session.disconnect(self.peer())?)
    }
}

impl Deref for Agreed<'_> {
    type Target = Agreement;

    fn deref(&self) -> &Agreement {
        &self.agreement
    }
}
