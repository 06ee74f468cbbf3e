//! What a finished connect attempt and a finished accept hand over.

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
