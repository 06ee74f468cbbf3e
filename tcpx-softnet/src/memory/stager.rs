#![allow(unsafe_code)]
//! Sends from GPU memory: chunks are copied down to pinned pages, in order, and sent from there.
//!
//! Copies run on a stream of the comm's own; `test` looks whether they have ended and never waits
//! for them. All that they need is made by connect or regMr (`stager_slot`). A chunk takes a slot,
//! which is free again when the kernel has the bytes, and reads the slot no more.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;

use tcpx_cuda::{CudaError, CudaGpu, Event, PinnedBuffer, Stream};

use super::copies::{BusyClock, DOWN, drain};
use super::piece::Piece;
use super::pooled::Pooled;
use crate::log;

/// Bytes that the slots of a comm have together, where a chunk is not larger than half of it.
const TOTAL_BYTES: usize = 8 << 20;
/// Fewest slots: one is copied to while the other is sent.
const MIN_SLOTS: usize = 2;
/// Most slots: four for each message that may be in flight.
const MAX_SLOTS: usize = 64;

/// A chunk whose bytes are in its slot, or on their way there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) number: u64,
    /// Where the chunk starts in its message.
    pub(crate) offset: u32,
    /// Its bytes, in pinned memory.
    pub(crate) memory: Piece,
    slot: usize,
}

/// The copies of one send comm.
#[derive(Debug)]
pub(crate) struct Stager {
    gpu: CudaGpu,
    stream: Stream,
    /// Leaked when a copy does not end.
    buffer: ManuallyDrop<Pooled<PinnedBuffer>>,
    slot_bytes: usize,
    /// By slot: the end of its copy.
    copied: Vec<Event>,
    free: Vec<usize>,
    under_way: VecDeque<Staged>,
    /// How many of those, from the front, are known to be copied.
    arrived: usize,
    clock: BusyClock,
}

impl Stager {
    /// For chunks of at most `chunk_bytes`.
    pub(crate) fn new(gpu: &CudaGpu, chunk_bytes: u32) -> Result<Self, CudaError> {
        let slot_bytes = (chunk_bytes as usize).next_multiple_of(64);
        let slots = (TOTAL_BYTES / slot_bytes).clamp(MIN_SLOTS, MAX_SLOTS);
        let stream = Stream::new(gpu)?;
        let copied = (0..slots).map(|_| Event::new(gpu)).collect::<Result<_, _>>()?;
        let buffer = Pooled::new(gpu, (slots * slot_bytes) as u64)?;
        Ok(Self {
            gpu: gpu.clone(),
            stream,
            buffer: ManuallyDrop::new(buffer),
            slot_bytes,
            copied,
            free: (0..slots).rev().collect(),
            under_way: VecDeque::with_capacity(slots),
            arrived: 0,
            clock: BusyClock::new(&DOWN),
        })
    }

    /// Whether no chunk is between [`start`](Self::start) and [`take`](Self::take).
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether a slot is free.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Begins to copy a chunk of message `number`; false when no slot is free. `source` is lent GPU
    /// memory of at most a chunk.
    pub(crate) fn start(
        &mut self,
        number: u64,
        offset: u32,
        source: Piece,
    ) -> Result<bool, CudaError> {
        debug_assert!(source.len() <= self.slot_bytes);
        let Some(slot) = self.free.pop() else { return Ok(false) };
        let bytes = source.len().min(self.slot_bytes);
        let start = self.buffer.as_ptr().expose_provenance() + slot * self.slot_bytes;
        // SAFETY: the slot lies in the buffer and belongs to this chunk until `release`.
        let memory = unsafe { Piece::lent(start, bytes) };
        let queued = self.gpu.enter().and_then(|_entered| {
            // SAFETY:
            // - the source is lent until its request is done, which counts these bytes, or its comm
            //   closed, which waits;
            // - the slot is free, and nobody reads it before the event says so.
            unsafe { self.stream.copy(start as u64, source.address() as u64, bytes as u64) }?;
            self.stream.record(&self.copied[slot])
        });
        // After an error part of it may be under way, so the slot is not used again.
        queued?;
        self.clock.started(bytes);
        self.under_way.push_back(Staged { number, offset, memory, slot });
        Ok(true)
    }

    /// The oldest chunk, if its bytes are there. Looks at one copy, of those that it does not know
    /// to have ended.
    pub(crate) fn ready(&mut self) -> Result<Option<Staged>, CudaError> {
        if let Some(next) = self.under_way.get(self.arrived)
            && self.copied[next.slot].is_done()?
        {
            self.arrived += 1;
            if self.arrived == self.under_way.len() {
                self.clock.idle();
            }
        }
        Ok(self.under_way.front().filter(|_| self.arrived > 0).copied())
    }

    /// The message of the oldest chunk.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.under_way.front().map(|chunk| chunk.number)
    }

    /// The oldest chunk is on its way to the peer.
    pub(crate) fn take(&mut self) {
        self.under_way.pop_front();
        self.arrived = self.arrived.saturating_sub(1);
    }

    /// The bytes have left: `memory` is that of a chunk, or not of this stager at all.
    pub(crate) fn release(&mut self, memory: Piece) {
        let start = self.buffer.as_ptr().addr();
        let end = start + self.copied.len() * self.slot_bytes;
        if (start..end).contains(&memory.address()) {
            self.free.push((memory.address() - start) / self.slot_bytes);
        }
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        if !drain(&self.stream) {
            return log::warn!("a copy from the GPU does not end; its pinned pages are kept");
        }
        // SAFETY: dropped only here, and not used afterwards. Nothing is queued that writes to it,
        // or the context is broken, and with it whatever was queued.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
    }
}
