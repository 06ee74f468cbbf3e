//! What leaves on one data socket straight from dma-bufs.

use std::io;
use std::net::TcpStream;

use tcpx_devmem::{DevmemError, Sender, Sent};

use crate::memory::{IoOutcome, NicSource, Piece};

/// Sends on one data socket.
#[derive(Debug)]
pub(crate) struct NicDepartures {
    sender: Sender,
}

impl NicDepartures {
    /// # Errors
    /// The system does not send in place.
    pub(crate) fn new(socket: &TcpStream) -> Result<Self, DevmemError> {
        // Each call names its own.
        Ok(Self { sender: Sender::new(socket, 0)? })
    }

    /// Sends from a piece of the memory that `source` is, at most `most` bytes. Also how many calls
    /// must be over before that may change.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        source: Option<NicSource>,
        piece: Piece,
        most: usize,
    ) -> (IoOutcome, u64) {
        let Some(source) = source else {
            let error = io::ErrorKind::InvalidInput.into();
            let what = "what is to be sent lies in no dma-buf";
            return (IoOutcome::Refused(DevmemError::System { what, source: error }), 0);
        };
        self.sender.send_from(source.binding);
        match self.sender.send(socket, source.offset(piece), piece.len().min(most)) {
            Ok(Sent::Bytes { bytes, calls }) => (IoOutcome::Bytes(bytes), calls),
            Ok(Sent::Blocked) => (IoOutcome::Blocked, 0),
            Ok(Sent::NoNoticeMemory) => (IoOutcome::Again, 0),
            Err(error) => (IoOutcome::Refused(error), 0),
        }
    }

    pub(crate) fn hear(&mut self, socket: &TcpStream) {
        self.sender.hear(socket);
    }

    pub(crate) fn are_over(&self, calls: u64) -> bool {
        self.sender.are_over(calls)
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
    fn what_lies_in_no_dma_buf_does_not_leave() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let mut departures = NicDepartures::new(&socket).expect("every kernel sends in place");
        let piece = Piece::for_tests(4096, 10);
        let (outcome, calls) = departures.send(&socket, None, piece, 10);
        assert!(matches!(outcome, IoOutcome::Refused(_)) && calls == 0, "{outcome:?}");
        assert!(departures.is_idle());
        assert_eq!(NicSource { binding: 1, base: 4000 }.offset(piece), 96);
    }
}
