//! What leaves on one data socket straight from a dma-buf.

use std::net::TcpStream;
use std::sync::Arc;

use tcpx_devmem::{DevmemError, HostBuffer, Sender, Sent};

use super::send_memory::SendMemory;
use crate::memory::{IoOutcome, Piece};

/// Sends on one data socket.
#[derive(Debug)]
pub(crate) struct NicDepartures {
    sender: Sender,
    buffer: Arc<HostBuffer>,
}

impl NicDepartures {
    /// # Errors
    /// The system does not send in place.
    pub(crate) fn new(socket: &TcpStream, memory: &SendMemory) -> Result<Self, DevmemError> {
        let (binding, buffer) = memory.parts();
        Ok(Self { sender: Sender::new(socket, binding)?, buffer })
    }

    /// Sends from a piece of a slot, at most `most` bytes. Also how many calls must be over before
    /// the slot may change.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        piece: Piece,
        most: usize,
    ) -> (IoOutcome, u64) {
        let offset = piece.address() - self.buffer.as_mut_ptr().addr();
        match self.sender.send(socket, offset, piece.len().min(most)) {
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
