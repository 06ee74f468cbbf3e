//! Connect attempts: a thread opens the sockets of one comm while the caller polls.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tcpx_comm::wire::{Hello, HelloReply, HelloStatus, SocketRole};
use tcpx_seal::exchange::{Answer, ExchangeError, Offer};
use tcpx_seal::secret::SharedSecret;
use tcpx_seal::suite::Suite;
use tcpx_sys::{unpace_within_host, without_forks};

use super::handle::ListenHandle;
use super::sockets::{Connection, Sockets};
use crate::failure::Failure;
use crate::hooks::{Side, hooks};
use crate::log;

/// Waited for after the first reset; twice as long after each further one, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What polling a connect attempt gives.
#[derive(Debug)]
pub(crate) enum ConnectPoll {
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
    /// Starts the thread. It ends by itself after `timeout` at the latest. With a `secret`, which
    /// the listener has too, all is encrypted.
    pub(crate) fn start(
        from: Ipv4Addr,
        handle: ListenHandle,
        chunk_bytes: u32,
        secret: Option<SharedSecret>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let mut attempt = [0; 8];
        getrandom::fill(&mut attempt).map_err(|error| io::Error::other(error.to_string()))?;
        let dialer = Dialer {
            from,
            handle,
            attempt: u64::from_le_bytes(attempt),
            chunk_bytes,
            secret,
            deadline: Instant::now() + timeout,
        };
        let thread =
            std::thread::Builder::new().name("tcpx-soft-connect".to_owned()).spawn(move || {
                let sockets = dialer.dial_all();
                if let (Ok(sockets), Some(hooks)) = (&sockets, hooks().get()) {
                    std::thread::sleep(hooks.setup_delay(Side::Send, sockets.data.len() as u16));
                }
                sockets.map_err(|error| {
                    log::warn!("connect to {} failed: {error}", dialer.handle.address);
                    match error {
                        DialError::Refused(HelloStatus::Mismatch) | DialError::Keys(_) => {
                            Failure::Internal
                        }
                        DialError::Refused(_)
                        | DialError::Io(_)
                        | DialError::Foreign
                        | DialError::Reset { .. } => Failure::System,
                    }
                })
            })?;
        Ok(Self { thread: Some(thread) })
    }

    /// Looks for the answer without waiting.
    pub(crate) fn poll(&mut self) -> ConnectPoll {
        match self.thread.take_if(|thread| thread.is_finished()) {
            None => ConnectPoll::Pending,
            Some(thread) => ConnectPoll::Over(thread.join().unwrap_or_else(|_| {
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
    Refused(HelloStatus),
    #[error("the listener is not the software plugin")]
    Foreign,
    #[error("the connection cannot be encrypted: {0}")]
    Keys(#[from] ExchangeError),
    #[error("no answer within the time allowed; the last of {times} resets: {last}")]
    Reset { times: u32, last: io::Error },
}

/// Returns whether a connection ended because its other end had no time or no room for it.
fn is_reset(error: &io::Error) -> bool {
    // A write after the reset was reported is a broken pipe.
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

struct Dialer {
    from: Ipv4Addr,
    handle: ListenHandle,
    attempt: u64,
    chunk_bytes: u32,
    secret: Option<SharedSecret>,
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
        Ok(Sockets { control, data, chunk_bytes: self.chunk_bytes, steering: None })
    }

    /// Tries until the deadline while the listener resets the connection. It does so where stray
    /// connections take the room of a connection that has not said hello yet; so may a device in
    /// between. Where no process listens any more, the next try is refused.
    fn dial(&self, role: SocketRole) -> Result<Connection, DialError> {
        let mut pause = FIRST_PAUSE;
        let mut times = 0;
        loop {
            let last = match self.try_once(role) {
                Err(DialError::Io(error)) if is_reset(&error) => error,
                answer => return answer,
            };
            times += 1;
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left <= pause {
                return Err(DialError::Reset { times, last });
            }
            log::warn!("connect to {}: {last}; trying again", self.handle.address);
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn try_once(&self, role: SocketRole) -> Result<Connection, DialError> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&SocketAddrV4::new(self.from, 0).into())?;
        let to = (*self.handle.address.ip()).into();
        unpace_within_host(&socket, Some(self.from.into()), to);
        socket.connect_timeout(&self.handle.address.into(), self.time_left()?)?;
        socket.set_tcp_nodelay(true)?;
        let mut socket = TcpStream::from(socket);
        let hello = Hello {
            id: self.handle.id,
            attempt: self.attempt,
            role,
            sockets: self.handle.sockets,
            recv_sync: self.handle.recv_sync,
            encrypted: self.secret.is_some(),
            chunk_bytes: self.chunk_bytes,
        }
        .encode();
        let offer = |secret| without_forks(|| Offer::new(secret, Suite::fastest(), &hello));
        let offer = self.secret.as_ref().map(offer).transpose()?;
        socket.set_write_timeout(Some(self.time_left()?))?;
        let said = [&hello[..], offer.as_ref().map_or(&[], |offer| offer.bytes())].concat();
        socket.write_all(&said)?;
        let mut reply = [0; HelloReply::BYTES];
        self.read_all(&mut socket, &mut reply)?;
        match HelloReply::decode(&reply, self.attempt).ok_or(DialError::Foreign)?.status {
            HelloStatus::Accepted => {}
            refusal => return Err(DialError::Refused(refusal)),
        }
        let keys = match offer {
            None => None,
            Some(offer) => {
                let mut answer = [0; Answer::BYTES];
                self.read_all(&mut socket, &mut answer)?;
                Some(Box::new(offer.finish(&reply, &answer)?))
            }
        };
        socket.set_nonblocking(true)?;
        Ok(Connection { socket, keys })
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

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use socket2::SockRef;

    use super::*;
    use tcpx_comm::wire::ConnectionId;

    fn dialer(listener: &TcpListener, timeout: Duration) -> Dialer {
        let SocketAddr::V4(address) = listener.local_addr().expect("address") else {
            panic!("not IPv4");
        };
        let id = ConnectionId([7; 16]);
        Dialer {
            from: Ipv4Addr::LOCALHOST,
            handle: ListenHandle { address, sockets: 1, threads: 1, recv_sync: false, id },
            attempt: 5,
            chunk_bytes: 4096,
            secret: None,
            deadline: Instant::now() + timeout,
        }
    }

    fn listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")
    }

    fn reset(socket: &TcpStream) {
        SockRef::from(socket).set_linger(Some(Duration::ZERO)).expect("linger");
    }

    #[test]
    fn a_connection_that_is_reset_is_tried_again() {
        let listener = listener();
        let dialer = dialer(&listener, Duration::from_secs(60));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Before its hello, in the middle of it, after it.
                for bytes in [0, 20, Hello::BYTES] {
                    let (mut socket, _) = listener.accept().expect("a try");
                    socket.read_exact(&mut vec![0; bytes]).expect("a hello");
                    reset(&socket);
                }
                let (mut socket, _) = listener.accept().expect("a try");
                socket.read_exact(&mut [0; Hello::BYTES]).expect("a hello");
                let answer = HelloReply { attempt: 5, status: HelloStatus::Accepted };
                socket.write_all(&answer.encode()).expect("an answer");
            });
            dialer.dial(SocketRole::Control).expect("connected");
        });
    }

    #[test]
    fn a_reset_by_a_listener_that_is_gone_is_final_at_once() {
        let listener = listener();
        let dialer = dialer(&listener, Duration::from_secs(60));
        std::thread::scope(|scope| {
            scope.spawn(move || reset(&listener.accept().expect("a try").0));
            let error = dialer.dial(SocketRole::Control).expect_err("no listener");
            assert!(error.to_string().starts_with("Connection refused"), "{error}");
        });
    }

    #[test]
    fn endless_resets_are_reported_at_the_deadline() {
        let listener = listener();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for socket in listener.incoming() {
                    let mut socket = socket.expect("a try");
                    if socket.read(&mut [0]).is_ok_and(|count| count == 0) {
                        return;
                    }
                    reset(&socket);
                }
            });
            // A machine that stands still for longer than a short time has not tried within it.
            let said = [100, 1000, 10_000, 100_000].into_iter().find_map(|millis| {
                let dialer = dialer(&listener, Duration::from_millis(millis));
                match dialer.dial(SocketRole::Control).expect_err("always reset") {
                    DialError::Io(error) if error.kind() == io::ErrorKind::TimedOut => None,
                    error => Some(error),
                }
            });
            let address = listener.local_addr().expect("address");
            drop(TcpStream::connect(address).expect("the listener ends"));
            let error = said.expect("an answer");
            assert!(matches!(error, DialError::Reset { times: 1.., .. }), "{error}");
            assert!(error.to_string().contains("Connection reset by peer"), "{error}");
        });
    }

    #[test]
    fn a_close_without_a_reply_is_final() {
        let listener = listener();
        let dialer = dialer(&listener, Duration::from_secs(60));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut socket, _) = listener.accept().expect("a try");
                socket.read_exact(&mut [0; Hello::BYTES]).expect("a hello");
            });
            let error = dialer.dial(SocketRole::Control).expect_err("not welcome");
            assert!(error.to_string().contains("may have a peer already"), "{error}");
        });
    }
}
