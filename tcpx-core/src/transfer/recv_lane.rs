#![allow(unsafe_code)]
//! Lane that receives the chunks of one comm.
//!
//! A chunk is posted, tested until it has arrived, checked against the bounce buffer, unpacked with
//! the round's batch, and consumed. The plugin tests and consumes oldest first. Nothing is copied
//! before the check.

use std::time::Instant;

use tcpx_protocol::plans::plan::{ChunkRange, Member, Stripe};
use tcpx_protocol::plans::stripe_queue::{Finished, StripeNumber, StripeQueue};
use tcpx_protocol::types::{Direction, MemoryType, Span};
use tcpx_rx::{UnpackDescriptor, merge_neighbours};
use tcpx_sys::MAX_UNPACK_ENTRIES;

use super::batch::{Batch, BatchNumber};
use super::job::{Job, JobLabel};
use super::lost_lane::LostLane;
use super::window::{LaneStep, StepBudget, Window};
use crate::error::{Error, Result};
use crate::memory::device_memory::DeviceMemory;
use crate::plugin::comm::{NextCall, OpenComm, RecvComm, Request};
use crate::plugin::comm_label::CommLabel;
use crate::plugin::registrations::Registrations;
use crate::stats::ChannelStats;
use crate::stats::watch::checks::{PayloadWatch, SAMPLE_BYTES};
use crate::stats::watch::lane::{LaneState, LaneWatch};
use crate::types::{CommId, PeerKey};

#[derive(Clone, Copy, Debug)]
struct PostedReceive {
    request: Request,
    slot: usize,
    stripe: StripeNumber,
    range: ChunkRange,
    /// The batch that unpacks it, once it has arrived.
    batch: BatchNumber,
}

/// Chunks on their way in.
#[derive(Debug)]
pub(crate) struct RecvLane {
    pub(crate) id: CommId,
    peer: PeerKey,
    label: CommLabel,
    comm: RecvComm,
    window: Window<PostedReceive>,
    /// Bytes that one step moves.
    step_bytes: u64,
    stripes: StripeQueue,
    descriptors: Vec<UnpackDescriptor>,
    pub(crate) stats: ChannelStats,
    pub(crate) watch: LaneWatch,
    pub(crate) payload: PayloadWatch,
}

impl RecvLane {
    pub(crate) fn new(
        id: CommId,
        peer: PeerKey,
        label: CommLabel,
        comm: RecvComm,
        window: usize,
        step_bytes: u64,
    ) -> Self {
        Self {
            id,
            peer,
            label,
            comm,
            window: Window::new(window),
            step_bytes,
            stripes: StripeQueue::receiving(),
            descriptors: Vec::with_capacity(MAX_UNPACK_ENTRIES),
            stats: ChannelStats::default(),
            watch: LaneWatch::default(),
            payload: PayloadWatch::default(),
        }
    }

    pub(crate) fn push(&mut self, stripe: Stripe) {
        if let Some(credit) = self.comm.credit() {
            credit.expect(stripe.chunks_left());
        }
        self.stripes.push(stripe);
    }

    /// Takes room in the bounce buffer for what is expected, and gives back what was consumed.
    /// Returns whether the peer may send more than before; `None`: it may send any number of
    /// chunks.
    pub(crate) fn renew_credit(&mut self) -> Option<bool> {
        self.comm.credit().map(|credit| credit.renew(self.stats.chunks))
    }

    /// Returns how many chunks the peer may send, counted from the first one; `None`: any number.
    pub(crate) fn credit_limit(&mut self) -> Option<u64> {
        self.comm.credit().map(|credit| credit.limit())
    }

    /// Checks the counters.
    pub(crate) fn check(&mut self, chunk_bytes: u32, now: Instant) -> LaneState {
        if self.comm.credit().is_some_and(|credit| credit.is_withheld()) {
            // The peer sends nothing because it may not.
            self.watch.restart();
        }
        self.watch.check(self.window.sample(self.stats, chunk_bytes), now)
    }

    /// Returns the number of chunks that have arrived so far, unpacked or not.
    pub(crate) fn chunks_arrived(&self) -> u64 {
        self.stats.chunks + self.window.arrived() as u64
    }

    /// Checks whether the comm is alive, where nothing else finds out.
    pub(crate) fn check_alive_if_unknown(&mut self) -> Result<()> {
        self.comm.check_alive_if_unknown(self.window.has_posted())
    }

    /// Notes an event on one of the comm's descriptors.
    pub(crate) fn wake(&mut self) {
        self.comm.wake();
    }

    /// Returns the time at which the lane may get further: soon, where no descriptor says when a
    /// request arrives, or when the plugin takes one more.
    pub(crate) fn next_call(&self) -> NextCall {
        match self.stripes.peek().is_some() && self.window.has_room() {
            true => NextCall::Soon,
            false if self.window.has_posted() => self.comm.next_call(),
            false => NextCall::OnEvent,
        }
    }

    /// Returns whether arrived chunks hold slots until they are unpacked.
    pub(crate) fn holds_slots(&self) -> bool {
        self.window.arrived() > 0
    }

    /// Returns whether a posted receive has not arrived.
    pub(crate) fn awaits_bytes(&self) -> bool {
        self.window.has_posted()
    }

    /// Posts what the window takes and puts what has arrived into `batch`, within one step.
    pub(crate) fn progress(
        &mut self,
        registrations: &mut Registrations,
        batch: &mut Batch,
        memory: &DeviceMemory,
    ) -> Result<LaneStep> {
        let mut budget = StepBudget::new(self.step_bytes);
        let mut moved = self.post(registrations, memory)?;
        while let Some(posted) = self.window.oldest_posted() {
            if budget.is_spent() {
                return Ok(LaneStep { moved, more: true });
            }
            if !self.comm.test(posted.request)? {
                break;
            }
            let arrived = *posted;
            budget.spend(arrived.range.bytes);
            let number = self.arrived(arrived, batch, memory)?;
            if let Some(posted) = self.window.oldest_posted() {
                posted.batch = number;
            }
            self.window.arrive();
            moved = true;
        }
        Ok(LaneStep { moved, more: false })
    }

    fn post(&mut self, registrations: &mut Registrations, memory: &DeviceMemory) -> Result<bool> {
        let mut moved = false;
        while let Some((stripe, range)) = self.stripes.peek() {
            if !self.window.has_room() {
                self.stats.window_full += 1;
                break;
            }
            let Some(first) = stripe.members().first().copied() else { break };
            let place = match lie_apart(stripe.members()) {
                false => Span { address: first.span.address + range.offset, ..first.span },
                true => registrations.placeholder(memory)?.ok_or_else(|| Error::Protocol {
                    peer: self.label.peer.to_string(),
                    detail: "a chunk is for several places of host memory, beside a GPU".into(),
                })?,
            };
            // SAFETY: the registration is in use by this operation, so it stays until the operation
            // has ended; the landing's stays as long as the session. That, and the comm's close,
            // come after the answer, or `close` forgets the comm.
            let known = unsafe {
                registrations.handle(place.registration, place.address, self.id, &self.comm)
            }?;
            let Some(mhandle) = known else { break };
            // SAFETY: the span was checked against the registration, which was made for receiving;
            // the operation, and with it the memory, ends only after the request is consumed or the
            // comm is closed. Device memory of messages that share the chunk may lie elsewhere, and
            // the plugin touches none of it; the landing, which is shorter than a chunk, is device
            // memory too.
            let Some((request, slot)) =
                (unsafe { self.comm.irecv(place.address, range.bytes, first.tag, mhandle) })?
            else {
                self.stats.plugin_busy += 1;
                break;
            };
            let (stripe, batch) = (self.stripes.take(), BatchNumber::NEVER);
            self.window.post(PostedReceive { request, slot, stripe, range, batch });
            self.stats.posted(self.window.len());
            moved = true;
        }
        Ok(moved)
    }

    /// Reads, checks and queues the fragments of a chunk for unpacking. Nothing is copied unless
    /// all of it is right. Returns the batch that it has to wait for.
    fn arrived(
        &mut self,
        arrived: PostedReceive,
        batch: &mut Batch,
        memory: &DeviceMemory,
    ) -> Result<BatchNumber> {
        let PostedReceive { request, slot, stripe, range, .. } = arrived;
        let members = self.stripes.members(stripe);
        let Some(first) = members.first().copied() else { return Ok(BatchNumber::NONE) };
        self.comm.descriptors(slot, &mut self.descriptors)?;
        tracing::debug!(
            peer = %self.label.peer, channel = self.label.channel, request_ptr = ?request, idx = slot,
            cnt = self.descriptors.len(), bytes = range.bytes, "request metadata"
        );
        let is_host = first.span.memory == MemoryType::Host;
        if is_host && self.descriptors.is_empty() && !lie_apart(members) {
            self.arrived_in_place(request, first.span.address + range.offset, range.bytes)?;
            return Ok(batch.number());
        }
        let queue = self.comm.queue();
        // Entries begin in the first 4 GiB; that they end there too is what `DescriptorSplitter`
        // relies on.
        let bounce_bytes = queue.bounce_bytes().min(1 << 32);
        tcpx_rx::check(&mut self.descriptors, bounce_bytes, u64::from(range.bytes)).map_err(
            |source| Error::Fragments {
                peer: self.label.peer.to_string(),
                channel: self.label.channel,
                chunk_bytes: u64::from(range.bytes),
                source,
            },
        )?;
        if tracing::enabled!(tracing::Level::TRACE) {
            self.log_fragments(memory);
        }
        // A GPU's memory is not read for this: it would cost a copy and a wait.
        if self.payload.is_active()
            && matches!(memory, DeviceMemory::Emulated)
            && let Some(first) = self.descriptors.first()
        {
            let mut bytes = [0; SAMPLE_BYTES];
            let count = queue.probe(memory, *first, &mut bytes)?;
            self.payload.check(&bytes[..count]);
        }
        let fragments = self.descriptors.len() as u64;
        let merged = merge_neighbours(&mut self.descriptors) as u64;
        self.stats.fragments += fragments;
        self.stats.fragments_merged += merged;
        let job = Job {
            bounce: queue.bounce(),
            dst: first.span.address + range.offset,
            dst_bytes: u64::from(range.bytes),
            label: JobLabel {
                peer: self.peer,
                direction: Direction::Receive,
                channel: self.label.channel,
                registration: first.span.registration,
                tag: first.tag,
                chunk: range.number(),
            },
        };
        let number = batch.number_for(job.dst_bytes);
        match members {
            [_] => batch.push(job, self.descriptors.iter().copied()),
            _ => batch.push_messages(job, members, &self.descriptors),
        }
        Ok(number)
    }

    /// Checks a chunk of host memory that the plugin has put straight into place, at `address`:
    /// only its length is left to check, and only the plugin knows it.
    fn arrived_in_place(&mut self, request: Request, address: u64, bytes: u32) -> Result<()> {
        let received = self.comm.received_bytes(request)?;
        if received != u64::from(bytes) {
            let detail = format!("{received} bytes arrived for a chunk of {bytes}");
            return Err(Error::Protocol { peer: self.label.peer.to_string(), detail });
        }
        if self.payload.is_active() {
            let mut sample = [0; SAMPLE_BYTES];
            let count = sample.len().min(bytes as usize);
            // SAFETY: the chunk lies in registered host memory of its operation; its bytes have
            // arrived, and nothing else writes them before the operation ends.
            unsafe { DeviceMemory::Emulated.read(address, &mut sample[..count]) }?;
            self.payload.check(&sample[..count]);
        }
        Ok(())
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

    /// Returns the newest batch that unpacks a chunk of this lane, unless that batch was seen to be
    /// finished.
    pub(crate) fn newest_batch(&self) -> Option<BatchNumber> {
        self.window.newest_arrived().map(|posted| posted.batch)
    }

    /// Gives the slots of chunks whose unpack has finished back to the plugin, oldest first. They
    /// go to `done`.
    pub(crate) fn consume(
        &mut self,
        finished: BatchNumber,
        done: &mut Vec<Finished>,
    ) -> Result<bool> {
        let mut moved = false;
        while self.window.oldest_arrived().is_some_and(|posted| posted.batch <= finished) {
            let Some(PostedReceive { request, range, .. }) = self.window.finish() else { break };
            self.comm.consumed(request)?;
            self.stats.chunk(range.bytes);
            self.stripes.finish(done);
            moved = true;
        }
        Ok(moved)
    }

    /// Takes the chunks of a lane that is lost, behind its own.
    pub(crate) fn inherit(&mut self, stripes: &mut StripeQueue) {
        let chunks = stripes.move_to(&mut self.stripes);
        if let Some(credit) = self.comm.credit() {
            credit.expect(chunks);
        }
    }

    /// Ends the chunks that have arrived, without their comm, which closes: they are all unpacked.
    /// They go to `done`.
    pub(crate) fn finish_arrived(&mut self, done: &mut Vec<Finished>) {
        while self.window.oldest_arrived().is_some() {
            let Some(PostedReceive { range, .. }) = self.window.finish() else { break };
            self.stats.chunk(range.bytes);
            self.stripes.finish(done);
        }
    }

    /// Ends the lane of a channel that is lost. Returns its chunks, and its comm to be closed.
    pub(crate) fn lose(mut self, registrations: &mut Registrations) -> (LostLane, RecvComm) {
        let stripes = std::mem::replace(&mut self.stripes, StripeQueue::receiving());
        let (stats, limit) = (self.stats, self.credit_limit());
        let lost = LostLane { stripes, stats, finished: stats.chunks, limit };
        (lost, self.close(registrations))
    }

    /// Ends the lane. Its comm closes when it is dropped, and takes back what was registered on it:
    /// in that order, because a request that is still in flight uses its registration until the
    /// comm has closed.
    pub(crate) fn close(mut self, registrations: &mut Registrations) -> RecvComm {
        self.comm.keep_until_closed(registrations.forget_comm(self.id));
        self.comm
    }

    pub(crate) fn comm(&self) -> &RecvComm {
        &self.comm
    }
}

/// Returns whether a chunk of host memory has no place of its own: its messages are not one behind
/// the other.
fn lie_apart(members: &[Member]) -> bool {
    let is_host = members.first().is_some_and(|first| first.span.memory == MemoryType::Host);
    is_host && !members.windows(2).all(|pair| pair[0].is_followed_by(&pair[1]))
}
