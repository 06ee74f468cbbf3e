//! Steering of connections to a region's queue: the data sockets of one comm, and exactly those.

use std::net::TcpStream;

use socket2::SockRef;
use tcpx_devmem::{DevmemError, FlowRule, SteeredFlow};

use super::region::{NicRegion, RegionUser, Reserved};

/// Share of a listen comm in a region, until its receive comm has it.
#[derive(Debug)]
pub(crate) struct Steering {
    region: &'static NicRegion,
    receive_buffer: usize,
    flows: Vec<SteeredFlow>,
    _share: Reserved,
    /// Comes last: all other users of the region are done with it when this is dropped.
    _user: RegionUser,
}

impl Steering {
    /// Reserves room for `sockets` data sockets.
    ///
    /// # Errors
    /// The region is lost, or has too little left.
    pub(crate) fn new(region: &'static NicRegion, sockets: u16) -> Result<Self, DevmemError> {
        let user = region.enter()?;
        let (share, receive_buffer) = region.share(sockets)?;
        Ok(Self { region, receive_buffer, flows: Vec::new(), _share: share, _user: user })
    }

    /// Bounds the bytes that may lie in the sockets that are accepted here.
    pub(crate) fn bound<'a>(&self, listener: impl Into<SockRef<'a>>) -> std::io::Result<()> {
        listener.into().set_recv_buffer_size(self.receive_buffer)
    }

    /// Steers the packets of this data socket, before its peer may send.
    ///
    /// # Errors
    /// The NIC refuses the rule.
    pub(crate) fn steer(&mut self, socket: &TcpStream) -> Result<(), DevmemError> {
        let gone = |source| DevmemError::System { what: "a socket has no address", source };
        let from = socket.peer_addr().map_err(gone)?;
        let to = socket.local_addr().map_err(gone)?;
        let rule = FlowRule { from, to, queue: self.region.queue() };
        self.flows.push(SteeredFlow::new(self.region.nic(), rule)?);
        Ok(())
    }

    /// Ends the steering of sockets of a peer that left.
    pub(crate) fn end_flows(&mut self) {
        self.flows.clear();
    }

    pub(crate) fn region(&self) -> &'static NicRegion {
        self.region
    }
}
