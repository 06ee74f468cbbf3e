//! The connection between the two ends: whole messages, each with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tcpx_wire::frame;

use super::message::{Abort, Greeting, Message, Proof, RELEASE, RESULT_LIMIT, VERSION, name};
use super::role::Role;
use super::token::Token;
use super::watch::LinkWatch;
use crate::budget::Budget;
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};

/// How long the other end's reason is waited for once something broke, if there is time for it.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longest reason that is sent, in characters.
const REASON_CHARS: usize = 2000;

/// A connection with the other end.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    local_ip: IpAddr,
    budget: Budget,
    /// One deadline for the whole rendezvous; afterwards each message is a step of its own.
    rendezvous: Option<Deadline>,
}

impl Link {
    /// The rendezvous is one step of the command, and later each message is.
    pub(crate) fn new(stream: TcpStream, budget: Budget) -> Result<Self, Failure> {
        let ask = || Failure::io("asking for the connection's addresses");
        stream.set_nonblocking(false).map_err(ask())?;
        stream.set_nodelay(true).map_err(ask())?;
        let peer = stream.peer_addr().map_err(ask())?;
        let local_ip = stream.local_addr().map_err(ask())?.ip();
        let (stream, rendezvous) = (Arc::new(stream), Some(budget.step()));
        Ok(Self { stream, peer, local_ip, budget, rendezvous })
    }

    /// This end's address: the network that the data should use.
    pub(crate) fn local_ip(&self) -> IpAddr {
        self.local_ip
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The command's time.
    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Tells whether the other end is there while this one waits for something else.
    pub(crate) fn watch(&self) -> LinkWatch {
        LinkWatch::new(Arc::clone(&self.stream), self.peer, self.budget)
    }

    /// Both ends say which version of the messages they speak, and prove that they know the token
    /// if they have one: the client first, so that nobody learns anything from asking.
    pub(super) fn greet(&mut self, role: Role, token: Option<&Token>) -> Result<(), Failure> {
        let own = Greeting::own(token.is_some())?;
        self.send(&own)?;
        let theirs = self.hear_greeting()?;
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

    fn hear_greeting(&mut self) -> Result<Greeting, Failure> {
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

    /// The rendezvous is to be over by then.
    pub(super) fn limit(&mut self, deadline: Deadline) {
        self.rendezvous = Some(deadline);
    }

    /// Both ends are connected: from now on each message has a deadline of its own.
    pub(super) fn end_rendezvous(&mut self) {
        self.rendezvous = None;
    }

    pub(crate) fn send<M: Message>(&mut self, message: &M) -> Result<(), Failure> {
        let body = encode(message)?;
        let mut bytes = Vec::with_capacity(frame::HEADER_BYTES + body.len());
        frame::append(&mut bytes, M::KIND, |out| out.extend_from_slice(&body));
        self.write(&bytes, name(M::KIND))
    }

    /// The next message, which has to be of this kind. An abort of the other end is an error here.
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

    /// After a failure here: lets the two ends know of each other's. The one that failed first has
    /// the reason.
    pub(super) fn explain(&mut self, failure: Failure) -> Failure {
        if failure.is_known_to_other_end() {
            return failure;
        }
        if failure.may_be_a_symptom()
            && let Some(reason) = self.last_words()
        {
            return Failure::OtherEnd(reason);
        }
        // The deadline may be what failed, and a word more does not wait for long.
        self.rendezvous = Some(self.budget.last_words(LAST_WORDS));
        let reason = failure.one_line().chars().take(REASON_CHARS).collect();
        // It may be gone already, which is no news.
        if let Err(error) = self.send(&Abort(reason)) {
            tracing::debug!(%error, "the other end was not told");
        }
        failure
    }

    /// What the other end said last, if it said why it ends.
    fn last_words(&mut self) -> Option<String> {
        let deadline = self.budget.last_words(LAST_WORDS);
        loop {
            // Results may still be on their way before it.
            match self.next("last words", RESULT_LIMIT, deadline).ok()? {
                (Abort::KIND, body) => {
                    return self.decode::<Abort>(&body).ok().map(|abort| abort.0);
                }
                _ => continue,
            }
        }
    }

    fn next(
        &self,
        awaited: &'static str,
        body_limit: usize,
        deadline: Deadline,
    ) -> Result<(u16, Vec<u8>), Failure> {
        frame::read(&mut self.reader(deadline), body_limit)
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
        Failure::io(format!("connection with {} failed", self.peer))(error)
    }

    fn deadline(&self) -> Deadline {
        self.rendezvous.unwrap_or_else(|| self.budget.step())
    }

    fn reader(&self, deadline: Deadline) -> Timed<'_> {
        Timed { stream: &self.stream, deadline }
    }

    fn write(&self, bytes: &[u8], sent: &'static str) -> Result<(), Failure> {
        let (peer, waited) = (self.peer, self.deadline());
        self.reader(waited).write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ConnectionError::Stuck { peer, sent, waited }.into()
            }
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                ConnectionError::Closed { peer, doing: format!("sending its {sent}") }.into()
            }
            _ => self.failed(error),
        })
    }

    /// Why reading failed.
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

/// A body in postcard's format.
pub(super) fn encode<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Failure> {
    let failed = Failure::io("writing a message");
    postcard::to_allocvec(value).map_err(|error| failed(std::io::Error::other(error)))
}

/// The value in a body, which must be used up by it.
pub(super) fn decode<T: serde::de::DeserializeOwned>(body: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// A stream that is read and written until a deadline, however slowly the bytes trickle.
struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Deadline,
}

impl Timed<'_> {
    fn left(&self) -> std::io::Result<Option<Duration>> {
        match self.deadline.left() {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(out)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
