//! Steps of the server.

use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use tcpx_core::Session;

use super::connected_end::ConnectedEnd;
use super::link::{RendezvousLink, decode};
use super::message::{Answer, Request};
use super::role::Role;
use super::token::Token;
use crate::failure::Failure;
use crate::session::Memory;

/// Greets the client, and reads its request.
pub(super) fn receive_request(
    link: &mut RendezvousLink,
    token: Option<&Token>,
) -> Result<Request, Failure> {
    link.greet(Role::Server, token)?;
    tracing::debug!(client = %link.peer(), "Bootstrap connection established, sending handle");
    link.receive()
}

impl Request {
    /// Returns the plan of the client, if it runs the same `command`.
    pub(super) fn plan<P: DeserializeOwned>(&self, command: &str) -> Result<P, Failure> {
        let asked = &self.command;
        if asked != command {
            return Err(Failure::RefusedHere(format!(
                "the server runs `tcpx {command}`, the client `tcpx {asked}`; start the same on \
                 both"
            )));
        }
        decode(&self.plan)
            .ok_or_else(|| Failure::RefusedHere("the client's plan cannot be read".into()))
    }
}

/// Sends a refusal, and returns the failure of this end.
pub(super) fn refuse(link: &mut RendezvousLink, failure: &Failure) -> Failure {
    let reason = failure.one_line();
    match link.send(&Answer::Refused { reason: reason.clone() }) {
        Ok(()) => Failure::RefusedHere(reason),
        Err(failure) => failure,
    }
}

/// Refuses a client because the server has another one. Returns the failure of this end.
pub(super) fn refuse_as_busy(link: &mut RendezvousLink, with: SocketAddr) -> Failure {
    match link.send(&Answer::Busy { with: with.to_string() }) {
        Ok(()) => Failure::RefusedHere(format!("the server is busy with {with}")),
        Err(failure) => failure,
    }
}

/// Accepts the request, and connects `session`, whose address is `conn_info`.
pub(super) fn accept<'a>(
    link: &mut RendezvousLink,
    memory: Memory,
    session: &'a Session,
    conn_info: Vec<u8>,
) -> Result<ConnectedEnd<'a>, Failure> {
    let unpack = session.stats().unpack;
    link.send(&Answer::Accepted { conn_info, unpack: unpack.clone() })?;
    let client = Role::Client.name();
    session.start_accept(client)?;
    link.wait_for_session(session, client, "waiting for its session to connect")?;
    ConnectedEnd::new(link, session, Role::Server, memory, unpack)
}

#[cfg(test)]
mod tests {
    use super::super::client::ask;
    use super::*;
    use crate::budget::Budget;
    use crate::session::test_session;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_client_of_another_command_is_refused_with_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                let mut link = RendezvousLink::new(dialled, Budget::new(None)).unwrap();
                let (_, request) = test_session();
                link.greet(Role::Client, None).unwrap();
                ask(&mut link, "perf", request, &7).err().unwrap().to_string()
            });
            let mut link = RendezvousLink::new(accepted, Budget::new(None)).unwrap();
            let request = receive_request(&mut link, None).unwrap();
            assert_eq!(request.plan::<i32>("perf").unwrap(), 7);
            let unreadable = request.plan::<(i32, String)>("perf").unwrap_err();
            assert!(matches!(unreadable, Failure::RefusedHere(_)), "{unreadable}");
            let failure = request.plan::<()>("transfer").unwrap_err();
            let reason = refuse(&mut link, &failure).to_string();
            assert!(reason.contains("`tcpx transfer`") && reason.contains("`tcpx perf`"));
            assert_eq!(client.join().unwrap(), format!("the other end refused: {reason}"));
        });
    }
}
