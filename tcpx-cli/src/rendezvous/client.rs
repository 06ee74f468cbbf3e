//! The client's steps.

use serde::Serialize;
use tcpx_core::Session;

use super::agreed::{Agreed, Agreement};
use super::link::{Link, encode};
use super::message::{Answer, Request};
use super::role::Role;
use super::token::Token;
use crate::failure::Failure;
use crate::session::SessionRequest;

/// A server that speaks this protocol is at the other end.
pub(super) struct Reached<'a> {
    link: &'a mut Link,
}

/// The server knows what this end wants.
pub(super) struct Asked<'a> {
    link: &'a mut Link,
    session: SessionRequest,
}

/// The server wants it too, and its session waits.
pub(super) struct Accepted<'a> {
    link: &'a mut Link,
    agreement: Agreement,
    conn_info: Vec<u8>,
}

impl<'a> Reached<'a> {
    pub(super) fn new(link: &'a mut Link, token: Option<&Token>) -> Result<Self, Failure> {
        link.greet(Role::Client, token)?;
        tracing::debug!(server = %link.peer(), "Bootstrap connection established");
        Ok(Self { link })
    }

    pub(super) fn ask(
        self,
        command: &str,
        session: SessionRequest,
        plan: &impl Serialize,
    ) -> Result<Asked<'a>, Failure> {
        let (command, plan) = (command.to_owned(), encode(plan)?);
        let request = Request { command, session, plan };
        self.link.send(&request)?;
        Ok(Asked { link: self.link, session: request.session })
    }
}

impl<'a> Asked<'a> {
    pub(super) fn answer(self) -> Result<Accepted<'a>, Failure> {
        let SessionRequest { memory, .. } = self.session;
        match self.link.receive()? {
            Answer::Refused { reason } => Err(Failure::Refused(reason)),
            Answer::Busy { with } => Err(Failure::Busy(with)),
            Answer::Accepted { conn_info, unpack } => {
                let agreement = Agreement { role: Role::Client, memory, channels: 0, unpack };
                Ok(Accepted { link: self.link, agreement, conn_info })
            }
        }
    }
}

impl<'a> Accepted<'a> {
    pub(super) fn connect(self, session: &'a Session) -> Result<Agreed<'a>, Failure> {
        let server = Role::Server.name();
        session.load_remote_conn_info(server, &self.conn_info)?;
        tracing::debug!("Connecting to the server's session");
        self.link
            .watch()
            .while_there(session, "connecting to its session", || session.connect(server))?;
        Agreed::new(self.link, session, self.agreement)
    }
}
