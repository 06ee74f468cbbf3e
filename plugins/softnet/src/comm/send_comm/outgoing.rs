//! Records and chunks on their way to the sockets.

use std::collections::VecDeque;

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
    order: RoundRobin,
    pub(super) records: ControlOut,
    /// Sockets of the chunks that are announced and not queued yet, in order: the oldest of those
    /// that are being staged.
    announced: VecDeque<usize>,
    /// Whether a chunk was queued since the comm was idle.
    has_begun: bool,
    pub(super) spare: Vec<Vec<Piece>>,
}

impl Outgoing {
    pub(super) fn new(lanes: Lanes) -> Self {
        Self {
            order: RoundRobin::new(lanes.len()),
            lanes,
            records: ControlOut::default(),
            announced: VecDeque::new(),
            has_begun: false,
            spare: Vec::new(),
        }
    }

    /// Notes that the comm was idle, and that a message is posted.
    pub(super) fn begin(&mut self) {
        self.has_begun = false;
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
        self.queue(lane, number, offset, memory, source);
        true
    }

    /// Returns the number of chunks that are announced and not queued.
    pub(super) fn announced(&self) -> usize {
        self.announced.len()
    }

    /// Queues the record of a chunk whose bytes are not there yet. Returns false when no socket has
    /// room, or another chunk was queued since the comm was idle.
    pub(super) fn announce(&mut self, number: u64, offset: u32, total: u32, memory: Piece) -> bool {
        if self.has_begun {
            return false;
        }
        let Some(lane) = self.record_chunk(number, offset, total, memory) else { return false };
        self.announced.push_back(lane);
        true
    }

    /// Queues the oldest announced chunk, whose bytes are there now; returns false when its socket
    /// has no room, or no chunk is announced.
    pub(super) fn push_announced(&mut self, number: u64, offset: u32, memory: Piece) -> bool {
        let front = self.announced.front().copied();
        let Some(lane) = front.filter(|lane| self.lanes.has_room(*lane)) else { return false };
        self.announced.pop_front();
        self.queue(lane, number, offset, memory, None);
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

    fn queue(
        &mut self,
        lane: usize,
        number: u64,
        offset: u32,
        memory: Piece,
        source: Option<NicSource>,
    ) {
        self.has_begun = true;
        let mut pieces = self.spare.pop().unwrap_or_default();
        pieces.push(memory);
        self.lanes.push(lane, Chunk::new(number, offset, pieces).sent_from(source));
    }
}
