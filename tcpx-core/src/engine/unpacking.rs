#![allow(unsafe_code)]
//! The engine's part in unpacking: a batch each round, the end after a failure, and what is kept of
//! a peer that ended. `failing`: what the engine says of these.
//!
//! A copy that has started cannot be called back, and a comm uses memory until it is closed, which
//! a worker does (`workers`). Everything that they read or write stays as it is until then. These
//! things are *parked* (`parked`):
//!
//! - the peer's receive comms, with their bounce buffers, until their chunks are unpacked;
//! - its staging buffers, until their chunks are gathered and the comms closed;
//! - its operations that had a counterpart, so that their memory may be used, until both.
//!
//! What does not finish keeps no program waiting for ever: after a few seconds the operations end
//! all the same. Their registrations then stay in use, and comms and staging buffers stay what they
//! are, until it finishes after all or the process ends.
//!
//! The unpacker of a session whose unpacking has failed is kept likewise, until nothing of it is
//! under way.

mod failing;
mod parked;

use std::time::Instant;

use tcpx_cuda::CudaError;
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::types::RegistrationKey;
use tcpx_unpack::{Backend, Opened, Ticket, Unpack, UnpackError, UnpackJob};

use self::parked::{Parked, Verdict};
use crate::error::Error;
use crate::peer::Peer;
use crate::peer::commons::Commons;
use crate::peer::ending::Leftover;
use crate::plugin::comm::ReturnedHandles;
use crate::transfer::batch::{Batch, BatchFailure, BatchNumber};

pub(crate) use parked::UNPACK_TIMEOUT;

/// A session's unpacker, and what waits for it.
pub(super) struct Unpacking {
    unpack: Box<dyn Unpack>,
    /// It wakes the thread that leads when something has finished, so that no round has to ask it.
    tells: bool,
    /// The one before, which has failed and may still be copying.
    ending: Option<Box<dyn Unpack>>,
    why: String,
    batches: u64,
    /// It has stopped with copies under way that will not be seen to finish.
    is_stuck: bool,
    parked: Vec<Parked>,
}

impl Unpacking {
    /// `tells`: whether the unpacker wakes the thread that leads.
    pub(super) fn new(opened: Opened, tells: bool) -> Self {
        let (unpack, why) = (opened.unpack, opened.why);
        Self { unpack, tells, ending: None, why, batches: 0, is_stuck: false, parked: Vec::new() }
    }

    pub(super) fn backend(&self) -> Backend {
        self.unpack.backend()
    }

    /// Why it is this one.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// Batches so far.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// Starts unpacking what arrived in this round, and gathering what is to be sent, and says
    /// which batches have finished.
    pub(super) fn round(&mut self, batch: &mut Batch) -> Result<BatchNumber, BatchFailure> {
        // SAFETY: jobs are made by receive lanes from checked descriptors, and by send lanes from
        // the spans of operations and a slot of a staging buffer. Requests are consumed, slots
        // sent, and operations end, only when `finished` has reached the batch. When a peer ends
        // before, its receive comms, its staging buffers and its operations' memory are parked
        // until then.
        let is_submitted = unsafe { batch.submit(self.unpack.as_mut()) }?;
        self.batches += u64::from(is_submitted);
        batch.finished(self.unpack.as_mut())
    }

    /// Ends unpacking for good, since a failed unpacker does not recover. Nothing up to the batch
    /// that is returned is being unpacked any more.
    fn stop(&mut self, failure: UnpackError, cx: &mut Commons) -> BatchNumber {
        let is_stall = matches!(failure, UnpackError::Cuda(CudaError::Stalled { .. }));
        let mut unpack = self.replace(failure.without_job());
        cx.batch.abandon();
        let reached = cx.batch.reached();
        if is_stall {
            self.leave_stuck(unpack, cx);
            return reached;
        }
        // After a second failure the first one's copies may still be under way.
        if self.ending.is_none() {
            if unpack.shutdown() {
                cx.workers.close(unpack);
                cx.batch.all_finished();
            } else {
                self.ending = Some(unpack);
            }
        }
        cx.batch.reached()
    }

    /// Takes the unpacker out. What is asked of its place later fails so.
    fn replace(&mut self, failure: UnpackError) -> Box<dyn Unpack> {
        let stopped = Stopped { backend: self.unpack.backend(), failure };
        std::mem::replace(&mut self.unpack, Box::new(stopped))
    }

    /// Nobody can say when what is under way ends: neither it nor its memory is touched again, and
    /// nothing is freed that might wait for it.
    fn leave_stuck(&mut self, unpack: Box<dyn Unpack>, cx: &mut Commons) {
        std::mem::forget(unpack);
        self.is_stuck = true;
        cx.workers.abandon();
        self.parked.iter_mut().for_each(Parked::never_ends);
        // What needs no unpacking goes on.
        cx.batch.all_finished();
    }

    /// Asks an unpacker that has failed whether anything of it is still under way. What was parked
    /// because of it ends with that. Returns whether it has.
    fn settle_unpacker(&mut self, cx: &mut Commons) -> bool {
        let Some(unpack) = self.ending.take_if(|unpack| unpack.shutdown()) else { return false };
        cx.workers.close(unpack);
        cx.batch.all_finished();
        true
    }

    /// Lets go of everything without waiting for it, or freeing what it uses.
    pub(super) fn leave(&mut self) {
        std::mem::forget(std::mem::take(&mut self.parked));
        let mut unpack = self.take();
        if self.tells {
            // Its threads end when they have copied what is under way.
            unpack.shutdown();
        }
        std::mem::forget(unpack);
        std::mem::forget(self.ending.take());
    }

    /// Takes the unpacker out, at the end.
    pub(super) fn take(&mut self) -> Box<dyn Unpack> {
        self.replace(UnpackError::ShutDown)
    }

    /// Whether it has stopped with copies under way that will not be seen to finish.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Whether rounds have to ask how far it is.
    #[inline]
    pub(super) fn is_to_be_asked(&self, batch: &Batch) -> bool {
        let is_at_work = batch.is_unpacking() || batch.is_refused() || self.ending.is_some();
        is_at_work && !self.tells
    }
}

/// What is parked.
impl Unpacking {
    /// Keeps what is left of a peer that ended.
    pub(super) fn park(&mut self, peer: &Peer, error: Error, leftover: Leftover) {
        let mut parked = Parked::new(peer, error, leftover);
        if self.is_stuck {
            parked.never_ends();
        }
        self.parked.push(parked);
    }

    /// Ends what is parked and done with by now, and what has waited for too long. Returns whether
    /// anything moved.
    pub(super) fn settle(&mut self, now: Instant, cx: &mut Commons) -> bool {
        let mut moved = self.settle_unpacker(cx);
        for index in (0..self.parked.len()).rev() {
            let reached = cx.batch.reached();
            let ledger = &mut cx.ledger;
            match self.parked[index].look(reached, now) {
                Verdict::Copied => self.parked[index].close_lanes(ledger, &cx.workers),
                Verdict::Finished => self.parked.swap_remove(index).end(ledger),
                Verdict::Overdue => self.parked[index].give_up_waiting(ledger, reached),
                Verdict::LeftBehind => {
                    let peer = self.parked.swap_remove(index).name;
                    tracing::error!(%peer, "comms of a peer that ended do not close: they are left behind");
                }
                Verdict::Waits => continue,
            }
            moved = true;
        }
        moved
    }

    /// Whether nothing of a peer that ended is left.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.parked.is_empty() && self.ending.is_none()
    }

    /// Returns how many peers have left something.
    #[inline]
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Peers that ended and whose memory copies still use, or something else for too long.
    pub(super) fn held(&self, reached: BatchNumber) -> usize {
        self.parked.iter().filter(|parked| parked.is_held(reached)).count()
    }

    /// Whether nothing is parked but what waits for copies that no operation waits for.
    fn is_given_up(&self, reached: BatchNumber) -> bool {
        self.parked.iter().all(|parked| parked.is_given_up_copying(reached))
    }

    /// Whether bytes that this session was writing on a connection that is over may still land.
    /// Until it is sure that they cannot, the session is neither reached nor taken in: they would
    /// land on what it writes later.
    pub(super) fn is_written_by(&self, session: &SessionId) -> bool {
        self.parked.iter().any(|parked| parked.is_written_by(session))
    }

    /// Takes handles of a registration back from comms that are parked.
    pub(super) fn take_back(&self, handles: &mut ReturnedHandles) {
        self.parked.iter().for_each(|parked| parked.take_back(handles));
    }

    /// The peers that use a registration, and what they wait for.
    pub(super) fn holders(&self, key: RegistrationKey, reached: BatchNumber) -> Vec<String> {
        let holds = self.parked.iter().filter(|parked| parked.holds(key));
        holds.map(|it| format!("peer {}: {}", it.name, it.waits_for(reached))).collect()
    }
}

/// What unpacks after a failure: nothing, and every call says why.
struct Stopped {
    backend: Backend,
    failure: UnpackError,
}

impl Unpack for Stopped {
    fn backend(&self) -> Backend {
        self.backend
    }

    unsafe fn submit(&mut self, _: &[UnpackJob<'_>]) -> Result<Ticket, UnpackError> {
        Err(self.failure.clone())
    }

    fn poll(&mut self) -> Result<Ticket, UnpackError> {
        Err(self.failure.clone())
    }

    fn shutdown(&mut self) -> bool {
        true
    }
}
