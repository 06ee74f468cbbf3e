//! Faults that a script has for one socket.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use tcpx_softnet::hooks::{Side, SocketHooks, SocketRole};
use tcpx_testkit::Random;

use crate::fault::Fault;
use crate::quirk::Quirk;
use crate::script::FaultScript;

/// Longest pause of a delayed socket.
const MAX_DELAY_MICROS: usize = 1000;
/// Most calls in a row that find a socket not ready.
const MAX_STORM: usize = 20;

/// What may be done with the socket now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketPermit {
    /// Move at most this many bytes.
    Bytes(usize),
    /// Behave as if the socket were not ready.
    NotReady,
    /// The socket ends here: shut it down.
    Cut,
}

/// What the script wants of one socket.
#[derive(Debug)]
pub(crate) struct SocketFaults {
    disturbance: Option<ScriptedSocket>,
    /// Whether a write to a peer that has gone raises SIGPIPE.
    sigpipe: bool,
    /// Whether its end is never reported.
    silent: bool,
}

impl SocketFaults {
    /// For one socket of comm number `comm`; `None` when nothing is wanted of it.
    pub(crate) fn new(
        script: &FaultScript,
        comm: u64,
        side: Side,
        socket: SocketRole,
    ) -> Option<Self> {
        let disturbance = ScriptedSocket::new(script, comm, side, socket);
        let (sigpipe, silent) = (script.has(Quirk::Sigpipe), script.has(Quirk::Silence));
        (disturbance.is_some() || sigpipe || silent).then_some(Self {
            disturbance,
            sigpipe,
            silent,
        })
    }
}

impl SocketHooks for SocketFaults {
    /// An error when the socket has just been cut.
    fn limit(&mut self, socket: &TcpStream) -> io::Result<Option<usize>> {
        let Some(disturbance) = &mut self.disturbance else { return Ok(Some(usize::MAX)) };
        disturbance.limit(socket)
    }

    fn moved(&mut self, bytes: usize) {
        if let Some(disturbance) = &mut self.disturbance {
            disturbance.moved(bytes);
        }
    }

    fn raises_sigpipe(&self) -> bool {
        self.sigpipe
    }

    fn is_silent(&self) -> bool {
        self.silent
    }
}

/// One socket that the script wants something of. Pure: its callers give the time, and it says what
/// to do.
#[derive(Debug)]
struct ScriptedSocket {
    rng: Random,
    short: bool,
    again: bool,
    delay: bool,
    /// Calls that will still find the socket not ready.
    storm: usize,
    resting_until: Option<Instant>,
    /// Bytes until the cut.
    left: Option<u64>,
}

impl ScriptedSocket {
    /// `None` when the socket is to be left alone.
    fn new(script: &FaultScript, comm: u64, side: Side, socket: SocketRole) -> Option<Self> {
        let shape = script.shape;
        let cuts = script.faults.iter().filter_map(|fault| match *fault {
            Fault::Cut { side: s, socket: which, after_bytes } if (s, which) == (side, socket) => {
                Some(after_bytes)
            }
            _ => None,
        });
        let left = cuts.min();
        if left.is_none() && !(shape.short || shape.again || shape.delay) {
            return None;
        }
        let place = match socket {
            SocketRole::Control => 0,
            SocketRole::Data(index) => 1 + u64::from(index),
        };
        Some(Self {
            rng: Random::of(script.seed, [comm, side as u64, place]),
            short: shape.short,
            again: shape.again,
            delay: shape.delay,
            storm: 0,
            resting_until: None,
            left,
        })
    }

    fn limit(&mut self, socket: &TcpStream) -> io::Result<Option<usize>> {
        match self.permit(Instant::now()) {
            SocketPermit::Bytes(bytes) => Ok(Some(bytes)),
            SocketPermit::NotReady => Ok(None),
            SocketPermit::Cut => {
                // If it fails, the connection is gone already.
                let _ = socket.shutdown(Shutdown::Both);
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the fault script"))
            }
        }
    }

    /// Asked before every call on the socket.
    fn permit(&mut self, now: Instant) -> SocketPermit {
        if self.left == Some(0) {
            return SocketPermit::Cut;
        }
        if self.resting_until.is_some_and(|until| now < until) {
            return SocketPermit::NotReady;
        }
        self.resting_until = None;
        if self.delay && self.rng.one_in(50) {
            let micros = self.rng.up_to(MAX_DELAY_MICROS) as u64;
            self.resting_until = Some(now + Duration::from_micros(micros));
            return SocketPermit::NotReady;
        }
        if self.storm > 0 {
            self.storm -= 1;
            return SocketPermit::NotReady;
        }
        if self.again && self.rng.one_in(4) {
            self.storm = self.rng.up_to(MAX_STORM);
        }
        let mut bytes = usize::MAX;
        if self.short {
            // Mostly large pieces, so that a long message still ends; some of a few bytes.
            bytes = if self.rng.one_in(8) { self.rng.up_to(7) } else { self.rng.up_to(64 << 10) };
        }
        SocketPermit::Bytes(
            self.left.map_or(bytes, |left| bytes.min(usize::try_from(left).unwrap_or(usize::MAX))),
        )
    }

    fn moved(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shape;

    #[test]
    fn undisturbed_sockets_cost_nothing() {
        let script = FaultScript::default();
        assert!(ScriptedSocket::new(&script, 0, Side::Send, SocketRole::Control).is_none());
    }

    #[test]
    fn a_cut_comes_after_exactly_its_bytes_and_only_on_its_socket() {
        let fault = "cut:recv.data1@10".parse().expect("a fault");
        let script = FaultScript { faults: vec![fault], ..FaultScript::default() };
        assert!(ScriptedSocket::new(&script, 0, Side::Send, SocketRole::Data(1)).is_none());
        assert!(ScriptedSocket::new(&script, 0, Side::Recv, SocketRole::Data(0)).is_none());
        let mut cut =
            ScriptedSocket::new(&script, 0, Side::Recv, SocketRole::Data(1)).expect("a fault");
        let now = Instant::now();
        assert_eq!(cut.permit(now), SocketPermit::Bytes(10));
        cut.moved(4);
        assert_eq!(cut.permit(now), SocketPermit::Bytes(6));
        cut.moved(6);
        assert_eq!(cut.permit(now), SocketPermit::Cut);
    }

    #[test]
    fn a_disturbed_socket_still_moves_and_does_so_the_same_way_each_time() {
        let script = FaultScript { shape: Shape::ALL, seed: 5, ..FaultScript::default() };
        let range = || {
            let mut socket =
                ScriptedSocket::new(&script, 3, Side::Send, SocketRole::Data(0)).expect("shaped");
            let mut now = Instant::now();
            let mut permits = Vec::new();
            for _ in 0..500 {
                permits.push(socket.permit(now));
                now += Duration::from_micros(100);
            }
            permits
        };
        let permits = range();
        assert_eq!(permits, range());
        let bytes = |permit: &&SocketPermit| matches!(permit, SocketPermit::Bytes(1..=65_536));
        assert!(permits.iter().filter(bytes).count() > 50);
        assert!(permits.contains(&SocketPermit::NotReady));
    }
}
