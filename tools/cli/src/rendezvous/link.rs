//! Link between the two ends: whole messages, each with a deadline. They meet over a socket, and go
//! on over their session.

use std::io::{ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use tcpx_core::{Error, MAX_NOTIFICATION_BYTES, Session};
use tcpx_wire::frame::{self, SplitFrame};

use super::message::{Abort, Greeting, Message, Proof, RELEASE, VERSION, name};
use super::message_transport::{MessageTransport, TimedTransport};
use super::notification_stream::NotificationStream;
use super::role::Role;
use super::token::Token;
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};
use crate::session::RESULT_LIMIT;

/// Longest wait for the other end's reason after a failure.
const REASON_LIMIT: Duration = Duration::from_millis(500);
/// Longest reason that is sent, in characters.
const REASON_CHARS: usize = 2000;

/// Connection over which two ends meet, until both sessions are connected.
pub(super) type RendezvousLink = Link<TcpStream>;
/// Connection of the two sessions.
pub(crate) type SessionLink<'a> = Link<NotificationStream<'a>>;

/// Connection with the other end, over a socket or over the session.
#[derive(Debug)]
pub(crate) struct Link<W> {
    transport: W,
    peer: SocketAddr,
    local_ip: IpAddr,
    budget: Budget,
    /// One deadline for the whole rendezvous; afterwards each message is a step of its own.
    rendezvous: Option<Deadline>,
}

impl RendezvousLink {
    /// The rendezvous is one step of the command, and later each message is.
    pub(super) fn new(stream: TcpStream, budget: Budget) -> Result<Self, Failure> {
        let ask = || Failure::io("asking for the connection's addresses");
        stream.set_nonblocking(false).map_err(ask())?;
        stream.set_nodelay(true).map_err(ask())?;
        let peer = stream.peer_addr().map_err(ask())?;
        let local_ip = stream.local_addr().map_err(ask())?.ip();
        Ok(Self { transport: stream, peer, local_ip, budget, rendezvous: Some(budget.step()) })
    }

    /// Returns the link of the same two ends over their session, in which the other end is called
    /// `name`.
    pub(super) fn over<'a>(&self, session: &'a Session, name: &'static str) -> SessionLink<'a> {
        let Self { peer, local_ip, budget, rendezvous, .. } = *self;
        Link {
            transport: NotificationStream::new(session, name),
            peer,
            local_ip,
            budget,
            rendezvous,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.transport
    }

    /// Greets the other end. Both ends send the version of their messages, and prove that they know
    /// the token if they have one. The client proves first, so that a host without the token learns
    /// nothing.
    pub(super) fn greet(&mut self, role: Role, token: Option<&Token>) -> Result<(), Failure> {
        let own = Greeting::own(token.is_some())?;
        self.send(&own)?;
        let theirs = self.receive_greeting()?;
        let peer = self.peer;
        let token = match (token, theirs.wants_proof) {
            (None, false) => return Ok(()),
            (None, true) => return Err(ConnectionError::TokenWanted { peer }.into()),
            (Some(_), false) => return Err(ConnectionError::NoTokenWanted { peer }.into()),
            (Some(token), true) => token,
        };
        let (client, server) = match role {
            Role::Client => (&own.nonce, &theirs.nonce),
            Role::Server => (&theirs.nonce, &own.nonce),
        };
        let proof = Proof(token.proof(role, client, server));
        if role == Role::Client {
            self.send(&proof)?;
        }
        let Proof(shown) = self.receive()?;
        if !token.is_proven(&shown, role.other(), client, server) {
            return Err(ConnectionError::OtherToken { peer }.into());
        }
        if role == Role::Server {
            self.send(&proof)?;
        }
        Ok(())
    }

    fn receive_greeting(&mut self) -> Result<Greeting, Failure> {
        let (kind, body) =
            self.next(name(Greeting::KIND), Greeting::BODY_LIMIT, self.deadline())?;
        let theirs = Greeting::read(&body).filter(|_| kind == Greeting::KIND);
        match theirs.ok_or_else(|| self.garbage("it sent no greeting".into()))? {
            greeting @ Greeting { version: VERSION, .. } => Ok(greeting),
            Greeting { version: their_version, release: theirs, .. } => {
                let (peer, ours, our_version) = (self.peer, RELEASE, VERSION);
                let other = ConnectionError::OtherRelease {
                    peer,
                    theirs,
                    ours,
                    their_version,
                    our_version,
                };
                Err(other.into())
            }
        }
    }
}

impl SessionLink<'_> {
    /// Returns the next notification of a measurement. An abort of the other end is an error.
    pub(crate) fn next_notification(&mut self) -> Result<Vec<u8>, Failure> {
        let deadline = self.deadline();
        let note = self.transport.take(deadline);
        let note = note.map_err(|error| self.unread(error, "notification", deadline))?;
        match frame::split(&note, MAX_NOTIFICATION_BYTES as usize) {
            Ok(Some(SplitFrame { kind: Abort::KIND, body, taken })) if taken == note.len() => {
                Err(Failure::OtherEnd(self.decode::<Abort>(body)?.0))
            }
            _ => Ok(note),
        }
    }
}

impl<W: MessageTransport> Link<W> {
    /// Returns this end's address: the network that the data should use.
    pub(crate) fn local_ip(&self) -> IpAddr {
        self.local_ip
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the command's time.
    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Sets the deadline of the rendezvous; `None` once it is over: then each message has a
    /// deadline of its own.
    pub(super) fn limit(&mut self, rendezvous: Option<Deadline>) {
        self.rendezvous = rendezvous;
    }

    pub(crate) fn send<M: Message>(&mut self, message: &M) -> Result<(), Failure> {
        self.write(&framed(message)?, name(M::KIND))
    }

    /// Returns the next message, which must be an `M`. An abort of the other end is an error.
    pub(crate) fn receive<M: Message>(&mut self) -> Result<M, Failure> {
        let awaited = name(M::KIND);
        match self.next(awaited, M::BODY_LIMIT, self.deadline())? {
            (kind, body) if kind == M::KIND => self.decode(&body),
            (Abort::KIND, body) => Err(Failure::OtherEnd(self.decode::<Abort>(&body)?.0)),
            (kind, _) => {
                let got = name(kind);
                Err(self.garbage(format!("it sent its {got} where its {awaited} was due")))
            }
        }
    }

    /// Exchanges failures with the other end after a failure here, and returns the one of the end
    /// that failed first.
    pub(super) fn exchange_failures(&mut self, failure: Failure) -> Failure {
        if failure.is_known_to_other_end() {
            return failure;
        }
        if failure.may_be_a_symptom()
            && let Some(reason) = self.receive_reason()
        {
            return Failure::OtherEnd(reason);
        }
        // The deadline may have passed; this one message has a short one of its own.
        self.rendezvous = Some(self.budget.reason_exchange(REASON_LIMIT));
        let reason = failure.one_line().chars().take(REASON_CHARS).collect();
        // The other end may be gone already.
        if let Err(error) = self.send(&Abort(reason)) {
            tracing::debug!(%error, "the reason was not sent to the other end");
        }
        failure
    }

    /// Returns the reason with which the other end aborts, if it sends one in time.
    fn receive_reason(&mut self) -> Option<String> {
        let deadline = self.budget.reason_exchange(REASON_LIMIT);
        loop {
            // Results may still arrive before it.
            match self.next("reason", RESULT_LIMIT, deadline).ok()? {
                (Abort::KIND, body) => {
                    return self.decode::<Abort>(&body).ok().map(|abort| abort.0);
                }
                _ => continue,
            }
        }
    }

    fn next(
        &mut self,
        awaited: &'static str,
        body_limit: usize,
        deadline: Deadline,
    ) -> Result<(u16, Vec<u8>), Failure> {
        frame::read(&mut TimedTransport { transport: &mut self.transport, deadline }, body_limit)
            .and_then(|frame| frame.ok_or_else(|| ErrorKind::UnexpectedEof.into()))
            .map_err(|error| self.unread(error, awaited, deadline))
    }

    fn decode<M: Message>(&self, body: &[u8]) -> Result<M, Failure> {
        let reason = || format!("its {} of {} bytes cannot be read", name(M::KIND), body.len());
        decode(body).ok_or_else(|| self.garbage(reason()))
    }

    fn garbage(&self, reason: String) -> Failure {
        ConnectionError::Garbage { peer: self.peer, reason }.into()
    }

    fn failed(&self, error: std::io::Error) -> Failure {
        match error.downcast::<Error>() {
            Ok(error) => error.into(),
            Err(error) => Failure::io(format!("connection with {} failed", self.peer))(error),
        }
    }

    fn deadline(&self) -> Deadline {
        self.rendezvous.unwrap_or_else(|| self.budget.step())
    }

    fn write(&mut self, bytes: &[u8], sent: &'static str) -> Result<(), Failure> {
        let (peer, waited) = (self.peer, self.deadline());
        let written =
            TimedTransport { transport: &mut self.transport, deadline: waited }.write_all(bytes);
        written.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ConnectionError::Stuck { peer, sent, waited }.into()
            }
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                ConnectionError::Closed { peer, doing: format!("sending its {sent}") }.into()
            }
            _ => self.failed(error),
        })
    }

    /// Returns the reason why reading failed.
    fn unread(&self, error: std::io::Error, awaited: &'static str, waited: Deadline) -> Failure {
        let peer = self.peer;
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ConnectionError::Silent { peer, awaited, waited }.into()
            }
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                let doing = format!("waiting for its {awaited}");
                ConnectionError::Closed { peer, doing }.into()
            }
            ErrorKind::InvalidData => self.garbage(error.to_string()),
            _ => self.failed(error),
        }
    }
}

/// Returns a message as it travels.
pub(crate) fn framed<M: Message>(message: &M) -> Result<Vec<u8>, Failure> {
    let body = encode(message)?;
    let mut bytes = Vec::with_capacity(frame::HEADER_BYTES + body.len());
    frame::append(&mut bytes, M::KIND, |out| out.extend_from_slice(&body));
    Ok(bytes)
}

/// Returns the body of a message, in postcard's format.
pub(super) fn encode<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Failure> {
    let failed = Failure::io("writing a message");
    postcard::to_allocvec(value).map_err(|error| failed(std::io::Error::other(error)))
}

/// Returns the value in a body, which must use up the body.
pub(super) fn decode<T: serde::de::DeserializeOwned>(body: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
