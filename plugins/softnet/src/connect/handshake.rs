//! A connection to a listen comm, until its hello is whole.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use tcpx_comm::wire::Hello;

/// A connection that has not finished its hello.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) socket: TcpStream,
    pub(super) from: SocketAddr,
    pub(super) hello: [u8; Hello::BYTES],
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
        Self { socket, from, hello: [0; Hello::BYTES], filled: 0 }
    }

    /// Closes it with a reset, which asks an honest peer to come again. A plain close would say
    /// that its hello was read and is not welcome.
    pub(super) fn turn_away(self) {
        // Without this it is a plain close, after which the peer does not come again.
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    pub(super) fn read_hello(&mut self) -> HelloRead {
        match self.socket.read(&mut self.hello[self.filled..]) {
            Ok(0) => HelloRead::Closed,
            Ok(count) => {
                self.filled += count;
                if self.filled == Hello::BYTES { HelloRead::All } else { HelloRead::More }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                HelloRead::More
            }
            Err(_) => HelloRead::Closed,
        }
    }
}
