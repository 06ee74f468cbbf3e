//! The connection between the two ends: a greeting, then whole messages, each with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use tcpx_wire::frame;

use super::message::{Abort, Kind, Message};
use crate::deadline::Deadline;
use crate::failure::{ConnectionError, Failure};

/// Of every message format; 1 and 2 had frames of their own.
const VERSION: u8 = 3;
/// What each end sends first: magic, and the version as a u16, little-endian.
const GREETING: [u8; 10] = [b'T', b'C', b'P', b'X', b'B', b'O', b'O', b'T', VERSION, 0];
const GREETING_NAME: &str = "greeting";
/// How long the other end's reason is waited for once something broke.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longest reason that is sent, in characters.
const REASON_CHARS: usize = 2000;

/// A connection with the other end.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    peer: SocketAddr,
    local_ip: IpAddr,
    timeout: Duration,
    /// One deadline for the whole rendezvous; afterwards each message has its own.
    rendezvous: Option<Deadline>,
}

impl Link {
    /// The rendezvous has to be over within `timeout`, and later each message to be here.
    pub(crate) fn new(stream: TcpStream, timeout: Duration) -> Result<Self, Failure> {
        let ask = || Failure::io("asking for the connection's addresses");
        stream.set_nonblocking(false).map_err(ask())?;
        stream.set_nodelay(true).map_err(ask())?;
        let peer = stream.peer_addr().map_err(ask())?;
        let local_ip = stream.local_addr().map_err(ask())?.ip();
        let rendezvous = Some(Deadline::after(timeout));
        Ok(Self { stream, peer, local_ip, timeout, rendezvous })
    }

    /// This end's address: the network that the data should use.
    pub(crate) fn local_ip(&self) -> IpAddr {
        self.local_ip
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The deadline of each step after the rendezvous.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Both ends say which protocol they speak.
    pub(super) fn greet(&mut self) -> Result<(), Failure> {
        self.write(&GREETING, GREETING_NAME)?;
        let deadline = self.deadline();
        let mut greeting = [0; GREETING.len()];
        self.reader(deadline)
            .read_exact(&mut greeting)
            .map_err(|error| self.unread(error, GREETING_NAME, deadline))?;
        let ([magic @ .., v0, v1], [our_magic @ .., _, _]) = (greeting, GREETING);
        let reason = if magic != our_magic {
            format!("it began with \"{}\"", magic.escape_ascii())
        } else if greeting != GREETING {
            let version = u16::from_le_bytes([v0, v1]);
            format!("it speaks version {version} of it, this end version {VERSION}")
        } else {
            return Ok(());
        };
        Err(ConnectionError::Garbage { peer: self.peer, reason }.into())
    }

    /// Both ends are connected: from now on each message has a deadline of its own.
    pub(super) fn end_rendezvous(&mut self) {
        self.rendezvous = None;
    }

    pub(crate) fn send<M: Message>(&mut self, message: &M) -> Result<(), Failure> {
        let body = encode(message)?;
        let mut bytes = Vec::with_capacity(frame::HEADER_BYTES + body.len());
        frame::append(&mut bytes, M::KIND as u16, |out| out.extend_from_slice(&body));
        self.write(&bytes, M::KIND.name())
    }

    /// The next message, which has to be of this kind. An abort of the other end is an error here.
    pub(crate) fn receive<M: Message>(&mut self) -> Result<M, Failure> {
        let (kind, body) = self.next(M::KIND, self.deadline())?;
        let (peer, awaited) = (self.peer, M::KIND.name());
        match Kind::of(kind) {
            Some(kind) if kind == M::KIND => self.decode(&body),
            Some(Kind::Abort) => Err(Failure::OtherEnd(self.decode::<Abort>(&body)?.0)),
            kind => {
                let got = kind.map_or("unknown message", Kind::name);
                Err(ConnectionError::OutOfTurn { peer, got, awaited }.into())
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
        let reason = failure.one_line().chars().take(REASON_CHARS).collect();
        // It may be gone already, which is no news.
        if let Err(error) = self.send(&Abort(reason)) {
            tracing::debug!(%error, "the other end was not told");
        }
        failure
    }

    /// What the other end said last, if it said why it ends.
    fn last_words(&mut self) -> Option<String> {
        let deadline = Deadline::after(LAST_WORDS);
        loop {
            // Results may still be on their way before it.
            let (kind, body) = self.next(Kind::Times, deadline).ok()?;
            if Kind::of(kind) == Some(Kind::Abort) {
                return self.decode::<Abort>(&body).ok().map(|abort| abort.0);
            }
        }
    }

    /// The next frame, no longer than one of kind `awaited` may be.
    fn next(&self, awaited: Kind, deadline: Deadline) -> Result<(u16, Vec<u8>), Failure> {
        match frame::read(&mut self.reader(deadline), awaited.body_limit()) {
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => Err(self.unread(ErrorKind::UnexpectedEof.into(), awaited.name(), deadline)),
            Err(error) => Err(self.unread(error, awaited.name(), deadline)),
        }
    }

    fn decode<M: Message>(&self, body: &[u8]) -> Result<M, Failure> {
        decode(body).ok_or_else(|| {
            let reason = format!("its {} of {} bytes cannot be read", M::KIND.name(), body.len());
            ConnectionError::Garbage { peer: self.peer, reason }.into()
        })
    }

    fn deadline(&self) -> Deadline {
        self.rendezvous.unwrap_or_else(|| Deadline::after(self.timeout))
    }

    fn reader(&self, deadline: Deadline) -> Timed<'_> {
        Timed { stream: &self.stream, deadline }
    }

    fn write(&mut self, bytes: &[u8], sent: &'static str) -> Result<(), Failure> {
        let (peer, waited) = (self.peer, self.deadline());
        self.reader(waited).write_all(bytes).map_err(|error| {
            match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    ConnectionError::Stuck { peer, sent, waited }
                }
                _ => ConnectionError::Failed { peer, error },
            }
            .into()
        })
    }

    /// Why reading failed.
    fn unread(&self, error: std::io::Error, awaited: &'static str, waited: Deadline) -> Failure {
        let peer = self.peer;
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ConnectionError::Silent { peer, awaited, waited }
            }
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                ConnectionError::Closed { peer, awaited }
            }
            ErrorKind::InvalidData => ConnectionError::Garbage { peer, reason: error.to_string() },
            _ => ConnectionError::Failed { peer, error },
        }
        .into()
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
