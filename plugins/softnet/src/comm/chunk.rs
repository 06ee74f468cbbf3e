//! One chunk on its way through a data socket.

use std::io;
use std::net::TcpStream;

use crate::hooks::{ArrivalHooks, Hook};
use crate::memory::{CopyMark, IoList, NicSource, Piece, Region};
use crate::nic_memory::HeldFragments;

/// Source of memory for a chunk that gets it as its bytes arrive.
pub(crate) struct Arrival {
    pub(crate) memory: Box<dyn ArrivalHooks>,
    pub(crate) region: &'static Region,
}

/// One chunk on its way.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Request that the chunk belongs to.
    pub(crate) number: u64,
    /// Offset of the chunk in its message.
    pub(crate) offset: u32,
    /// Number of bytes of the chunk.
    pub(crate) bytes: usize,
    /// Memory of the chunk, in order; exactly `bytes` long when all of it has a place.
    pub(crate) pieces: Vec<Piece>,
    /// Present where the chunk gets its memory as its bytes arrive.
    pub(crate) arrival: Hook<Arrival>,
    /// Part of a NIC's region that the chunk holds, where its bytes come there.
    pub(crate) held: HeldFragments,
    /// Place where a NIC finds the bytes, where a NIC sends them.
    pub(super) source: Option<NicSource>,
    /// Present where a GPU copies the bytes to the memory, and may be at it.
    copied: Option<CopyMark>,
    /// Whether the memory is the plugin's own, which nothing reads before the chunk is moved.
    pub(super) unseen: bool,
    /// Whether the connection ended before the chunk was moved, or before its memory was read.
    pub(crate) failed: bool,
    /// Number of calls of its socket that must be over before the system has read the chunk's
    /// memory for the last time.
    pub(super) calls_to_end: u64,
    piece: usize,
    within: usize,
    left: usize,
}

impl Chunk {
    pub(crate) fn new(number: u64, offset: u32, pieces: Vec<Piece>) -> Self {
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        Self {
            number,
            offset,
            bytes,
            pieces,
            arrival: Hook::new(None),
            held: HeldFragments::default(),
            source: None,
            copied: None,
            unseen: false,
            failed: false,
            calls_to_end: 0,
            piece: 0,
            within: 0,
            left: bytes,
        }
    }

    /// Makes the chunk one that a NIC sends from where it is.
    pub(crate) fn sent_from(self, source: Option<NicSource>) -> Self {
        Self { source, ..self }
    }

    /// Makes the chunk one whose bytes are there when the mark is reached.
    pub(super) fn copied_at(self, mark: CopyMark) -> Self {
        Self { copied: Some(mark), ..self }
    }

    /// Returns whether the bytes of the chunk are not there yet.
    pub(super) fn awaits_copy(&self) -> bool {
        self.copied.as_ref().is_some_and(|mark| !mark.is_reached())
    }

    /// Makes the chunk one in the plugin's own memory, which nothing reads before it is moved.
    pub(super) fn unseen(self, unseen: bool) -> Self {
        Self { unseen, ..self }
    }

    /// Creates a chunk whose memory grows with the bytes that arrive; `pieces` is empty.
    pub(crate) fn on_arrival(
        number: u64,
        offset: u32,
        arrival: Hook<Arrival>,
        pieces: Vec<Piece>,
    ) -> Self {
        let bytes = arrival.get().map_or(0, |arrival| arrival.memory.unplaced());
        Self { bytes, left: bytes, arrival, ..Self::new(number, offset, pieces) }
    }

    /// Creates a chunk of `bytes` bytes for which a NIC decides where they are; `pieces` is empty.
    pub(crate) fn in_region(number: u64, offset: u32, bytes: usize, pieces: Vec<Piece>) -> Self {
        Self { bytes, left: bytes, ..Self::new(number, offset, pieces) }
    }

    /// Returns the number of bytes that a NIC has yet to bring, and the places where to note what
    /// it has brought.
    pub(super) fn growing(&mut self) -> (usize, &mut Vec<Piece>, &mut HeldFragments) {
        (self.left, &mut self.pieces, &mut self.held)
    }

    /// Returns what is left of the first piece that is not wholly moved.
    pub(super) fn rest(&self) -> Piece {
        let piece = self.pieces.get(self.piece).copied().unwrap_or(Piece::EMPTY);
        piece.slice(self.within, piece.len())
    }

    /// Returns the number of bytes that have no memory yet.
    fn unplaced(&self) -> usize {
        self.arrival.get().map_or(0, |arrival| arrival.memory.unplaced())
    }

    /// Makes room for bytes that have arrived, if the chunk's memory grows. The end of the socket
    /// is an error.
    pub(super) fn place(&mut self, socket: &TcpStream) -> io::Result<()> {
        let unplaced = self.unplaced();
        match self.arrival.get_mut() {
            Some(Arrival { memory, region }) if unplaced > 0 => {
                let mut put = |offset, bytes| self.pieces.push(region.piece(offset, bytes));
                memory.place(socket, self.left - unplaced, &mut put)
            }
            _ => Ok(()),
        }
    }

    /// Lists what is left, if it is there; false when the list takes no more.
    pub(super) fn list(&self, list: &mut IoList<'_>) -> bool {
        if self.awaits_copy() {
            return false;
        }
        let mut within = self.within;
        self.pieces[self.piece..].iter().all(|piece| {
            let rest = piece.slice(within, piece.len());
            within = 0;
            list.push(rest)
        }) && self.unplaced() == 0
    }

    /// Returns whether all of the chunk was moved.
    pub(super) fn is_moved(&self) -> bool {
        self.left == 0
    }

    /// Counts bytes that were moved; returns how many of them belong to later chunks.
    pub(super) fn advance(&mut self, mut bytes: usize) -> usize {
        while bytes > 0 && self.piece < self.pieces.len() {
            let rest = self.pieces[self.piece].len() - self.within;
            let step = rest.min(bytes);
            self.within += step;
            self.left -= step;
            bytes -= step;
            if step == rest {
                self.piece += 1;
                self.within = 0;
            }
        }
        bytes
    }
}
