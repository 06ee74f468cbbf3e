#![allow(unsafe_code)]
//! The lane that sends.

use std::collections::VecDeque;
use std::time::Instant;

use super::gather::Gather;
use crate::error::{Error, Result};
use crate::peer::session_context::SessionContext;
use crate::plugin::comm::{Request, SendComm};
use crate::stats::channel::ChannelStats;
use crate::stats::watch::lane::{LaneState, LaneWatch};
use crate::transfer::batch::{Batch, BatchNumber};
use crate::transfer::ledger::Ledger;
use crate::transfer::staging::Staging;
use crate::transfer::stripe::{Chunk, Stripe};
use crate::transfer::window::Window;
use crate::types::{CommId, MemoryType, OpKey, RegistrationKey, Span};

/// Chunks of a message, or one that several messages share.
#[derive(Debug)]
struct Waiting {
    deal: Stripe<OpKey>,
    /// The kind of memory that it must be gathered from.
    gathered: Option<MemoryType>,
}

/// A chunk in the window.
#[derive(Clone, Copy, Debug)]
struct Posted {
    request: Request,
    chunk: Chunk<OpKey>,
    is_gathered: bool,
}

/// A chunk that is copied into a slot, or was.
#[derive(Debug)]
struct Staged {
    chunk: Chunk<OpKey>,
    slot: Span,
    /// The batch that copies it.
    batch: BatchNumber,
}

/// Chunks on their way out: waiting, then staged if they are gathered, then in the window. They leave in that order.
#[derive(Debug)]
pub(crate) struct SendLane {
    pub(crate) id: CommId,
    channel: u16,
    comm: SendComm,
    window: Window<Posted>,
    staged: VecDeque<Staged>,
    /// Gathered chunks that have not been sent: those that are staged, and some of the window.
    gathered: usize,
    waiting: VecDeque<Waiting>,
    host_staging: Option<Staging>,
    device_staging: Option<Staging>,
    gather: Gather,
    pub(crate) stats: ChannelStats,
    pub(crate) watch: LaneWatch,
}

impl SendLane {
    pub(crate) fn new(id: CommId, channel: u16, comm: SendComm, window: usize) -> Self {
        Self {
            id,
            channel,
            comm,
            window: Window::new(window),
            staged: VecDeque::with_capacity(window),
            gathered: 0,
            waiting: VecDeque::new(),
            host_staging: None,
            device_staging: None,
            gather: Gather::default(),
            stats: ChannelStats::default(),
            watch: LaneWatch::default(),
        }
    }

    /// Chunks to send. What is `gathered` needs the staging buffer of that memory.
    pub(crate) fn push(&mut self, deal: Stripe<OpKey>, gathered: Option<MemoryType>) {
        self.waiting.push_back(Waiting { deal, gathered });
    }

    /// Sees to it that there is a staging buffer for chunks gathered from `memory`, known to the comm.
    pub(crate) fn prepare_staging(
        &mut self,
        memory: MemoryType,
        chunk_bytes: u32,
        env: &SessionContext,
        ledger: &mut Ledger,
    ) -> Result<()> {
        if self.staging(memory).is_some() {
            return Ok(());
        }
        let registrations = &mut ledger.registrations;
        let slots = env.staging_slots(memory);
        let staging = Staging::new(slots, chunk_bytes, memory, &env.memory, registrations)?;
        let Span { registration, address, .. } = staging.first_slot();
        // SAFETY: the staging buffer is freed after this comm has closed.
        let known = unsafe { registrations.handle(registration, address, self.id, &self.comm) };
        if let Err(error) = known {
            registrations.remove_own(registration);
            return Err(error);
        }
        *self.staging(memory) = Some(staging);
        Ok(())
    }

    fn staging(&mut self, memory: MemoryType) -> &mut Option<Staging> {
        match memory {
            MemoryType::Host => &mut self.host_staging,
            MemoryType::Device => &mut self.device_staging,
        }
    }

    /// One look at the counters.
    pub(crate) fn look(&mut self, chunk_bytes: u32, now: Instant) -> LaneState {
        let sample = self.window.sample(self.stats, chunk_bytes);
        self.watch.look(sample.with_copied(self.staged.len()), now)
    }

    /// Nothing in flight, nothing being gathered and nothing waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.window.len() == 0 && self.staged.is_empty() && self.waiting.is_empty()
    }

    /// The newest batch that gathers a chunk of this lane, as far as it was not posted.
    pub(crate) fn newest_batch(&self) -> Option<BatchNumber> {
        self.staged.iter().map(|staged| staged.batch).max()
    }

    /// Gathers and posts what the window takes and reaps what is done. Returns whether anything moved.
    pub(crate) fn progress(&mut self, ledger: &mut Ledger, batch: &mut Batch) -> Result<bool> {
        let mut moved = self.fill(ledger, batch)?;
        while let Some(posted) = self.window.oldest_posted() {
            let Posted { request, chunk, is_gathered } = *posted;
            if !self.comm.test(request)? {
                break;
            }
            self.window.arrive();
            self.window.finish();
            self.gathered -= usize::from(is_gathered);
            self.stats.chunk(chunk.bytes);
            ledger.chunk_done(chunk.op, chunk.bytes);
            self.fill(ledger, batch)?;
            moved = true;
        }
        Ok(moved)
    }

    /// Whether there is room for one more chunk: in the window, with those counted that have their slot and will be posted,
    /// and for one that must be gathered in the staging buffer.
    fn has_room(&mut self) -> bool {
        let gathered = self.waiting.front().and_then(|waiting| waiting.gathered);
        let slots = gathered.and_then(|memory| self.staging(memory).as_ref()).map(Staging::slots);
        slots.is_none_or(|slots| self.gathered < slots)
            && self.window.len() + self.staged.len() < self.window.limit()
    }

    /// Posts what lies in one piece, and begins to gather what does not, as far as there is room.
    fn fill(&mut self, ledger: &mut Ledger, batch: &mut Batch) -> Result<bool> {
        let mut moved = self.post(ledger, batch.reached())?;
        while let Some(chunk) = self.next_waiting() {
            if !self.has_room() {
                self.stats.window_full += 1;
                break;
            }
            if !self.gather(chunk, ledger, batch)? {
                break;
            }
            self.post(ledger, batch.reached())?;
            moved = true;
        }
        Ok(moved)
    }

    /// The chunk that waits longest.
    fn next_waiting(&mut self) -> Option<Chunk<OpKey>> {
        loop {
            match self.waiting.front()?.deal.peek() {
                Some(chunk) => return Some(chunk),
                None => self.waiting.pop_front(),
            };
        }
    }

    /// Begins to gather the chunk that waits longest, if it must be.
    fn gather(&mut self, chunk: Chunk<OpKey>, ledger: &Ledger, batch: &mut Batch) -> Result<bool> {
        let Some(memory) = self.waiting.front().and_then(|waiting| waiting.gathered) else {
            return Ok(false);
        };
        // It was prepared before the chunk was dealt.
        let Some(staging) = self.staging(memory) else { return Err(Error::Cancelled) };
        let slot = staging.next_slot();
        self.waiting.pop_front();
        self.gathered += 1;
        let Chunk { op, bytes, .. } = chunk;
        // SAFETY: a run is gathered from one kind of memory, for which the slot is, and is no longer than a chunk, as a slot
        // is. Operations of a live peer end when their chunk was sent; if the peer ends before, those whose memory is read
        // and the slot stay until the batch has finished (`Peer::fail`). The staging has as many slots as may be under way
        // (`has_room`), so this one was sent.
        let batch = unsafe { self.gather.copy(op, slot, bytes, self.channel, ledger, batch) };
        self.staged.push_back(Staged { chunk, slot, batch });
        self.stats.gathered += 1;
        self.stats.gathered_bytes += u64::from(bytes);
        Ok(true)
    }

    /// Posts what batch `finished` has gathered, and what waited for it.
    pub(crate) fn post_gathered(
        &mut self,
        ledger: &mut Ledger,
        finished: BatchNumber,
    ) -> Result<bool> {
        if self.staged.is_empty() { Ok(false) } else { self.post(ledger, finished) }
    }

    /// Posts what is ready, in order: what was gathered by batch `reached`, and what lies in one piece behind it.
    fn post(&mut self, ledger: &mut Ledger, reached: BatchNumber) -> Result<bool> {
        let mut moved = false;
        while let Some((chunk, span)) = self.next_ready(ledger, reached)? {
            // SAFETY: the registration is in use by this operation, so it stays until the operation has ended; that of a slot
            // stays until the comm has closed.
            let mhandle = unsafe {
                ledger.registrations.handle(span.registration, span.address, self.id, &self.comm)
            }?;
            let tag = ledger.ops.get(chunk.op).map_or(0, |op| op.tag);
            // SAFETY: the span was checked against the registration when it was posted; the operation, and with it the
            // registration's memory, ends only after the request is done or the comm is closed. The same holds of messages
            // that share the chunk: they lie behind it in the same registration (`run`). A slot holds a chunk, is written by
            // nobody before the request is done, and is freed after the comm has closed.
            let Some(request) =
                (unsafe { self.comm.isend(span.address, chunk.bytes, tag, mhandle) })?
            else {
                self.stats.plugin_busy += 1;
                break;
            };
            let is_gathered = self.staged.pop_front().is_some();
            if !is_gathered && let Some(waiting) = self.waiting.front_mut() {
                waiting.deal.advance();
            }
            self.window.post(Posted { request, chunk, is_gathered });
            self.stats.posted(self.window.len());
            moved = true;
        }
        Ok(moved)
    }

    /// The chunk that must be posted next and where its bytes are, if they are there and the window has room.
    fn next_ready(
        &mut self,
        ledger: &Ledger,
        reached: BatchNumber,
    ) -> Result<Option<(Chunk<OpKey>, Span)>> {
        if let Some(staged) = self.staged.front() {
            let is_ready = staged.batch <= reached;
            return Ok(is_ready.then_some((staged.chunk, staged.slot)));
        }
        let Some(chunk) = self.next_waiting() else { return Ok(None) };
        if !self.window.has_room() || self.waiting.front().is_some_and(|it| it.gathered.is_some()) {
            return Ok(None);
        }
        // Failed operations end together with their comms, so it is there on a live one.
        let Some(op) = ledger.ops.get(chunk.op) else { return Err(Error::Cancelled) };
        Ok(Some((chunk, Span { address: op.span.address + chunk.offset, ..op.span })))
    }

    /// Closes the comm, then takes back what was registered on it: in that order, because a request that is still in
    /// flight uses its registration until the comm has closed. Returns the staging buffers, which the caller frees with
    /// [`Registrations::remove_own`](crate::plugin::registrations::Registrations::remove_own) when nothing writes them.
    pub(crate) fn close(
        self,
        ledger: &mut Ledger,
    ) -> impl Iterator<Item = RegistrationKey> + use<> {
        self.comm.close(ledger.registrations.forget_comm(self.id));
        let stagings = [self.host_staging, self.device_staging];
        stagings.into_iter().flatten().map(|staging| staging.registration)
    }

    pub(crate) fn comm(&self) -> &SendComm {
        &self.comm
    }
}
