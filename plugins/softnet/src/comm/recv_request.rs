//! One irecv: its destination and its progress.

use std::sync::Arc;

use tcpx_sys::MAX_UNPACK_ENTRIES;

use super::request_ring::Ring;
use super::requests::Request;
use crate::memory::{BounceBuffer, Piece, ReceivePages, Registration, UnpackQueue, entries};
use crate::nic_memory::{HeldFragments, Reserved};

/// Destination of a receive.
#[derive(Debug)]
pub(crate) enum Destination {
    /// Straight to host memory.
    Host {
        memory: Piece,
        /// Keeps `deregMr` from succeeding while the memory is in use.
        _registration: Arc<Registration>,
    },
    /// To bounce pages.
    Device {
        /// Address where the receive was posted, which the host does not access.
        posted: Piece,
    },
}

/// One irecv.
#[derive(Debug)]
pub(crate) struct RecvRequest {
    pub(crate) destination: Destination,
    /// Most bytes that may come.
    pub(crate) posted: u32,
    /// Number of bytes that the sender announced.
    pub(crate) total: Option<u32>,
    pub(crate) arrived: u32,
    /// Number of entries written to the unpack queue.
    pub(crate) entries: usize,
    /// Whether the request has its bounce pages.
    pub(crate) allocated: bool,
    pub(crate) pages: ReceivePages,
    /// Reservation in a NIC's region.
    pub(crate) reserved: Option<Reserved>,
    /// What the request holds of the region, by lane.
    pub(crate) held: Vec<(usize, HeldFragments)>,
}

impl Request for RecvRequest {
    const NAME: &'static str = "recv";

    /// Returns whether all of the message has arrived.
    fn is_finished(&self) -> bool {
        self.total == Some(self.arrived)
    }
}

impl RecvRequest {
    /// Creates a request to which nothing has come yet; `pages` is empty.
    pub(crate) fn new(destination: Destination, posted: u32, pages: ReceivePages) -> Self {
        Self {
            destination,
            posted,
            total: None,
            arrived: 0,
            entries: 0,
            allocated: false,
            pages,
            reserved: None,
            held: Vec::new(),
        }
    }

    /// Returns the address where the receive was posted, if that is device memory.
    pub(crate) fn device_address(&self) -> Option<usize> {
        match &self.destination {
            Destination::Device { posted } => Some(posted.address()),
            Destination::Host { .. } => None,
        }
    }

    /// Returns the memory of the chunk at `offset`.
    pub(crate) fn chunk_memory(
        &mut self,
        bounce: &BounceBuffer,
        offset: u32,
        bytes: usize,
        pieces: &mut Vec<Piece>,
    ) {
        match &self.destination {
            Destination::Host { memory, .. } => pieces.push(memory.slice(offset as usize, bytes)),
            Destination::Device { .. } => self.pages.next_chunk(bounce.region(), bytes, pieces),
        }
    }

    /// Counts a chunk that has arrived, and writes its entries until the queue's row is full.
    /// Returns the number of its entries.
    pub(crate) fn collect(
        &mut self,
        number: u64,
        offset: u32,
        pieces: &[Piece],
        bounce: &BounceBuffer,
        queue: &mut UnpackQueue,
    ) -> usize {
        self.arrived += pieces.iter().map(|piece| piece.len() as u32).sum::<u32>();
        let before = self.entries;
        if matches!(self.destination, Destination::Device { .. }) {
            for entry in entries(bounce.region(), pieces, offset) {
                if self.entries < MAX_UNPACK_ENTRIES {
                    queue.put(Ring::<Self>::slot(number), self.entries, entry);
                }
                self.entries += 1;
            }
        }
        self.entries - before
    }
}
