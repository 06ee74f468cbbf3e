//! What the shape and the fault script do to one socket. Pure: it is told the time and says what the caller must do.

use std::time::{Duration, Instant};

use crate::faults::dice::Dice;
use crate::faults::fault::{CutSocket, Fault, Side};
use crate::plugin::Settings;

/// Longest rest of a delayed socket.
const MAX_DELAY_MICROS: usize = 1000;
/// Most calls in a row that find a socket not ready.
const MAX_STORM: usize = 20;

/// What may be done with the socket now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Move at most so many bytes.
    Bytes(usize),
    /// Behave as if the socket were not ready.
    NotReady,
    /// The socket ends here: shut it down.
    Cut,
}

/// See the module. Absent on sockets that nothing is asked of.
#[derive(Debug)]
pub(crate) struct Disturbance {
    dice: Dice,
    short: bool,
    again: bool,
    delay: bool,
    /// Calls that will still find the socket not ready.
    storm: usize,
    resting_until: Option<Instant>,
    /// Bytes until the cut.
    left: Option<u64>,
}

impl Disturbance {
    /// For one socket of comm number `comm`; `None` when it is to be left alone.
    pub(crate) fn new(
        settings: &Settings,
        comm: u64,
        side: Side,
        socket: CutSocket,
    ) -> Option<Box<Self>> {
        let shape = settings.shape;
        let cuts = settings.faults.iter().filter_map(|fault| match *fault {
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
            CutSocket::Control => 0,
            CutSocket::Data(index) => 1 + u64::from(index),
        };
        Some(Box::new(Self {
            dice: Dice::new(settings.seed, [comm, side as u64, place]),
            short: shape.short,
            again: shape.again,
            delay: shape.delay,
            storm: 0,
            resting_until: None,
            left,
        }))
    }

    /// Asked before every call on the socket.
    pub(crate) fn permit(&mut self, now: Instant) -> Permit {
        if self.left == Some(0) {
            return Permit::Cut;
        }
        if self.resting_until.is_some_and(|until| now < until) {
            return Permit::NotReady;
        }
        self.resting_until = None;
        if self.delay && self.dice.one_in(50) {
            let micros = self.dice.up_to(MAX_DELAY_MICROS) as u64;
            self.resting_until = Some(now + Duration::from_micros(micros));
            return Permit::NotReady;
        }
        if self.storm > 0 {
            self.storm -= 1;
            return Permit::NotReady;
        }
        if self.again && self.dice.one_in(4) {
            self.storm = self.dice.up_to(MAX_STORM);
        }
        let mut bytes = usize::MAX;
        if self.short {
            // Mostly large pieces, so that a long message still ends; some of a few bytes.
            bytes =
                if self.dice.one_in(8) { self.dice.up_to(7) } else { self.dice.up_to(64 << 10) };
        }
        Permit::Bytes(
            self.left.map_or(bytes, |left| bytes.min(usize::try_from(left).unwrap_or(usize::MAX))),
        )
    }

    /// So many bytes were moved.
    pub(crate) fn moved(&mut self, bytes: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::shape::Shape;

    #[test]
    fn undisturbed_sockets_cost_nothing() {
        let settings = Settings::default();
        assert!(Disturbance::new(&settings, 0, Side::Send, CutSocket::Control).is_none());
    }

    #[test]
    fn a_cut_comes_after_exactly_its_bytes_and_only_on_its_socket() {
        let fault = "cut:recv.data1@10".parse().expect("a fault");
        let settings = Settings { faults: vec![fault], ..Settings::default() };
        assert!(Disturbance::new(&settings, 0, Side::Send, CutSocket::Data(1)).is_none());
        assert!(Disturbance::new(&settings, 0, Side::Recv, CutSocket::Data(0)).is_none());
        let mut cut =
            Disturbance::new(&settings, 0, Side::Recv, CutSocket::Data(1)).expect("a fault");
        let now = Instant::now();
        assert_eq!(cut.permit(now), Permit::Bytes(10));
        cut.moved(4);
        assert_eq!(cut.permit(now), Permit::Bytes(6));
        cut.moved(6);
        assert_eq!(cut.permit(now), Permit::Cut);
    }

    #[test]
    fn a_disturbed_socket_still_moves_and_does_so_the_same_way_each_time() {
        let settings = Settings { shape: Shape::ALL, seed: 5, ..Settings::default() };
        let run = || {
            let mut socket =
                Disturbance::new(&settings, 3, Side::Send, CutSocket::Data(0)).expect("shaped");
            let mut now = Instant::now();
            let mut permits = Vec::new();
            for _ in 0..500 {
                permits.push(socket.permit(now));
                now += Duration::from_micros(100);
            }
            permits
        };
        let permits = run();
        assert_eq!(permits, run());
        let bytes = |permit: &&Permit| matches!(permit, Permit::Bytes(1..=65_536));
        assert!(permits.iter().filter(bytes).count() > 50);
        assert!(permits.contains(&Permit::NotReady));
    }
}
