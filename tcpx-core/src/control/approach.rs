//! Approach to one address of a peer, until the listener there has spoken. Also the connection
//! attempt below it, and the errors of what is said there.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tcpx_protocol::frames::handshake_frame::HandshakeFrame;
use tcpx_protocol::frames::hello::HandshakeError;
use tcpx_sys::unpace_within_host;

use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Departure, DialFailure, Error, Phase};
use crate::reactor::Attention;
use crate::reactor::poller::{Poller, Target};
use crate::reactor::watch::{Events, Watched};

/// Shortest and longest time in which an address must answer a connection request.
const DIAL_TIMES: RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(60);

/// Returns the time in which an address must answer a connection request, as a share of the time of
/// a connect. An overloaded listener drops requests, and so do networks. The system repeats a
/// request after one second, and then after twice as long each time. The rest of the time is for
/// reporting the addresses that have not answered, and for the peer to connect by itself.
pub(super) fn dial_timeout(connect_timeout: Duration) -> Duration {
    (connect_timeout / 2).clamp(*DIAL_TIMES.start(), *DIAL_TIMES.end())
}

/// Approach to one address, and its progress.
#[derive(Debug)]
pub(super) struct Approach {
    address: SocketAddr,
    stage: ApproachStage,
}

#[derive(Debug)]
enum ApproachStage {
    /// A connection request is in flight.
    Dialing(Dialing),
    /// The connection is up, and the listener's challenge is awaited.
    AwaitChallenge(LinkSocket),
}

/// Outcome of a step.
#[derive(Debug)]
pub(super) enum ApproachStep {
    /// The approach goes on.
    Pending(Approach),
    /// The listener at the address has sent its first frame.
    Heard(LinkSocket, HandshakeFrame),
    /// The address does not lead to the peer.
    Failed(DialFailure),
}

impl Approach {
    /// Begins to connect, and gives up at `give_up_at`.
    pub(super) fn start(address: SocketAddr, give_up_at: Instant) -> Result<Self, DialFailure> {
        let dialing = Dialing::start(address, give_up_at);
        let dialing = dialing.map_err(|error| failed(address, &error))?;
        Ok(Self { address, stage: ApproachStage::Dialing(dialing) })
    }

    /// Returns whether the connection is up.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.stage, ApproachStage::AwaitChallenge(_))
    }

    /// Drives the approach one step.
    pub(super) fn step(self, now: Instant, host_timeout: Option<Duration>) -> ApproachStep {
        let Self { address, stage } = self;
        let pending = |stage| ApproachStep::Pending(Self { address, stage });
        match stage {
            ApproachStage::Dialing(dialing) => match dialing.is_connected() {
                Ok(true) => match LinkSocket::new(dialing.into_stream(), host_timeout, now) {
                    Ok(link) => pending(ApproachStage::AwaitChallenge(link)),
                    Err(error) => ApproachStep::Failed(failed(address, &error)),
                },
                Ok(false) if now < dialing.give_up_at => pending(ApproachStage::Dialing(dialing)),
                Ok(false) => ApproachStep::Failed(failed(address, &io::ErrorKind::TimedOut.into())),
                Err(error) => ApproachStep::Failed(failed(address, &error)),
            },
            ApproachStage::AwaitChallenge(mut link) => match link.receive(now) {
                Ok(None) => pending(ApproachStage::AwaitChallenge(link)),
                Ok(Some(frame)) => ApproachStep::Heard(link, frame),
                Err(error) => ApproachStep::Failed(lost(&link, &error)),
            },
        }
    }

    /// Registers the socket with the poller.
    pub(super) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        match &mut self.stage {
            ApproachStage::Dialing(dialing) => dialing.watch(poller, target),
            ApproachStage::AwaitChallenge(link) => link.watch(poller, target),
        }
    }

    /// Returns when to step, if no event comes earlier.
    pub(super) fn attention(&self) -> Attention {
        match &self.stage {
            ApproachStage::Dialing(dialing) => Attention {
                polls: dialing.must_be_polled(),
                timeout: Some(dialing.give_up_at),
                ..Attention::default()
            },
            ApproachStage::AwaitChallenge(link) => Attention {
                again: link.has_more(),
                polls: link.must_be_polled(),
                ..Attention::default()
            },
        }
    }
}

fn failed(address: SocketAddr, error: &io::Error) -> DialFailure {
    let address = address.to_string();
    DialFailure { address, kind: Some(error.kind()), error: error.to_string() }
}

/// Makes the failure for a link that ended. Either another program listens there, or the listener
/// went away.
pub(super) fn lost(link: &LinkSocket, error: &LinkError) -> DialFailure {
    let (kind, error) = match error {
        LinkError::Gone(how) => {
            let kind = if let Departure::LinkFailed { kind, .. } = how { *kind } else { None };
            (kind, how.to_string())
        }
        LinkError::Frame(error) => {
            (None, format!("it does not speak the control link protocol: {error}"))
        }
    };
    DialFailure { address: link.peer_address(), kind, error }
}

/// Makes the failure for a frame other than the expected one.
pub(super) fn unexpected(link: &LinkSocket, frame: &HandshakeFrame) -> DialFailure {
    let error = format!("unexpected answer {frame:?}");
    DialFailure { address: link.peer_address(), kind: None, error }
}

/// Makes the error for a peer that this end refuses.
pub(super) fn refused(peer: &str, error: &HandshakeError) -> Error {
    let peer = peer.to_owned();
    match error {
        HandshakeError::Encryption(mismatch) => {
            Error::Encryption { peer, problem: (*mismatch).into() }
        }
        _ => Error::Handshake { peer, reason: error.to_string() },
    }
}

/// Makes the error for a peer whose link has ended in the handshake. With a wrong secret it would
/// have ended earlier. So it is the peer, and no other address does better.
pub(super) fn gone(peer: &str, how: Departure) -> Error {
    Error::PeerGone { peer: peer.to_owned(), phase: Phase::Handshake, how }
}

/// Makes the error for a peer that refuses this end. "Here" and "there" in the reason are the
/// peer's.
pub(super) fn refused_by(peer: &str, reason: &str) -> Error {
    Error::Handshake { peer: peer.to_owned(), reason: format!("it says: {reason}") }
}

/// Connection attempt that never blocks.
#[derive(Debug)]
pub(crate) struct Dialing {
    socket: Watched<Socket>,
    pub(crate) give_up_at: Instant,
}

impl Dialing {
    /// Starts connecting.
    pub(crate) fn start(address: SocketAddr, give_up_at: Instant) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        unpace_within_host(&socket, None, address.ip());
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        Ok(Self { socket: Watched::new(socket), give_up_at })
    }

    /// Registers the attempt with the poller, which reports from now on when the connection is up
    /// or fails.
    pub(crate) fn watch(&mut self, poller: &Arc<Poller>, target: Target) {
        self.socket.watch(poller, Events::Write, target);
    }

    /// Returns whether the system does not report that.
    pub(crate) fn must_be_polled(&self) -> bool {
        !self.socket.is_watched()
    }

    /// Returns whether the connection is up.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.socket.into_inner().into()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Socket, Type};
    use tcpx_testkit::PATIENCE;

    use super::*;

    #[test]
    fn an_address_has_half_of_the_time_of_a_connect() {
        for (seconds, expected) in [(0, 3), (4, 3), (30, 15), (100, 50), (u64::MAX, 60)] {
            let time = dial_timeout(Duration::from_secs(seconds));
            assert_eq!(time, Duration::from_secs(expected), "{seconds}");
        }
    }

    #[test]
    fn an_address_that_drops_requests_is_waited_for_until_its_time_is_over() {
        // The queue of this listener is full.
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let _first = std::net::TcpStream::connect(address).unwrap();

        let give_up_at = Instant::now() + Duration::from_secs(3600);
        let way = Approach::start(address, give_up_at).unwrap();
        assert_eq!(way.attention().timeout, Some(give_up_at));
        let ApproachStep::Pending(way) = way.step(give_up_at - Duration::from_nanos(1), None)
        else {
            panic!("its time is not over");
        };
        let ApproachStep::Failed(failure) = way.step(give_up_at, None) else { panic!("it is") };
        assert_eq!(failure.kind, Some(io::ErrorKind::TimedOut));
        assert_eq!(failure.address, address.to_string());
    }

    #[test]
    fn dialing_a_closed_port_is_an_error_and_an_open_one_connects() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let give_up_at = Instant::now() + PATIENCE;
        let settle = |address| {
            let dialing = Dialing::start(address, give_up_at)?;
            loop {
                match dialing.is_connected() {
                    Ok(false) => assert!(Instant::now() < give_up_at),
                    other => return other,
                }
            }
        };
        assert!(settle(address).unwrap());
        drop(listener);
        assert_eq!(settle(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
