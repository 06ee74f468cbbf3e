#![allow(unsafe_code)]
//! Lane that sends the chunks of one comm.
//!
//! Host memory is gathered at once, and device memory with the round's batch. Chunks leave in the
//! order in which they were planned, so one behind a chunk that is being gathered waits.

use std::collections::VecDeque;
use std::time::Instant;

use smallvec::SmallVec;
use tcpx_protocol::plans::plan::Stripe;
use tcpx_protocol::plans::stripe_queue::{Finished, StripeQueue};
use tcpx_protocol::types::{Direction, MemoryType, RegistrationKey, Span};

use super::batch::{Batch, BatchNumber};
use super::gather::Gather;
use super::job::JobLabel;
use super::lane_stagings::LaneStagings;
use super::lost_lane::LostLane;
use super::staging_pool::{StagingPool, StagingRequest};
use super::window::{LaneStep, StepBudget, Window};
use crate::error::{Error, Result};
use crate::plugin::comm::{NextCall, OpenComm, Request, SendComm};
use crate::plugin::registrations::Registrations;
use crate::stats::ChannelStats;
use crate::stats::tcp::TcpStats;
use crate::stats::watch::lane::{LaneState, LaneWatch};
use crate::types::{CommId, PeerKey};

/// A chunk in the window.
#[derive(Clone, Copy, Debug)]
struct PostedSend {
    request: Request,
    bytes: u32,
    is_gathered: bool,
}

/// A chunk that is copied into a slot, or was.
#[derive(Clone, Copy, Debug)]
struct StagedChunk {
    bytes: u32,
    tag: i64,
    slot: Span,
    /// The batch that copies it.
    batch: BatchNumber,
}

/// Chunks on their way out: waiting, then staged if they are gathered, then in the window. They
/// leave in that order.
#[derive(Debug)]
pub(crate) struct SendLane {
    pub(crate) id: CommId,
    peer: PeerKey,
    channel: u16,
    comm: SendComm,
    window: Window<PostedSend>,
    staged: VecDeque<StagedChunk>,
    /// Gathered chunks that have not been sent: those that are staged, and some of the window.
    gathered: usize,
    /// Bytes that one step moves.
    step_bytes: u64,
    stripes: StripeQueue,
    /// Number of chunks that the peer has room for, counted from the first one.
    credit: u64,
    /// Number of chunks that the peer has unpacked, where chunks are kept until then.
    unpacked: u64,
    /// Number of chunks that have finished.
    finished: u64,
    stagings: LaneStagings,
    gather: Gather,
    pub(crate) stats: ChannelStats,
    pub(crate) watch: LaneWatch,
}

impl SendLane {
    pub(crate) fn new(
        id: CommId,
        peer: PeerKey,
        channel: u16,
        comm: SendComm,
        window: usize,
        step_bytes: u64,
    ) -> Self {
        Self {
            id,
            peer,
            channel,
            comm,
            window: Window::new(window),
            staged: VecDeque::with_capacity(window),
            gathered: 0,
            step_bytes,
            stripes: StripeQueue::sending(channel),
            credit: u64::MAX,
            unpacked: u64::MAX,
            finished: 0,
            stagings: LaneStagings::default(),
            gather: Gather::default(),
            stats: ChannelStats::default(),
            watch: LaneWatch::default(),
        }
    }

    /// Queues chunks to send. Those that are gathered need the staging buffer of their memory.
    pub(crate) fn push(&mut self, stripe: Stripe) {
        self.stripes.push(stripe);
    }

    /// Sets the credit: the peer has room for this many chunks, counted from the first one.
    pub(crate) fn set_credit(&mut self, chunks: u64) {
        self.credit = chunks;
    }

    /// Notes that the peer has unpacked this many chunks, counted from the first one. Those behind
    /// these are kept until it has.
    pub(crate) fn set_unpacked(&mut self, chunks: u64) {
        self.unpacked = chunks;
    }

    /// Takes the chunks of a lane that is lost, behind its own.
    pub(crate) fn inherit(&mut self, stripes: &mut StripeQueue) {
        stripes.move_to(&mut self.stripes);
    }

    /// Ends the chunks that were sent, and unpacked where that counts. Returns whether any has.
    fn finish_sent(&mut self, done: &mut Vec<Finished>) -> bool {
        let until = self.stats.chunks.min(self.unpacked);
        let moved = self.finished < until;
        while self.finished < until {
            self.finished += 1;
            self.stripes.finish(done);
        }
        moved
    }

    /// Requests a staging buffer for chunks gathered from one kind of memory. Returns false if
    /// there is none. Otherwise [`poll_staging`](Self::poll_staging) says whether the comm takes
    /// it.
    pub(crate) fn prepare_staging(
        &mut self,
        request: StagingRequest<'_>,
        pool: &mut StagingPool,
        registrations: &mut Registrations,
    ) -> bool {
        self.stagings.request(pool.take(request, registrations))
    }

    /// Returns the kind of memory for which the lane has a staging buffer now, or will have none,
    /// after it was asked for.
    pub(crate) fn poll_staging(
        &mut self,
        pool: &mut StagingPool,
        registrations: &mut Registrations,
    ) -> Option<(MemoryType, bool)> {
        self.stagings.poll(pool, registrations, (self.id, &self.comm))
    }

    /// Checks the counters.
    pub(crate) fn check(&mut self, chunk_bytes: u32, now: Instant) -> LaneState {
        let sample = self.window.sample(self.stats, chunk_bytes);
        self.watch.check(sample.with_copied(self.staged.len()), now)
    }

    /// Checks whether the comm is alive, where nothing else finds out.
    pub(crate) fn check_alive_if_unknown(&mut self) -> Result<()> {
        self.comm.check_alive_if_unknown(self.window.has_posted())
    }

    /// Notes an event on one of the comm's descriptors.
    pub(crate) fn wake(&mut self) {
        self.comm.wake();
    }

    /// Returns the figures of the comm's connections.
    pub(crate) fn tcp_stats(&self) -> TcpStats {
        self.comm.tcp_stats()
    }

    /// Returns the time at which the lane may get further: soon, where no descriptor says when a
    /// request is sent, or when the plugin takes one more.
    pub(crate) fn next_call(&self) -> NextCall {
        let is_in_one_piece = self.stripes.peek().is_some_and(|(it, _)| it.gathered.is_none());
        let wants_post = is_in_one_piece && self.window.has_room() && self.has_credit();
        match wants_post && self.staged.is_empty() {
            true => NextCall::Soon,
            false if self.window.has_posted() => self.comm.next_call(),
            false => NextCall::OnEvent,
        }
    }

    /// Returns whether chunks are being gathered.
    pub(crate) fn is_gathering(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Returns whether a staging buffer was asked for and is not known yet.
    pub(crate) fn awaits_staging(&self) -> bool {
        self.stagings.requested().next().is_some()
    }

    /// Returns whether nothing is in flight, being gathered or waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.stripes.is_empty()
    }

    /// Returns the newest batch that gathers a chunk of this lane, unless the chunk was posted.
    pub(crate) fn newest_batch(&self) -> Option<BatchNumber> {
        self.staged.iter().map(|staged| staged.batch).max()
    }

    /// Gathers and posts what the window takes and reaps what is sent, which goes to `done`, within
    /// one step.
    pub(crate) fn progress(
        &mut self,
        registrations: &mut Registrations,
        batch: &mut Batch,
        done: &mut Vec<Finished>,
    ) -> Result<LaneStep> {
        let mut budget = StepBudget::new(self.step_bytes);
        let mut moved = self.finish_sent(done) | self.fill(registrations, batch)?;
        while let Some(posted) = self.window.oldest_posted() {
            if budget.is_spent() {
                return Ok(LaneStep { moved, more: true });
            }
            if !self.comm.test(posted.request)? {
                break;
            }
            self.window.arrive();
            if let Some(PostedSend { bytes, is_gathered, .. }) = self.window.finish() {
                self.gathered -= usize::from(is_gathered);
                budget.spend(bytes);
                self.stats.chunk(bytes);
                self.finish_sent(done);
            }
            self.fill(registrations, batch)?;
            moved = true;
        }
        Ok(LaneStep { moved, more: false })
    }

    /// Returns whether there is room for one more chunk that is gathered from this memory, or not
    /// gathered: in the window, with those counted that have their slot and will be posted, and in
    /// the staging buffer.
    fn has_room(&mut self, gathered: Option<MemoryType>) -> bool {
        let slots = gathered.and_then(|memory| self.stagings.of(memory)).map(|it| it.slots());
        slots.is_none_or(|slots| self.gathered < slots)
            && self.window.len() + self.staged.len() < self.window.limit()
    }

    /// Returns whether the peer has room for one more chunk than those that were posted or will be.
    fn has_credit(&self) -> bool {
        self.stats.posts + (self.staged.len() as u64) < self.credit
    }

    /// Posts what lies in one piece, and begins to gather what does not, while there is room.
    fn fill(&mut self, registrations: &mut Registrations, batch: &mut Batch) -> Result<bool> {
        let mut moved = self.post(registrations, batch.reached())?;
        while let Some((stripe, _)) = self.stripes.peek() {
            let gathered = stripe.gathered;
            if !self.has_room(gathered) {
                self.stats.window_full += 1;
                break;
            }
            if !self.has_credit() {
                self.stats.credit_waits += 1;
                break;
            }
            let Some(memory) = gathered else { break };
            self.gather(memory, registrations, batch)?;
            self.post(registrations, batch.reached())?;
            moved = true;
        }
        Ok(moved)
    }

    /// Begins to gather the chunk that waits longest, which is in this kind of memory.
    fn gather(
        &mut self,
        memory: MemoryType,
        registrations: &Registrations,
        batch: &mut Batch,
    ) -> Result<()> {
        // The staging was prepared before the chunk was planned.
        let Some(staging) = self.stagings.of(memory) else { return Err(Error::Cancelled) };
        let slot = staging.next_slot();
        let Some((stripe, range)) = self.stripes.peek() else { return Ok(()) };
        let members = stripe.members();
        let label = JobLabel {
            peer: self.peer,
            direction: Direction::Send,
            channel: self.channel,
            registration: slot.registration,
            tag: 0,
            chunk: 0,
        };
        // SAFETY: what shares a chunk is gathered from one kind of memory, for which the slot is,
        // and is no longer than a chunk, as a slot is. Operations of a live peer end when their
        // chunk was sent; if the peer ends before, those whose memory is read and the slot stay
        // until the batch has finished (`engine::unpacking::lingering`). The staging has as many
        // slots as may be under way (`has_room`), so this one was sent.
        let batch = unsafe { self.gather.copy(members, slot, label, registrations, batch) };
        let tag = members.first().map_or(0, |first| first.tag);
        self.stripes.take();
        self.gathered += 1;
        self.stats.gathered += 1;
        self.stats.gathered_bytes += u64::from(range.bytes);
        self.staged.push_back(StagedChunk { bytes: range.bytes, tag, slot, batch });
        Ok(())
    }

    /// Posts what is ready, in order: what was gathered by batch `reached`, and what lies in one
    /// piece behind it.
    pub(crate) fn post(
        &mut self,
        registrations: &mut Registrations,
        reached: BatchNumber,
    ) -> Result<bool> {
        let mut moved = false;
        while let Some((span, bytes, tag)) = self.next_ready(reached) {
            // SAFETY: the registration is in use by this operation, so it stays until the operation
            // has ended; that of a slot stays until the comm has closed. Both come after the
            // answer, or `close` forgets the comm.
            let known = unsafe {
                registrations.handle(span.registration, span.address, self.id, &self.comm)
            }?;
            let Some(mhandle) = known else { break };
            // SAFETY: the span was checked against the registration when it was posted; the
            // operation, and with it the registration's memory, ends only after the request is done
            // or the comm is closed. The same holds of messages that share the chunk: they lie
            // behind it in the same registration, or are gathered. A slot holds a chunk, is not
            // written before the request is done, and is freed after the comm has closed.
            let Some(request) = (unsafe { self.comm.isend(span.address, bytes, tag, mhandle) })?
            else {
                self.stats.plugin_busy += 1;
                break;
            };
            let is_gathered = self.staged.pop_front().is_some();
            if !is_gathered {
                self.stripes.take();
            }
            self.window.post(PostedSend { request, bytes, is_gathered });
            self.stats.posted(self.window.len());
            moved = true;
        }
        Ok(moved)
    }

    /// Returns the place of the bytes of the chunk that must be posted next, their number, and its
    /// tag, if they are there and the window has room.
    fn next_ready(&self, reached: BatchNumber) -> Option<(Span, u32, i64)> {
        if let Some(StagedChunk { bytes, tag, slot, batch }) = self.staged.front() {
            return (*batch <= reached).then_some((*slot, *bytes, *tag));
        }
        let (first, range, gathered) = self.stripes.peek_first()?;
        if gathered.is_some() || !self.window.has_room() || !self.has_credit() {
            return None;
        }
        let span = Span { address: first.span.address + range.offset, ..first.span };
        Some((span, range.bytes, first.tag))
    }

    /// Ends the lane of a channel that is lost. Returns its chunks, the kinds of memory for which a
    /// staging buffer was asked for and is not known yet, and what [`close`](Self::close) returns.
    pub(crate) fn lose(
        mut self,
        registrations: &mut Registrations,
    ) -> (LostLane, SmallVec<[MemoryType; 2]>, (SendComm, Vec<RegistrationKey>)) {
        let stripes = std::mem::replace(&mut self.stripes, StripeQueue::sending(self.channel));
        let (stats, finished, limit) = (self.stats, self.finished, Some(self.unpacked));
        let requested = self.stagings.requested().collect();
        let (comm, stagings) = self.close(registrations);
        (LostLane { stripes, stats, finished, limit }, requested, (comm, stagings.collect()))
    }

    /// Ends the lane. Its comm closes when it is dropped, and takes back what was registered on it:
    /// in that order, because a request that is still in flight uses its registration until the
    /// comm has closed. The staging buffers are the caller's to give back, with
    /// [`StagingPool::give_back`](super::staging_pool::StagingPool::give_back), when the comm has
    /// closed and nothing writes them.
    pub(crate) fn close(
        mut self,
        registrations: &mut Registrations,
    ) -> (SendComm, impl Iterator<Item = RegistrationKey> + use<>) {
        self.comm.keep_until_closed(registrations.forget_comm(self.id));
        (self.comm, self.stagings.into_registrations())
    }

    pub(crate) fn comm(&self) -> &SendComm {
        &self.comm
    }
}
