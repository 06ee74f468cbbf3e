//! Connect attempts: a thread opens the sockets of one comm while the caller polls.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tcpx_comm::wire::{Answer, Hello, SocketRole, Verdict};

use super::congestion;
use super::handle::ListenHandle;
use super::sockets::Sockets;
use crate::failure::Failure;
use crate::log;

/// What polling a connect attempt gives.
#[derive(Debug)]
pub(crate) enum Connected {
    /// Not yet.
    Pending,
    /// The final answer.
    Over(Result<Sockets, Failure>),
}

/// One attempt to become the peer of a listen comm.
#[derive(Debug)]
pub(crate) struct ConnectAttempt {
    thread: Option<JoinHandle<Result<Sockets, Failure>>>,
}

impl ConnectAttempt {
    /// Starts the thread. It ends by itself after `timeout` at the latest, and when it has
    /// connected, `pause` after that.
    pub(crate) fn start(
        from: Ipv4Addr,
        handle: ListenHandle,
        chunk_bytes: u32,
        timeout: Duration,
        pause: Duration,
    ) -> io::Result<Self> {
        let mut attempt = [0; 8];
        getrandom::fill(&mut attempt).map_err(|error| io::Error::other(error.to_string()))?;
        let dialer = Dialer {
            from,
            handle,
            attempt: u64::from_le_bytes(attempt),
            chunk_bytes,
            deadline: Instant::now() + timeout,
        };
        let thread =
            std::thread::Builder::new().name("tcpx-soft-connect".to_owned()).spawn(move || {
                let sockets = dialer.dial_all();
                if sockets.is_ok() {
                    std::thread::sleep(pause);
                }
                sockets.map_err(|error| {
                    log::warn!("connect to {} failed: {error}", dialer.handle.address);
                    match error {
                        DialError::Refused(Verdict::Mismatch) => Failure::Internal,
                        DialError::Refused(_) | DialError::Io(_) | DialError::Foreign => {
                            Failure::System
                        }
                    }
                })
            })?;
        Ok(Self { thread: Some(thread) })
    }

    /// Looks for the answer without waiting.
    pub(crate) fn poll(&mut self) -> Connected {
        match self.thread.take_if(|thread| thread.is_finished()) {
            None => Connected::Pending,
            Some(thread) => Connected::Over(thread.join().unwrap_or_else(|_| {
                log::warn!("the connect thread panicked");
                Err(Failure::System)
            })),
        }
    }
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the listener refused: {0:?}")]
    Refused(Verdict),
    #[error("what answered is not the software plugin")]
    Foreign,
}

struct Dialer {
    from: Ipv4Addr,
    handle: ListenHandle,
    attempt: u64,
    chunk_bytes: u32,
    deadline: Instant,
}

impl Dialer {
    /// Opens the control socket first, which claims the listen comm, and then the data sockets from
    /// the last to the first.
    fn dial_all(&self) -> Result<Sockets, DialError> {
        let control = self.dial(SocketRole::Control)?;
        let mut data = (0..self.handle.sockets)
            .rev()
            .map(|index| self.dial(SocketRole::Data(index)))
            .collect::<Result<Vec<_>, _>>()?;
        data.reverse();
        Ok(Sockets { control, data, chunk_bytes: self.chunk_bytes })
    }

    fn dial(&self, role: SocketRole) -> Result<TcpStream, DialError> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&SocketAddrV4::new(self.from, 0).into())?;
        congestion::prepare(&socket, self.from, *self.handle.address.ip());
        socket.connect_timeout(&self.handle.address.into(), self.time_left()?)?;
        socket.set_tcp_nodelay(true)?;
        let mut socket = TcpStream::from(socket);
        let hello = Hello {
            id: self.handle.id,
            attempt: self.attempt,
            role,
            sockets: self.handle.sockets,
            recv_sync: self.handle.recv_sync,
            chunk_bytes: self.chunk_bytes,
        };
        socket.set_write_timeout(Some(self.time_left()?))?;
        socket.write_all(&hello.encode())?;
        let mut answer = [0; Answer::BYTES];
        self.read_all(&mut socket, &mut answer)?;
        match Answer::decode(&answer, self.attempt).ok_or(DialError::Foreign)?.verdict {
            Verdict::Accepted => {}
            refusal => return Err(DialError::Refused(refusal)),
        }
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Like `read_exact`, with one deadline for all of it instead of one per read.
    fn read_all(&self, socket: &mut TcpStream, mut place: &mut [u8]) -> Result<(), DialError> {
        while !place.is_empty() {
            socket.set_read_timeout(Some(self.time_left()?))?;
            match socket.read(place) {
                Ok(0) => {
                    let gone = "the listener closed the connection; it may have a peer already";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, gone).into());
                }
                Ok(count) => place = &mut place[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel's word for a read that timed out.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Never zero: that would mean no limit to the socket calls.
    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no answer within the time allowed",
            ));
        }
        Ok(left)
    }
}
