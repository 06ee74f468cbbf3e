//! Result of a finished connect attempt or a finished accept.

use std::net::TcpStream;

use tcpx_seal::exchange::SocketKeys;

use crate::nic_memory::Steering;

/// A connected, non-blocking socket of a comm.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    /// Keys of all that it carries. `None`: it carries bytes in clear.
    pub(crate) keys: Option<Box<SocketKeys>>,
}

impl Connection {
    /// Takes a socket that carries bytes in clear.
    #[cfg(test)]
    pub(crate) fn clear(socket: TcpStream) -> Self {
        Self { socket, keys: None }
    }
}

/// The sockets of one comm.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) control: Connection,
    /// By index.
    pub(crate) data: Vec<Connection>,
    /// The sender's chunk size.
    pub(crate) chunk_bytes: u32,
    /// Of an accept: what sends the data sockets' packets to a NIC's region.
    pub(crate) steering: Option<Steering>,
}

impl Sockets {
    /// Returns whether both ends have the same address, so that no NIC ever sees what is sent.
    pub(crate) fn stay_on_host(&self) -> bool {
        let control = &self.control.socket;
        let ends = control.local_addr().and_then(|own| Ok((own, control.peer_addr()?)));
        ends.is_ok_and(|(own, peer)| own.ip() == peer.ip() || peer.ip().is_loopback())
    }

    /// Returns whether all that the sockets carry is encrypted.
    pub(crate) fn are_encrypted(&self) -> bool {
        self.control.keys.is_some()
    }
}
