#![allow(unsafe_code)]
//! The lane that receives.

use std::collections::VecDeque;
use std::time::Instant;

use tcpx_rx::{UnpackDescriptor, merge_neighbours};
use tcpx_sys::MAX_UNPACK_ENTRIES;

use crate::error::{Error, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::comm::{CommLabel, RecvComm, Request};
use crate::stats::channel::ChannelStats;
use crate::stats::watch::lane::{LaneState, LaneWatch};
use crate::stats::watch::payload::{PayloadWatch, SAMPLE_BYTES};
use crate::transfer::batch::{Batch, BatchNumber, Job};
use crate::transfer::descriptor_splitter::DescriptorSplitter;
use crate::transfer::ledger::Ledger;
use crate::transfer::stripe::{Chunk, Stripe};
use crate::transfer::window::Window;
use crate::types::{CommId, MemoryType, OpKey};

#[derive(Debug)]
struct Arriving {
    request: Request,
    slot: usize,
    chunk: Chunk<OpKey>,
    /// The batch that unpacks it, once it has arrived.
    batch: BatchNumber,
}

/// Chunks on their way in.
#[derive(Debug)]
pub(crate) struct RecvLane {
    pub(crate) id: CommId,
    place: CommLabel,
    comm: RecvComm,
    window: Window<Arriving>,
    waiting: VecDeque<Stripe<OpKey>>,
    descriptors: Vec<UnpackDescriptor>,
    pub(crate) stats: ChannelStats,
    pub(crate) watch: LaneWatch,
    pub(crate) payload: PayloadWatch,
}

impl RecvLane {
    pub(crate) fn new(id: CommId, place: CommLabel, comm: RecvComm, window: usize) -> Self {
        Self {
            id,
            place,
            comm,
            window: Window::new(window),
            waiting: VecDeque::new(),
            descriptors: Vec::with_capacity(MAX_UNPACK_ENTRIES),
            stats: ChannelStats::default(),
            watch: LaneWatch::default(),
            payload: PayloadWatch::default(),
        }
    }

    pub(crate) fn push(&mut self, deal: Stripe<OpKey>) {
        self.waiting.push_back(deal);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.window.len() == 0 && self.waiting.is_empty()
    }

    /// One look at the counters.
    pub(crate) fn look(&mut self, chunk_bytes: u32, now: Instant) -> LaneState {
        self.watch.look(self.window.sample(self.stats, chunk_bytes), now)
    }

    /// Whether a posted receive has not arrived.
    pub(crate) fn awaits_bytes(&self) -> bool {
        self.window.has_posted()
    }

    /// Posts what the window takes and puts what has arrived into `batch`.
    pub(crate) fn progress(
        &mut self,
        ledger: &mut Ledger,
        batch: &mut Batch,
        memory: &DeviceMemory,
    ) -> Result<bool> {
        let mut moved = self.post(ledger)?;
        while let Some(arriving) = self.window.oldest_posted() {
            if !self.comm.test(arriving.request)? {
                break;
            }
            let (request, slot, chunk) = (arriving.request, arriving.slot, arriving.chunk);
            arriving.batch = batch.number();
            self.window.arrive();
            self.arrived(request, slot, chunk, ledger, batch, memory)?;
            moved = true;
        }
        Ok(moved)
    }

    fn post(&mut self, ledger: &mut Ledger) -> Result<bool> {
        let mut moved = false;
        while let Some(deal) = self.waiting.front_mut() {
            let Some(chunk) = deal.peek() else {
                self.waiting.pop_front();
                continue;
            };
            if !self.window.has_room() {
                self.stats.window_full += 1;
                break;
            }
            let Some(op) = ledger.ops.get(chunk.op).copied() else { return Err(Error::Cancelled) };
            let address = op.span.address + chunk.offset;
            // SAFETY: the registration is in use by this operation, so it stays until the operation has ended.
            let mhandle = unsafe {
                ledger.registrations.handle(op.span.registration, address, self.id, &self.comm)
            }?;
            // SAFETY: as for sends; the registration was made for receiving. Device memory of messages that share the chunk
            // may lie elsewhere, and the plugin touches none of it.
            let Some((request, slot)) =
                (unsafe { self.comm.irecv(address, chunk.bytes, op.tag, mhandle) })?
            else {
                self.stats.plugin_busy += 1;
                break;
            };
            deal.advance();
            self.window.post(Arriving { request, slot, chunk, batch: BatchNumber::NEVER });
            self.stats.posted(self.window.len());
            moved = true;
        }
        Ok(moved)
    }

    /// Reads, checks and queues the fragments of one chunk for unpacking. Nothing is copied unless all of it is right.
    fn arrived(
        &mut self,
        request: Request,
        slot: usize,
        chunk: Chunk<OpKey>,
        ledger: &Ledger,
        batch: &mut Batch,
        memory: &DeviceMemory,
    ) -> Result<()> {
        let Some(op) = ledger.ops.get(chunk.op) else { return Err(Error::Cancelled) };
        self.comm.descriptors(slot, &mut self.descriptors)?;
        tracing::debug!(
            peer = %self.place.peer, channel = self.place.channel, request_ptr = ?request, idx = slot,
            cnt = self.descriptors.len(), bytes = chunk.bytes, "request metadata"
        );
        if op.span.memory == MemoryType::Host && self.descriptors.is_empty() {
            return self.arrived_in_place(request, op.span.address + chunk.offset, chunk.bytes);
        }
        let queue = self.comm.queue();
        // Entries begin in the first 4 GiB; that they end there too is what `DescriptorSplitter` relies on.
        let bounce_bytes = queue.bounce_bytes().min(1 << 32);
        tcpx_rx::check(&mut self.descriptors, bounce_bytes, u64::from(chunk.bytes)).map_err(
            |source| Error::Fragments {
                peer: self.place.peer.to_string(),
                channel: self.place.channel,
                chunk_bytes: u64::from(chunk.bytes),
                source,
            },
        )?;
        if tracing::enabled!(tracing::Level::TRACE) {
            self.log_fragments(memory);
        }
        // A GPU's memory is not read for this: it would cost a copy and a wait.
        if self.payload.is_looking()
            && matches!(memory, DeviceMemory::Emulated)
            && let Some(first) = self.descriptors.first()
        {
            let mut bytes = [0; SAMPLE_BYTES];
            let count = self.comm.queue().probe(memory, *first, &mut bytes)?;
            self.payload.look(&bytes[..count]);
        }
        let fragments = self.descriptors.len() as u64;
        let merged = merge_neighbours(&mut self.descriptors) as u64;
        self.stats.fragments += fragments;
        self.stats.fragments_merged += merged;
        let job = Job {
            bounce: queue.bounce(),
            dst: op.span.address + chunk.offset,
            dst_bytes: u64::from(chunk.bytes),
            op: chunk.op,
            channel: self.place.channel,
            offset: chunk.offset,
        };
        match op.next {
            None => batch.push(job, self.descriptors.iter().copied()),
            Some(_) => self.unpack_messages(job, ledger, batch),
        }
        Ok(())
    }

    /// Checks a chunk of host memory that the plugin has put straight into place, at `address`: only its length is left to
    /// check, and only the plugin knows it.
    fn arrived_in_place(&mut self, request: Request, address: u64, bytes: u32) -> Result<()> {
        let received = self.comm.received_bytes(request)?;
        if received != u64::from(bytes) {
            let detail = format!("{received} bytes arrived for a chunk of {bytes}");
            return Err(Error::Protocol { peer: self.place.peer.to_string(), detail });
        }
        if self.payload.is_looking() {
            let mut sample = [0; SAMPLE_BYTES];
            let count = sample.len().min(bytes as usize);
            // SAFETY: the chunk lies in registered host memory of its operation; its bytes have arrived, and nobody else
            // writes them before the operation ends.
            unsafe { DeviceMemory::Emulated.read(address, &mut sample[..count]) }?;
            self.payload.look(&sample[..count]);
        }
        Ok(())
    }

    /// Queues the messages that share a chunk, those whose destinations are neighbours together.
    fn unpack_messages(&self, chunk: Job, ledger: &Ledger, batch: &mut Batch) {
        let mut cut = DescriptorSplitter::new(&self.descriptors);
        let mut messages = ledger.messages(chunk.op).peekable();
        while let Some((op, span, mut dst_bytes)) = messages.next() {
            let dst = span.address;
            while let Some((_, _, bytes)) =
                messages.next_if(|(_, next, _)| next.address == dst + dst_bytes)
            {
                dst_bytes += bytes;
            }
            batch.push(Job { dst, dst_bytes, op, ..chunk }, cut.next(dst_bytes));
        }
    }

    fn log_fragments(&self, memory: &DeviceMemory) {
        let queue = self.comm.queue();
        tracing::trace!("device handle: {queue}");
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            let UnpackDescriptor { src_off, len, dst_off } = *descriptor;
            tracing::trace!("descriptor[{index}] src_off={src_off} len={len} dst_off={dst_off}");
        }
        let mut bytes = [0u8; 32];
        if let Some(first) = self.descriptors.first()
            && let Ok(count) = queue.probe(memory, *first, &mut bytes)
        {
            let hex: Vec<String> =
                bytes[..count].iter().map(|byte| format!("{byte:02x}")).collect();
            tracing::trace!(
                "bounce probe ({count}B) from src_off={}: {}",
                first.src_off,
                hex.join(" ")
            );
        }
    }

    /// The newest batch that unpacks a chunk of this lane, as far as it was not seen to be finished.
    pub(crate) fn newest_batch(&self) -> Option<BatchNumber> {
        self.window.newest_arrived().map(|arriving| arriving.batch)
    }

    /// Gives the slots of chunks whose unpack has finished back to the plugin, oldest first.
    pub(crate) fn consume(&mut self, ledger: &mut Ledger, finished: BatchNumber) -> Result<bool> {
        let mut moved = false;
        while self.window.oldest_arrived().is_some_and(|arriving| arriving.batch <= finished) {
            let Some(Arriving { request, chunk, .. }) = self.window.finish() else { break };
            self.comm.consumed(request)?;
            self.stats.chunk(chunk.bytes);
            ledger.chunk_done(chunk.op, chunk.bytes);
            moved = true;
        }
        Ok(moved)
    }

    /// Closes the comm, then takes back what was registered on it: in that order, because a request that is still in
    /// flight uses its registration until the comm has closed.
    pub(crate) fn close(self, ledger: &mut Ledger) {
        self.comm.close(ledger.registrations.forget_comm(self.id));
    }

    pub(crate) fn comm(&self) -> &RecvComm {
        &self.comm
    }
}
