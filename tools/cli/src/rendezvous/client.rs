//! Steps of the client.

use std::thread::sleep;
use std::time::Duration;

use serde::Serialize;
use tcpx_core::Session;

use super::connected_end::ConnectedEnd;
use super::link::{RendezvousLink, encode};
use super::message::{Answer, Request};
use super::role::Role;
use super::token::Token;
use crate::failure::{ConnectionError, Failure};
use crate::session::{Memory, SessionRequest};

/// Most dials of a server that closes the connection before its greeting, and the pause after each.
const MAX_DIALS: u32 = 10;
const DIAL_PAUSE: Duration = Duration::from_millis(100);

/// Request that the server has accepted, and the address of its session.
pub(super) struct AcceptedRequest {
    memory: Memory,
    conn_info: Vec<u8>,
    unpack: String,
}

/// Greets the server. A server with many connections at once closes the oldest, so the client dials
/// again, a few times, where it can.
pub(super) fn greet(
    link: &mut RendezvousLink,
    token: Option<&Token>,
    mut dial: Option<impl FnMut() -> Result<RendezvousLink, Failure>>,
) -> Result<(), Failure> {
    for _ in 1..MAX_DIALS {
        match (link.greet(Role::Client, token), &mut dial) {
            (Err(Failure::Connection(ConnectionError::Closed { peer, .. })), Some(dial)) => {
                tracing::debug!(server = %peer, "The server closed the connection; dialling again");
                sleep(DIAL_PAUSE);
                *link = dial()?;
            }
            (greeted, _) => return greeted,
        }
    }
    link.greet(Role::Client, token)
}

/// Sends the request of this end to a server that was greeted.
pub(super) fn ask(
    link: &mut RendezvousLink,
    command: &str,
    session: SessionRequest,
    plan: &impl Serialize,
) -> Result<AcceptedRequest, Failure> {
    tracing::debug!(server = %link.peer(), "Bootstrap connection established");
    let (command, plan, memory) = (command.to_owned(), encode(plan)?, session.memory);
    link.send(&Request { command, session, plan })?;
    match link.receive()? {
        Answer::Refused { reason } => Err(Failure::Refused(reason)),
        Answer::Busy { with } => Err(Failure::Busy(with)),
        Answer::Accepted { conn_info, unpack } => Ok(AcceptedRequest { memory, conn_info, unpack }),
    }
}

impl AcceptedRequest {
    /// Connects this end's session.
    pub(super) fn connect<'a>(
        self,
        link: &RendezvousLink,
        session: &'a Session,
    ) -> Result<ConnectedEnd<'a>, Failure> {
        let server = Role::Server.name();
        session.load_remote_conn_info(server, &self.conn_info)?;
        tracing::debug!("Connecting to the server's session");
        session.start_connect(server)?;
        link.wait_for_session(session, server, "connecting to its session")?;
        // A lost connection takes no more messages, so the session is not connected again.
        session.forget_remote_conn_info(server)?;
        ConnectedEnd::new(link, session, Role::Client, self.memory, self.unpack)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::budget::Budget;

    /// Closes the connections of the first `hang_ups` clients, and then greets one.
    fn server(listener: &TcpListener, hang_ups: u32) -> Option<RendezvousLink> {
        for _ in 0..hang_ups {
            drop(listener.accept().unwrap());
        }
        let stream = listener.accept().ok()?.0;
        let mut link = RendezvousLink::new(stream, Budget::new(None)).unwrap();
        link.greet(Role::Server, None).unwrap();
        Some(link)
    }

    #[test]
    fn a_server_that_closes_the_connection_is_dialled_again_for_a_while() {
        for hang_ups in [0, MAX_DIALS - 1, MAX_DIALS] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let dial =
                || RendezvousLink::new(TcpStream::connect(address).unwrap(), Budget::new(None));
            let is_reached = std::thread::scope(|scope| {
                let server = scope.spawn(|| server(&listener, hang_ups));
                let mut link = dial().unwrap();
                let reached = greet(&mut link, None, Some(dial));
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
            assert_eq!(is_reached, hang_ups < MAX_DIALS, "{hang_ups}");
        }
    }
}
