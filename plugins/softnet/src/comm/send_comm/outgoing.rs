//! Records and chunks on their way to the sockets.

use tcpx_comm::wire::Record;

use crate::comm::chunk::Chunk;
use crate::comm::control_socket::ControlOut;
use crate::comm::lane_order::RoundRobin;
use crate::comm::lanes::Lanes;
use crate::memory::{NicSource, Piece};

/// Records and chunks on their way to the sockets.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) lanes: Lanes,
    pub(super) order: RoundRobin,
    pub(super) records: ControlOut,
    pub(super) spare: Vec<Vec<Piece>>,
}

impl Outgoing {
    /// Queues a whole message behind its record.
    pub(super) fn push_inline(&mut self, number: u64, memory: Piece) {
        // `isend` took the length from a positive `int`.
        self.records.push(number, Record::Inline { size: memory.len() as u32 }, memory);
    }

    /// Queues a chunk and its record; returns false when no socket has room. `source`: place where
    /// a NIC finds the memory, where a NIC sends it.
    pub(super) fn push_chunk(
        &mut self,
        number: u64,
        offset: u32,
        total: u32,
        memory: Piece,
        source: Option<NicSource>,
    ) -> bool {
        let Some(lane) = self.order.pick(|lane| self.lanes.has_room(lane)) else { return false };
        let mut pieces = self.spare.pop().unwrap_or_default();
        pieces.push(memory);
        // At most eight data sockets, and a chunk is no longer than its message.
        let (index, size) = (lane as u16, memory.len() as u32);
        self.records.push(number, Record::Chunk { index, size, offset, total }, Piece::EMPTY);
        self.lanes.push(lane, Chunk::new(number, offset, pieces).sent_from(source));
        true
    }
}
