//! The client's steps.

use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use tcpx_core::Session;

use super::agreed::{Agreed, Agreement};
use super::link::{DoorLink, encode};
use super::message::{Answer, Request};
use super::role::Role;
use super::token::Token;
use crate::failure::{ConnectionError, Failure};
use crate::session::SessionRequest;

/// How often a server is dialled that hangs up before it has said anything, and how long after.
const MOST_DIALS: u32 = 10;
const DIAL_AGAIN: Duration = Duration::from_millis(100);

/// A server that speaks this protocol is at the other end.
pub(super) struct Reached<'a> {
    link: &'a mut DoorLink,
}

/// The server knows what this end wants.
pub(super) struct Asked<'a> {
    link: &'a mut DoorLink,
    session: SessionRequest,
}

/// The server wants it too, and its session waits.
pub(super) struct Accepted<'a> {
    link: &'a mut DoorLink,
    agreement: Agreement,
    conn_info: Vec<u8>,
}

impl<'a> Reached<'a> {
    pub(super) fn new(link: &'a mut DoorLink, token: Option<&Token>) -> Result<Self, Failure> {
        link.greet(Role::Client, token)?;
        tracing::debug!(server = %link.peer(), "Bootstrap connection established");
        Ok(Self { link })
    }

    /// As `new`. A server to which many come at once hangs up on those that came first, so it is
    /// dialled again, a few times.
    pub(super) fn at_last(
        link: &'a mut DoorLink,
        token: Option<&Token>,
        mut dial: impl FnMut() -> Result<DoorLink, Failure>,
    ) -> Result<Self, Failure> {
        for _ in 1..MOST_DIALS {
            match link.greet(Role::Client, token) {
                Err(Failure::Connection(ConnectionError::Closed { peer, .. })) => {
                    tracing::debug!(server = %peer, "The server hung up; it is dialled again");
                    sleep(DIAL_AGAIN);
                    *link = dial()?;
                }
                greeted => return greeted.map(|()| Self { link }),
            }
        }
        Self::new(link, token)
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
    pub(super) fn connect<'s>(self, session: &'s Session) -> Result<Agreed<'s>, Failure> {
        let server = Role::Server.name();
        session.load_remote_conn_info(server, &self.conn_info)?;
        tracing::debug!("Connecting to the server's session");
        self.link.while_there(session, "connecting to its session", || session.connect(server))?;
        // Once it is lost nothing is to be said to it, so it is not to be connected again.
        session.forget_remote_conn_info(server)?;
        Agreed::new(self.link, session, self.agreement)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::budget::Budget;

    /// A server that hangs up on so many clients, and then greets one.
    fn server(listener: &TcpListener, hang_ups: u32) -> Option<DoorLink> {
        for _ in 0..hang_ups {
            drop(listener.accept().unwrap());
        }
        let stream = listener.accept().ok()?.0;
        let mut link = DoorLink::new(stream, Budget::new(None)).unwrap();
        link.greet(Role::Server, None).unwrap();
        Some(link)
    }

    #[test]
    fn a_server_that_hangs_up_is_dialled_again_for_a_while() {
        for hang_ups in [0, MOST_DIALS - 1, MOST_DIALS] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let dial = || DoorLink::new(TcpStream::connect(address).unwrap(), Budget::new(None));
            let is_reached = std::thread::scope(|scope| {
                let server = scope.spawn(|| server(&listener, hang_ups));
                let mut link = dial().unwrap();
                let reached = Reached::at_last(&mut link, None, dial);
                let is_reached = reached.is_ok();
                if let Err(failure) = reached {
                    let text = failure.to_string();
                    assert!(text.contains("closed the connection"), "{text}");
                    // The server waits for one more.
                    dial().unwrap().greet(Role::Client, None).unwrap();
                }
                server.join().unwrap();
                is_reached
            });
            assert_eq!(is_reached, hang_ups < MOST_DIALS, "{hang_ups}");
        }
    }
}
