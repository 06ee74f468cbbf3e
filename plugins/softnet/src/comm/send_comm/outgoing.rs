//! Records and chunks on their way to the sockets.

use std::collections::VecDeque;

use tcpx_comm::wire::Record;

use crate::comm::chunk::Chunk;
use crate::comm::control_socket::ControlOut;
use crate::comm::lane_order::RoundRobin;
use crate::comm::lanes::Lanes;
use crate::memory::{CopyMark, NicSource, Piece};

/// Records and chunks on their way to the sockets.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) lanes: Lanes,
    order: RoundRobin,
    pub(super) records: ControlOut,
    /// Sockets of the chunks that are queued while a GPU copies them, in order: the oldest of those
    /// that are being staged.
    ahead: VecDeque<usize>,
    /// Whether the bytes of a chunk were there since the comm was idle.
    has_begun: bool,
    pub(super) spare: Vec<Vec<Piece>>,
}

impl Outgoing {
    pub(super) fn new(lanes: Lanes) -> Self {
        Self {
            order: RoundRobin::new(lanes.len()),
            lanes,
            records: ControlOut::default(),
            ahead: VecDeque::new(),
            has_begun: false,
            spare: Vec::new(),
        }
    }

    /// Notes that the comm was idle, and that a message is posted.
    pub(super) fn begin(&mut self) {
        self.has_begun = false;
    }

    /// Notes that a chunk has left.
    pub(super) fn note_left(&mut self) {
        self.has_begun = true;
    }

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
        let Some(lane) = self.record_chunk(number, offset, total, memory) else { return false };
        self.has_begun = true;
        let chunk = self.chunk(number, offset, memory).sent_from(source);
        self.lanes.push(lane, chunk);
        true
    }

    /// Returns the number of chunks that are queued while a GPU copies them.
    pub(super) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// Queues a chunk whose bytes are there when `copied` is reached, and its record. The helper
    /// thread wakes meanwhile. Returns false when no socket has room, or the bytes of another chunk
    /// were there since the comm was idle.
    pub(super) fn push_ahead(
        &mut self,
        number: u64,
        offset: u32,
        total: u32,
        memory: Piece,
        copied: CopyMark,
    ) -> bool {
        if self.has_begun {
            return false;
        }
        let Some(lane) = self.record_chunk(number, offset, total, memory) else { return false };
        self.ahead.push_back(lane);
        let chunk = self.chunk(number, offset, memory).copied_at(copied);
        self.lanes.push(lane, chunk);
        self.lanes.notify(lane);
        true
    }

    /// Notes that the bytes of the oldest of those chunks are there. Returns false when there is
    /// none.
    pub(super) fn note_copied(&mut self) -> bool {
        let Some(lane) = self.ahead.pop_front() else { return false };
        self.has_begun = true;
        self.lanes.note_copied(lane);
        true
    }

    /// Queues the record of a chunk. Returns the socket for its bytes, unless none has room.
    fn record_chunk(
        &mut self,
        number: u64,
        offset: u32,
        total: u32,
        memory: Piece,
    ) -> Option<usize> {
        let lane = self.order.pick(|lane| self.lanes.has_room(lane))?;
        // At most eight data sockets, and a chunk is no longer than its message.
        let (index, size) = (lane as u16, memory.len() as u32);
        self.records.push(number, Record::Chunk { index, size, offset, total }, Piece::EMPTY);
        Some(lane)
    }

    fn chunk(&mut self, number: u64, offset: u32, memory: Piece) -> Chunk {
        let mut pieces = self.spare.pop().unwrap_or_default();
        pieces.push(memory);
        Chunk::new(number, offset, pieces)
    }
}
