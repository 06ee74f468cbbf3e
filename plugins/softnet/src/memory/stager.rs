#![allow(unsafe_code)]
//! Copies of chunks from GPU memory down to pinned pages of the host, in order. From there, sends
//! go on to a socket. Receives into host memory, of bytes that a NIC has put into a GPU's, go on to
//! the caller.
//!
//! Copies run on a stream of the comm's own; `test` looks whether they have ended and never waits
//! for them. They go to pinned pages alone: with other host memory the driver waits for the copy.
//! All that they need is made by connect or regMr (`stager_slot`), and by accept. A chunk takes a
//! slot, which is free again when its bytes are not read any more.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;

use tcpx_cuda::{CudaError, CudaGpu, Mark, MarkedStream, PinnedBuffer};

use super::copies::{BusyClock, DOWN, WORD_BYTES, drain};
use super::piece::Piece;
use super::pooled::Pooled;
use crate::log;

/// Bytes that the slots of a send comm have together, where a chunk is not larger than half of it.
const SEND_BYTES: usize = 8 << 20;
/// The same for a receive comm. Most receive comms never receive into host memory.
const RECV_BYTES: usize = 2 << 20;
/// Fewest slots: one is copied to while the other is sent.
const MIN_SLOTS: usize = 2;
/// Most slots: four for each message that may be in flight.
const MAX_SLOTS: usize = 64;

/// Most copies under way, not counting those of one chunk. The driver takes some hundred more;
/// beyond that it would wait for the oldest.
const MOST_COPIES: usize = 512;

/// Mark behind the copies of a chunk, for the thread that sends it.
pub(crate) type CopyMark = Mark<Pooled<PinnedBuffer>>;

/// Chunk whose bytes are in its slot, or on their way there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) number: u64,
    /// Offset of the chunk in its message.
    pub(crate) offset: u32,
    /// Bytes of the chunk, in pinned memory.
    pub(crate) memory: Piece,
    /// Mark behind its copies.
    mark: u64,
    /// Most copies that the chunk takes.
    copies: usize,
}

impl Staged {
    /// Returns whether the chunk is all of a message of `total` bytes.
    pub(crate) fn is_whole(&self, total: u32) -> bool {
        self.memory.len() == total as usize
    }
}

/// Copies of one comm.
#[derive(Debug)]
pub(crate) struct Stager {
    gpu: CudaGpu,
    stream: MarkedStream<Pooled<PinnedBuffer>>,
    /// Buffer of the slots. Leaked when a copy does not end.
    buffer: ManuallyDrop<Pooled<PinnedBuffer>>,
    slot_bytes: usize,
    slots: usize,
    free: Vec<usize>,
    under_way: VecDeque<Staged>,
    /// Number of copies of those chunks.
    copies: usize,
    clock: BusyClock,
    /// Whether a copy does not end.
    is_stuck: bool,
}

impl Stager {
    /// Creates a stager for sends in chunks of at most `chunk_bytes`.
    pub(crate) fn for_sends(gpu: &CudaGpu, chunk_bytes: u32) -> Result<Self, CudaError> {
        Self::new(gpu, chunk_bytes, SEND_BYTES)
    }

    /// Creates a stager for receives in such chunks.
    pub(crate) fn for_receives(gpu: &CudaGpu, chunk_bytes: u32) -> Result<Self, CudaError> {
        Self::new(gpu, chunk_bytes, RECV_BYTES)
    }

    fn new(gpu: &CudaGpu, chunk_bytes: u32, all_bytes: usize) -> Result<Self, CudaError> {
        let slot_bytes = (chunk_bytes as usize).next_multiple_of(64);
        let slots = (all_bytes / slot_bytes).clamp(MIN_SLOTS, MAX_SLOTS);
        let stream = MarkedStream::with_word(gpu, Pooled::new(gpu, WORD_BYTES)?)?;
        let buffer = Pooled::new(gpu, (slots * slot_bytes) as u64)?;
        Ok(Self {
            gpu: gpu.clone(),
            stream,
            buffer: ManuallyDrop::new(buffer),
            slot_bytes,
            slots,
            free: (0..slots).rev().collect(),
            under_way: VecDeque::with_capacity(slots),
            copies: 0,
            clock: BusyClock::new(&DOWN),
            is_stuck: false,
        })
    }

    /// Returns whether no chunk is between [`start`](Self::start) and [`take`](Self::take).
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns whether a slot is free.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Begins to copy a chunk of message `number`; returns false when no slot is free. `source` is
    /// lent GPU memory of at most a chunk.
    pub(crate) fn start(
        &mut self,
        number: u64,
        offset: u32,
        source: Piece,
    ) -> Result<bool, CudaError> {
        self.start_all(number, offset, &[source], |_| None)
    }

    /// Does the same for a chunk that lies in several pieces, one behind the other in the message.
    /// Pieces that the processor can read, as `beside` says, it copies at once. Returns false also
    /// when too many pieces are under way.
    pub(crate) fn start_all(
        &mut self,
        number: u64,
        offset: u32,
        sources: &[Piece],
        beside: impl Fn(Piece) -> Option<Piece>,
    ) -> Result<bool, CudaError> {
        let bytes = sources.iter().map(|source| source.len()).sum::<usize>();
        debug_assert!(bytes <= self.slot_bytes);
        let copies = sources.len();
        if !self.under_way.is_empty() && self.copies + copies > MOST_COPIES {
            return Ok(false);
        }
        let Some(slot) = self.free.pop() else { return Ok(false) };
        let start = self.buffer.as_ptr().expose_provenance() + slot * self.slot_bytes;
        // SAFETY: the slot lies in the buffer and belongs to this chunk until `release`.
        let memory = unsafe { Piece::lent(start, bytes.min(self.slot_bytes)) };
        // After an error a part of the copy may be under way, so the slot is not used again.
        let mark = self.queue(memory, sources, beside)?;
        self.copies += copies;
        self.under_way.push_back(Staged { number, offset, memory, mark, copies });
        Ok(true)
    }

    /// Copies what the processor can read, and queues copies of the rest: one copy for neighbours.
    /// Returns the mark behind them.
    fn queue(
        &mut self,
        memory: Piece,
        sources: &[Piece],
        beside: impl Fn(Piece) -> Option<Piece>,
    ) -> Result<u64, CudaError> {
        let gpu = self.gpu.clone();
        let _entered = gpu.enter()?;
        let (mut at, mut run) = (0, (Piece::EMPTY, Piece::EMPTY));
        for &source in sources {
            let to = memory.slice(at, source.len());
            at += source.len();
            if let Some(from) = beside(source) {
                to.copy_from(from);
            } else if let (Some(to), Some(from)) = (run.0.joined(to), run.1.joined(source)) {
                run = (to, from);
            } else {
                self.queue_run(run)?;
                run = (to, source);
            }
        }
        self.queue_run(run)?;
        self.stream.mark()
    }

    /// Queues a copy to a part of a slot.
    fn queue_run(&mut self, (to, from): (Piece, Piece)) -> Result<(), CudaError> {
        let bytes = to.len().min(from.len());
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY:
        // - the source is lent until its request is done, which counts these bytes, or its comm is
        //   closed, which waits; or the source lies in a region of the process, which is never
        //   freed, and which no other user gets before the copy has ended;
        // - the slot is free, and nothing reads it before the mark behind the copy is reached.
        unsafe { self.stream.copy(to.address() as u64, from.address() as u64, bytes as u64) }?;
        self.clock.started(bytes);
        Ok(())
    }

    /// Returns the oldest chunk, if its bytes are there.
    pub(crate) fn ready(&mut self) -> Result<Option<Staged>, CudaError> {
        let Some(oldest) = self.under_way.front() else { return Ok(None) };
        let reached = self.stream.reached()?;
        if self.stream.under_way() == 0 {
            self.clock.idle();
        }
        Ok((oldest.mark <= reached).then_some(*oldest))
    }

    /// Returns a chunk under way, counted from the oldest.
    pub(crate) fn under_way(&self, index: usize) -> Option<Staged> {
        self.under_way.get(index).copied()
    }

    /// Returns the mark behind the copies of a chunk under way.
    pub(crate) fn mark(&self, chunk: &Staged) -> CopyMark {
        self.stream.watch(chunk.mark)
    }

    /// Returns the message of the oldest chunk.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.under_way.front().map(|chunk| chunk.number)
    }

    /// Hands over the oldest chunk, which is on its way to its destination.
    pub(crate) fn take(&mut self) {
        if let Some(chunk) = self.under_way.pop_front() {
            self.copies -= chunk.copies;
        }
    }

    /// Ends the stager; returns whether no copy reads any memory any more.
    pub(crate) fn end(mut self) -> bool {
        self.is_stuck = !drain(&self.stream);
        !self.is_stuck
    }

    /// Frees the slot of bytes that have left: `memory` is that of a chunk, or does not belong to
    /// this stager at all.
    pub(crate) fn release(&mut self, memory: Piece) {
        let start = self.buffer.as_ptr().addr();
        let end = start + self.slots * self.slot_bytes;
        if (start..end).contains(&memory.address()) {
            self.free.push((memory.address() - start) / self.slot_bytes);
        }
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        if self.is_stuck || !drain(&self.stream) {
            return log::warn!("a copy from the GPU does not end; its pinned pages are kept");
        }
        // SAFETY: dropped only here, and not used afterwards. Nothing is queued that writes to it,
        // or the context is broken, and with it whatever was queued.
        unsafe { ManuallyDrop::drop(&mut self.buffer) };
    }
}

/// Returns a stream that has copied nothing.
#[cfg(test)]
pub(crate) fn idle_stream(gpu: &CudaGpu) -> Result<MarkedStream<Pooled<PinnedBuffer>>, CudaError> {
    MarkedStream::with_word(gpu, Pooled::new(gpu, WORD_BYTES)?)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tcpx_cuda::DeviceBuffer;

    use super::*;
    use crate::memory::copies::DRAIN_LIMIT;

    /// Returns a chunk and its bytes, once they are there.
    fn finished(stager: &mut Stager) -> (Staged, Vec<u8>) {
        let start = Instant::now();
        let staged = loop {
            if let Some(staged) = stager.ready().expect("no error") {
                break staged;
            }
            assert!(start.elapsed() < DRAIN_LIMIT, "copies do not end");
        };
        let at = staged.memory.address() - stager.buffer.as_ptr().addr();
        let mut bytes = vec![0; staged.memory.len()];
        stager.buffer.read(at as u64, &mut bytes).expect("inside");
        (staged, bytes)
    }

    #[test]
    fn a_chunk_in_pieces_comes_whole_wherever_they_lie() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let device = DeviceBuffer::new(&gpu, 8192).expect("there is room");
        let whole: Vec<u8> = (0..8192).map(|at| (at % 251) as u8).collect();
        device.copy_from_host(0, &whole).expect("inside");
        let beside = PinnedBuffer::new(&gpu, 4096).expect("there is room");
        Piece::of_pinned(&beside, 0, 4096).write(&[0xee; 4096]);
        let base = device.address() as usize;
        let piece = |at: usize, len| Piece::for_tests(base + at, len);
        // Neighbours; what the processor has; what lies before it; nothing.
        let pieces = [
            piece(100, 50),
            piece(150, 7),
            piece(7000, 9),
            piece(40, 60),
            piece(3, 0),
            piece(0, 1),
        ];
        let found_beside = |piece: Piece| {
            (piece.address() == base + 7000).then(|| Piece::of_pinned(&beside, 5, piece.len()))
        };
        let mut stager = Stager::for_receives(&gpu, 4096).expect("it opens");
        for number in 0..200 {
            assert!(stager.start_all(number, 17, &pieces, found_beside).expect("it starts"));
            let (staged, bytes) = finished(&mut stager);
            assert_eq!((staged.number, staged.offset), (number, 17));
            let expected = [&whole[100..157], &[0xee; 9], &whole[40..100], &whole[..1]].concat();
            assert_eq!(bytes, expected);
            stager.take();
            stager.release(staged.memory);
        }
        assert!(stager.is_idle() && stager.has_room());
    }

    #[test]
    fn a_chunk_waits_until_a_slot_is_free() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let device = DeviceBuffer::new(&gpu, 4096).expect("there is room");
        let source = Piece::for_tests(device.address() as usize, 4096);
        let mut stager = Stager::for_receives(&gpu, 1 << 20).expect("it opens");
        let started =
            |stager: &mut Stager, number| stager.start(number, 0, source).expect("it starts");
        assert!((0..MIN_SLOTS as u64).all(|number| started(&mut stager, number)));
        assert!(!started(&mut stager, 9));
        let (staged, _) = finished(&mut stager);
        stager.take();
        assert!(!started(&mut stager, 9), "a reader may still use it");
        stager.release(staged.memory);
        assert!(started(&mut stager, 9));
        assert_eq!(stager.oldest(), Some(1));
    }

    #[test]
    fn a_chunk_waits_while_the_driver_has_many_copies() {
        let Some(gpu) = tcpx_cuda::test_gpu() else { return };
        let device = DeviceBuffer::new(&gpu, 8192).expect("there is room");
        // No neighbours.
        let pieces: Vec<_> = (0..MOST_COPIES)
            .map(|at| Piece::for_tests(device.address() as usize + 2 * at, 1))
            .collect();
        let mut stager = Stager::for_receives(&gpu, 4096).expect("it opens");
        let more = |stager: &mut Stager, number, count: usize| {
            stager.start_all(number, 0, &pieces[..count], |_| None).expect("it starts")
        };
        assert!(more(&mut stager, 0, MOST_COPIES - 1) && more(&mut stager, 1, 1));
        assert!(!more(&mut stager, 2, 1), "there is a slot");
        for _ in 0..2 {
            let (staged, _) = finished(&mut stager);
            stager.take();
            stager.release(staged.memory);
        }
        assert!(more(&mut stager, 2, MOST_COPIES) && stager.has_room());
    }
}
