#![allow(unsafe_code)]
//! The lane that sends.

use std::collections::VecDeque;
use std::time::Instant;

use crate::chunk::{Chunk, Deal};
use crate::comm::{Request, SendComm};
use crate::error::{Error, Result};
use crate::ledger::{Ledger, OpKey};
use crate::registration::CommId;
use crate::stats::ChannelStats;
use crate::watch::lane::{LaneSample, LaneState, LaneWatch};
use crate::window::Window;

/// Chunks on their way out.
#[derive(Debug)]
pub(crate) struct SendLane {
    pub(crate) id: CommId,
    comm: SendComm,
    window: Window<(Request, Chunk<OpKey>)>,
    waiting: VecDeque<Deal<OpKey>>,
    pub(crate) stats: ChannelStats,
    pub(crate) watch: LaneWatch,
}

impl SendLane {
    pub(crate) fn new(id: CommId, comm: SendComm, window: usize) -> Self {
        Self {
            id,
            comm,
            window: Window::new(window),
            waiting: VecDeque::new(),
            stats: ChannelStats::default(),
            watch: LaneWatch::default(),
        }
    }

    pub(crate) fn push(&mut self, deal: Deal<OpKey>) {
        self.waiting.push_back(deal);
    }

    /// One look at the counters.
    pub(crate) fn look(&mut self, chunk_bytes: u32, now: Instant) -> LaneState {
        self.watch.look(LaneSample::of(&self.window, self.stats, chunk_bytes), now)
    }

    /// Nothing in flight and nothing waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.window.len() == 0 && self.waiting.is_empty()
    }

    /// Posts what the window takes and reaps what is done. Returns whether anything moved.
    pub(crate) fn progress(&mut self, ledger: &mut Ledger) -> Result<bool> {
        let mut moved = self.post(ledger)?;
        while let Some((request, chunk)) = self.window.oldest_posted() {
            let (request, chunk) = (*request, *chunk);
            if !self.comm.test(request)? {
                break;
            }
            self.window.arrive();
            self.window.finish();
            self.stats.chunk(chunk.bytes);
            ledger.chunk_done(chunk.op, chunk.bytes);
            self.post(ledger)?;
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
            let Some(op) = ledger.ops.get(chunk.op).copied() else {
                // Failed operations end together with their comms, so this cannot happen on a live one.
                return Err(Error::Cancelled);
            };
            let address = op.span.address + chunk.offset;
            // SAFETY: the registration is in use by this operation, so it stays until the operation has ended.
            let mhandle = unsafe {
                ledger.registrations.handle(op.span.registration, address, self.id, &self.comm)
            }?;
            // SAFETY: the span was checked against the registration when it was posted; the operation, and with it the
            // registration's memory, ends only after the request is done or the comm is closed. The same holds of messages
            // that share the chunk: they lie behind it in the same registration (`run`).
            let Some(request) =
                (unsafe { self.comm.isend(address, chunk.bytes, op.tag, mhandle) })?
            else {
                self.stats.plugin_busy += 1;
                break;
            };
            deal.advance();
            self.window.post((request, chunk));
            self.stats.posted(self.window.len());
            moved = true;
        }
        Ok(moved)
    }

    /// Closes the comm, then takes back what was registered on it: in that order, because a request that is still in
    /// flight uses its registration until the comm has closed.
    pub(crate) fn close(self, ledger: &mut Ledger) {
        self.comm.close(ledger.registrations.forget_comm(self.id));
    }

    pub(crate) fn comm(&self) -> &SendComm {
        &self.comm
    }
}
