//! One end of the connection: whole messages, each with a deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::frame::{self, HEADER_BYTES};
use super::{BootstrapError, Message};
use crate::failure::Failure;

/// How long the other end's reason is waited for once something broke.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A connection with the other end.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    peer: SocketAddr,
    local: IpAddr,
    timeout: Duration,
}

impl Link {
    pub(crate) fn new(stream: TcpStream, timeout: Duration) -> Result<Self, Failure> {
        let ask = || Failure::io("asking for the connection's addresses");
        stream.set_nonblocking(false).map_err(ask())?;
        stream.set_nodelay(true).map_err(ask())?;
        stream.set_write_timeout(Some(timeout)).map_err(ask())?;
        let peer = stream.peer_addr().map_err(ask())?;
        let local = stream.local_addr().map_err(ask())?.ip();
        Ok(Self { stream, peer, local, timeout })
    }

    /// This end's address: the network that the data should use.
    pub(crate) fn local_ip(&self) -> IpAddr {
        self.local
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The deadline of each step.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn send(&mut self, message: &Message) -> Result<(), BootstrapError> {
        let frame = frame::encode(message).map_err(|error| {
            let error = std::io::Error::other(format!("{}: {error}", message.name()));
            BootstrapError::Failed { peer: self.peer, error }
        })?;
        self.stream.write_all(&frame).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => BootstrapError::Stuck {
                peer: self.peer,
                sent: message.name(),
                waited: self.timeout,
            },
            _ => BootstrapError::Failed { peer: self.peer, error },
        })
    }

    /// The next message, if `pick` takes it. An abort of the other end is an error here.
    pub(crate) fn receive<T>(
        &mut self,
        awaited: &'static str,
        pick: impl FnOnce(Message) -> Result<T, Message>,
    ) -> Result<T, Failure> {
        match self.next(awaited, self.timeout)? {
            Message::Abort { reason } => Err(Failure::OtherEnd(reason)),
            message => pick(message).map_err(|message| {
                let got = message.name();
                BootstrapError::OutOfTurn { peer: self.peer, got, awaited }.into()
            }),
        }
    }

    /// Waits for the other end's "go".
    pub(crate) fn receive_go(&mut self) -> Result<(), Failure> {
        self.receive("go", |message| match message {
            Message::Go => Ok(()),
            other => Err(other),
        })
    }

    /// Returns once both ends have come here: connected is what both call so, and neither says goodbye before.
    pub(crate) fn meet(&mut self) -> Result<(), Failure> {
        self.send(&Message::Connected)?;
        self.receive("word that it is connected", |message| match message {
            Message::Connected => Ok(()),
            other => Err(other),
        })
    }

    fn next(
        &mut self,
        awaited: &'static str,
        timeout: Duration,
    ) -> Result<Message, BootstrapError> {
        let deadline = Instant::now() + timeout;
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header, awaited, timeout, deadline)?;
        let peer = self.peer;
        let garbage = |error| BootstrapError::Garbage { peer, error };
        let mut body = vec![0; frame::body_bytes(&header).map_err(garbage)?];
        self.fill(&mut body, awaited, timeout, deadline)?;
        frame::decode(&body).map_err(garbage)
    }

    /// Reads exactly `out`. The deadline is for all of it, however slowly it trickles in.
    fn fill(
        &mut self,
        mut out: &mut [u8],
        awaited: &'static str,
        waited: Duration,
        deadline: Instant,
    ) -> Result<(), BootstrapError> {
        let peer = self.peer;
        let silent = BootstrapError::Silent { peer, awaited, waited };
        while !out.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(silent);
            }
            let read =
                self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(out));
            match read {
                Ok(0) => return Err(BootstrapError::Closed { peer, awaited }),
                Ok(count) => out = &mut out[count..],
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Err(silent),
                    ErrorKind::ConnectionReset => {
                        return Err(BootstrapError::Closed { peer, awaited });
                    }
                    _ => return Err(BootstrapError::Failed { peer, error }),
                },
            }
        }
        Ok(())
    }

    /// Tells the other end why this one ends. It may be gone already, which is no news.
    pub(crate) fn abort(&mut self, reason: &str) {
        let reason: String = reason.chars().take(2000).collect();
        if let Err(error) = self.send(&Message::Abort { reason }) {
            tracing::debug!(%error, "the other end was not told");
        }
    }

    /// After something broke: what the other end said last, if it said why.
    pub(crate) fn last_words(&mut self) -> Option<String> {
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.next("last words", left).ok()? {
                Message::Abort { reason } => return Some(reason),
                _ => continue,
            }
        }
    }
}
