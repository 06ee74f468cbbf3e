//! The last step of both ends: two connected sessions.

use tcpx_core::Session;

use super::args::Role;
use super::link::Link;
use super::message::Connected;
use crate::failure::Failure;
use crate::session::Memory;

/// What both ends know once their sessions are connected.
pub(super) struct Agreement {
    pub(super) memory: Memory,
    pub(super) channels: u16,
    /// The server's unpack implementation.
    pub(super) unpack: String,
}

/// Two ends whose sessions are connected. Only the steps of a rendezvous make one.
pub(crate) struct Agreed<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) session: &'a Session,
    role: Role,
    agreement: Agreement,
}

impl<'a> Agreed<'a> {
    /// Returns once both ends have come here: connected is what both call so, and neither says
    /// goodbye before.
    pub(super) fn new(
        link: &'a mut Link,
        session: &'a Session,
        role: Role,
        agreement: Agreement,
    ) -> Result<Self, Failure> {
        link.send(&Connected)?;
        let Connected = link.receive()?;
        link.end_rendezvous();
        Ok(Self { link, session, role, agreement })
    }

    /// Which end this is.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// The other end's name in the session.
    pub(crate) fn peer(&self) -> &'static str {
        match self.role {
            Role::Client => Role::Server.name(),
            Role::Server => Role::Client.name(),
        }
    }

    pub(crate) fn memory(&self) -> Memory {
        self.agreement.memory
    }

    pub(crate) fn channels(&self) -> u16 {
        self.agreement.channels
    }

    /// The server's unpack implementation.
    pub(crate) fn unpack(&self) -> &str {
        &self.agreement.unpack
    }

    /// Closes the connection of the two sessions in order.
    pub(super) fn disconnect(self) -> Result<(), Failure> {
        Ok(self.session.disconnect(self.peer())?)
    }
}
