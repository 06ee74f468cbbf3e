//! The server's steps.

use std::net::{IpAddr, SocketAddr};

use serde::de::DeserializeOwned;
use tcpx_core::Session;

use super::agreed::{Agreed, Agreement};
use super::link::{DoorLink, decode};
use super::message::{Answer, Request};
use super::role::Role;
use super::token::Token;
use crate::failure::Failure;
use crate::session::SessionRequest;

/// A client that speaks this protocol is at the other end.
pub(super) struct Greeted<'a> {
    link: &'a mut DoorLink,
}

/// This end knows what the client wants.
pub(super) struct Heard<'a> {
    link: &'a mut DoorLink,
    request: Request,
}

/// The client knows how to reach this end's session.
pub(super) struct Offered<'a, 's> {
    link: &'a mut DoorLink,
    session: &'s Session,
    agreement: Agreement,
}

impl<'a> Greeted<'a> {
    pub(super) fn new(link: &'a mut DoorLink, token: Option<&Token>) -> Result<Self, Failure> {
        link.greet(Role::Server, token)?;
        tracing::debug!(client = %link.peer(), "Bootstrap connection established, sending handle");
        Ok(Self { link })
    }

    pub(super) fn hear(self) -> Result<Heard<'a>, Failure> {
        let request = self.link.receive()?;
        Ok(Heard { link: self.link, request })
    }

    /// The request alone, for whoever goes on with it elsewhere.
    pub(super) fn hear_request(self) -> Result<Request, Failure> {
        Ok(self.hear()?.request)
    }
}

impl<'a> Heard<'a> {
    /// `request`: what was heard on `link`.
    pub(super) fn of(link: &'a mut DoorLink, request: Request) -> Self {
        Self { link, request }
    }

    /// What the client wants done, if it runs the same `command`.
    pub(super) fn plan<P: DeserializeOwned>(&self, command: &str) -> Result<P, Failure> {
        let asked = &self.request.command;
        if asked != command {
            return Err(Failure::Refusing(format!(
                "the server runs `tcpx {command}`, the client `tcpx {asked}`; start the same on \
                 both"
            )));
        }
        decode(&self.request.plan)
            .ok_or_else(|| Failure::Refusing("the client's plan cannot be read".into()))
    }

    pub(super) fn session(&self) -> &SessionRequest {
        &self.request.session
    }

    /// This end's address in the network that the client came by.
    pub(super) fn local_ip(&self) -> IpAddr {
        self.link.local_ip()
    }

    /// Says no. Returns what this end fails with.
    pub(super) fn refuse(self, failure: &Failure) -> Failure {
        let reason = failure.one_line();
        match self.link.send(&Answer::Refused { reason: reason.clone() }) {
            Ok(()) => Failure::Refusing(reason),
            Err(failure) => failure,
        }
    }

    /// Says that there is another client. Returns what this end fails with.
    pub(super) fn say_busy(self, with: SocketAddr) -> Failure {
        match self.link.send(&Answer::Busy { with: with.to_string() }) {
            Ok(()) => Failure::Refusing(format!("the server is busy with {with}")),
            Err(failure) => failure,
        }
    }

    /// Says yes. `conn_info`: how `session` is reached.
    pub(super) fn offer<'s>(
        self,
        session: &'s Session,
        conn_info: Vec<u8>,
    ) -> Result<Offered<'a, 's>, Failure> {
        let SessionRequest { memory, .. } = self.request.session;
        let unpack = session.stats().unpack;
        self.link.send(&Answer::Accepted { conn_info, unpack: unpack.clone() })?;
        let agreement = Agreement { role: Role::Server, memory, channels: 0, unpack };
        Ok(Offered { link: self.link, session, agreement })
    }
}

impl<'s> Offered<'_, 's> {
    pub(super) fn connect(self) -> Result<Agreed<'s>, Failure> {
        self.link.while_there(self.session, "waiting for its session to connect", || {
            self.session.accept(Role::Client.name())
        })?;
        Agreed::new(self.link, self.session, self.agreement)
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Reached;
    use super::*;
    use crate::budget::Budget;
    use crate::session::test_session;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_client_of_another_command_is_refused_and_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                let mut link = DoorLink::new(dialled, Budget::new(None)).unwrap();
                let (_, request) = test_session();
                let asked =
                    Reached::new(&mut link, None).unwrap().ask("perf", request, &7).unwrap();
                asked.answer().err().unwrap().to_string()
            });
            let mut link = DoorLink::new(accepted, Budget::new(None)).unwrap();
            let heard = Greeted::new(&mut link, None).unwrap().hear().unwrap();
            assert_eq!(heard.plan::<i32>("perf").unwrap(), 7);
            let unreadable = heard.plan::<(i32, String)>("perf").unwrap_err();
            assert!(matches!(unreadable, Failure::Refusing(_)), "{unreadable}");
            let failure = heard.plan::<()>("transfer").unwrap_err();
            let reason = heard.refuse(&failure).to_string();
            assert!(reason.contains("`tcpx transfer`") && reason.contains("`tcpx perf`"));
            assert_eq!(client.join().unwrap(), format!("the other end refused: {reason}"));
        });
    }
}
