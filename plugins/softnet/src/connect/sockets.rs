//! Result of a finished connect attempt or a finished accept.

use std::net::TcpStream;

use crate::nic_memory::Steering;

/// The connected, non-blocking sockets of one comm.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) control: TcpStream,
    /// By index.
    pub(crate) data: Vec<TcpStream>,
    /// The sender's chunk size.
    pub(crate) chunk_bytes: u32,
    /// Of an accept: what sends the data sockets' packets to a NIC's region.
    pub(crate) steering: Option<Steering>,
}

impl Sockets {
    /// Returns whether both ends have the same address, so that no NIC ever sees what is sent.
    pub(crate) fn stay_on_host(&self) -> bool {
        let ends = self.control.local_addr().and_then(|own| Ok((own, self.control.peer_addr()?)));
        ends.is_ok_and(|(own, peer)| own.ip() == peer.ip() || peer.ip().is_loopback())
    }
}
