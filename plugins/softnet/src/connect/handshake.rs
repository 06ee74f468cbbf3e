//! A connection to a listen comm, until its hello is whole.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use tcpx_comm::wire::{Hello, HelloError};
use tcpx_seal::exchange::Offer;

/// A connection that has not finished its hello.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) socket: TcpStream,
    pub(super) from: SocketAddr,
    bytes: [u8; Hello::BYTES + Offer::BYTES],
    filled: usize,
}

/// How much of a hello has come.
pub(super) enum HelloRead {
    All,
    More,
    Closed,
}

impl Handshake {
    /// `socket` is non-blocking.
    pub(super) fn new(socket: TcpStream, from: SocketAddr) -> Self {
        Self { socket, from, bytes: [0; Hello::BYTES + Offer::BYTES], filled: 0 }
    }

    /// Closes it with a reset, which asks an honest peer to come again. A plain close would say
    /// that its hello was read and is not welcome.
    pub(super) fn turn_away(self) {
        // Without this it is a plain close, after which the peer does not come again.
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    /// Reads what has come of the hello, and of the offer of a key, if the hello announces one.
    pub(super) fn read_hello(&mut self) -> HelloRead {
        loop {
            let needed = self.needed_bytes();
            if self.filled == needed {
                return HelloRead::All;
            }
            match self.socket.read(&mut self.bytes[self.filled..needed]) {
                Ok(0) => return HelloRead::Closed,
                Ok(count) => self.filled += count,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                {
                    return HelloRead::More;
                }
                Err(_) => return HelloRead::Closed,
            }
        }
    }

    /// Returns the hello that was read.
    pub(super) fn hello(&self) -> Result<Hello, HelloError> {
        Hello::decode(self.hello_bytes())
    }

    /// Returns the bytes of the hello, as they came.
    pub(super) fn hello_bytes(&self) -> &[u8; Hello::BYTES] {
        self.split().0
    }

    /// Returns the offer of a key. Only zeros, unless the hello announces one.
    pub(super) fn offer(&self) -> &[u8; Offer::BYTES] {
        self.split().1
    }

    fn split(&self) -> (&[u8; Hello::BYTES], &[u8; Offer::BYTES]) {
        // The lengths are those of the two parts.
        match (self.bytes.first_chunk(), self.bytes.last_chunk()) {
            (Some(hello), Some(offer)) => (hello, offer),
            _ => (&[0; Hello::BYTES], &[0; Offer::BYTES]),
        }
    }

    fn needed_bytes(&self) -> usize {
        let is_read = self.filled >= Hello::BYTES;
        let is_encrypted = is_read && self.hello().is_ok_and(|hello| hello.encrypted);
        Hello::BYTES + if is_encrypted { Offer::BYTES } else { 0 }
    }
}
