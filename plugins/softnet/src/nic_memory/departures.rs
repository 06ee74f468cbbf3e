//! Bytes that leave on one data socket straight from dma-bufs.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tcpx_devmem::{DevmemError, Nic, SendOutcome, Sender};

use super::fitness::is_down;
use crate::memory::{IoOutcome, NicSource, Piece};

/// Longest time from when a NIC is up until its routes are there.
const ROUTES_RETURN: Duration = Duration::from_secs(1);

/// Sender on one data socket.
#[derive(Debug)]
pub(crate) struct NicDepartures {
    sender: Sender,
    interface: String,
    /// Time since when the NIC is up while no route leads over it.
    no_route_since: Option<Instant>,
}

impl NicDepartures {
    /// # Errors
    /// The system does not support zero-copy sends.
    pub(crate) fn new(socket: &TcpStream, interface: &str) -> Result<Self, DevmemError> {
        // Each call names its own binding.
        let sender = Sender::new(socket, 0)?;
        Ok(Self { sender, interface: interface.to_owned(), no_route_since: None })
    }

    /// Sends at most `most` bytes from a piece of the memory of `source`. Also returns how many
    /// calls must be over before these bytes may change.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        source: Option<NicSource>,
        piece: Piece,
        most: usize,
    ) -> (IoOutcome, u64) {
        let Some(source) = source else {
            let error = io::ErrorKind::InvalidInput.into();
            let what = "the memory of a send lies in no dma-buf";
            return (IoOutcome::Refused(DevmemError::System { what, source: error }), 0);
        };
        self.sender.send_from(source.binding);
        let sent = self.sender.send(socket, source.offset(piece), piece.len().min(most));
        if !matches!(sent, Err(DevmemError::WrongRoute)) {
            self.no_route_since = None;
        }
        match sent {
            Ok(SendOutcome::Bytes { bytes, calls }) => (IoOutcome::Bytes(bytes), calls),
            Ok(SendOutcome::Blocked) => (IoOutcome::Blocked, 0),
            Ok(SendOutcome::NoNoticeMemory) => (IoOutcome::Again, 0),
            Err(DevmemError::WrongRoute) => (self.without_route(), 0),
            Err(error) => (IoOutcome::Refused(error), 0),
        }
    }

    /// Handles a missing route. A NIC that is down has no routes, and has them again soon after it
    /// is up.
    fn without_route(&mut self) -> IoOutcome {
        if let Err(error) = Nic::named(&self.interface) {
            return IoOutcome::Refused(error);
        }
        if is_down(&self.interface) {
            self.no_route_since = None;
            return IoOutcome::Again;
        }
        let since = *self.no_route_since.get_or_insert_with(Instant::now);
        match since.elapsed() < ROUTES_RETURN {
            true => IoOutcome::Again,
            false => IoOutcome::Refused(DevmemError::WrongRoute),
        }
    }

    pub(crate) fn reap_completions(&mut self, socket: &TcpStream) {
        self.sender.reap_completions(socket);
    }

    pub(crate) fn are_complete(&self, calls: u64) -> bool {
        self.sender.are_complete(calls)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn memory_outside_a_dma_buf_is_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let mut departures =
            NicDepartures::new(&socket, "lo").expect("every kernel supports zero-copy sends");
        let piece = Piece::for_tests(4096, 10);
        let (outcome, calls) = departures.send(&socket, None, piece, 10);
        assert!(matches!(outcome, IoOutcome::Refused(_)) && calls == 0, "{outcome:?}");
        assert!(departures.is_idle());
        // The loopback is up, so a route that does not come back is an end, but not at once.
        assert!(matches!(departures.without_route(), IoOutcome::Again));
        departures.no_route_since = Instant::now().checked_sub(ROUTES_RETURN);
        assert!(matches!(departures.without_route(), IoOutcome::Refused(DevmemError::WrongRoute)));
        departures.interface = "no-such-nic".to_owned();
        let outcome = departures.without_route();
        assert!(matches!(outcome, IoOutcome::Refused(DevmemError::NoNic { .. })), "{outcome:?}");
        assert_eq!(NicSource { binding: 1, base: 4000 }.offset(piece), 96);
    }
}
