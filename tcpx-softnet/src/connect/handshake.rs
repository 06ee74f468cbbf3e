//! A connection to a listen comm, until its hello is whole.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::wire::Hello;

/// A connection that has not finished its hello.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) socket: TcpStream,
    pub(super) from: SocketAddr,
    pub(super) hello: [u8; Hello::BYTES],
    pub(super) filled: usize,
    pub(super) deadline: Instant,
}

/// How much of a hello has come.
pub(super) enum HelloRead {
    All,
    More,
    Closed,
}

impl Handshake {
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
