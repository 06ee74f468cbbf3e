#![allow(unsafe_code)]
//! Unpacking by the engine: a batch each round, the end after a failure, and the remains of ended
//! peers. `failing`: errors and messages about these.
//!
//! A started copy cannot be called back, and a comm uses memory until a worker has closed it
//! (`workers`). All memory that they read or write stays as it is until then. These things are
//! *lingering* (`lingering`):
//!
//! - the peer's receive comms, with their bounce buffers, until their chunks are unpacked;
//! - its staging buffers, until their chunks are gathered and the comms closed;
//! - its operations that had a counterpart, so that their memory may be used, until both.
//!
//! A copy that does not finish does not block a program for ever: after a few seconds the
//! operations end all the same. Their registrations then stay in use. Comms and staging buffers
//! stay as they are, until the copy finishes after all or the process ends.
//!
//! The unpacker of a session whose unpacking has failed is kept likewise, until none of its copies
//! is under way.

mod failing;
mod lingering;

use std::time::Instant;

use tcpx_cuda::CudaError;
use tcpx_protocol::frames::conn_info::SessionId;
use tcpx_protocol::types::RegistrationKey;
use tcpx_unpack::{Backend, OpenedBackend, Ticket, Unpack, UnpackError, UnpackJob};

use self::lingering::{LingerState, LingeringPeer};
use crate::error::Error;
use crate::peer::Peer;
use crate::peer::ending::Leftover;
use crate::peer::resources::Resources;
use crate::plugin::comm::ReturnedHandles;
use crate::transfer::batch::{Batch, BatchFailure, BatchNumber};

pub(crate) use lingering::UNPACK_TIMEOUT;

/// Unpacker of a session, and what waits for it.
pub(super) struct Unpacking {
    unpack: Box<dyn Unpack>,
    /// Whether the unpacker wakes the leading thread when something has finished, so that no round
    /// has to poll it.
    tells: bool,
    /// Unpacker before this one, which has failed and may still be copying.
    ending: Option<Box<dyn Unpack>>,
    why: String,
    batches: u64,
    /// Whether unpacking has stopped with copies under way whose end will not be seen.
    is_stuck: bool,
    lingering: Vec<LingeringPeer>,
}

impl Unpacking {
    /// `tells`: whether the unpacker wakes the thread that leads.
    pub(super) fn new(opened: OpenedBackend, tells: bool) -> Self {
        let (unpack, why) = (opened.unpack, opened.why);
        Self {
            unpack,
            tells,
            ending: None,
            why,
            batches: 0,
            is_stuck: false,
            lingering: Vec::new(),
        }
    }

    pub(super) fn backend(&self) -> Backend {
        self.unpack.backend()
    }

    /// Returns why this unpacker was chosen.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// Returns the number of batches so far.
    pub(super) fn batches(&self) -> u64 {
        self.batches
    }

    /// Starts unpacking what arrived in this round, and gathering what will be sent. Returns which
    /// batches have finished.
    pub(super) fn round(&mut self, batch: &mut Batch) -> Result<BatchNumber, BatchFailure> {
        // SAFETY: receive lanes make jobs from checked descriptors, and send lanes make them from
        // the spans of operations and a slot of a staging buffer. Requests are consumed, slots
        // sent, and operations end, only when `finished` has reached the batch. When a peer ends
        // before, its receive comms, its staging buffers and its operations' memory linger
        // until then.
        let is_submitted = unsafe { batch.submit(self.unpack.as_mut()) }?;
        self.batches += u64::from(is_submitted);
        batch.finished(self.unpack.as_mut())
    }

    /// Ends unpacking for good, since a failed unpacker does not recover. Nothing up to the
    /// returned batch is being unpacked any more.
    fn stop(&mut self, failure: UnpackError, cx: &mut Resources) -> BatchNumber {
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

    /// Takes the unpacker out. Later calls of its replacement fail with this error.
    fn replace(&mut self, failure: UnpackError) -> Box<dyn Unpack> {
        let stopped = StoppedUnpacker { backend: self.unpack.backend(), failure };
        std::mem::replace(&mut self.unpack, Box::new(stopped))
    }

    /// Leaves an unpacker whose copies have no known end: neither the copies nor their memory are
    /// touched again, and nothing is freed that might wait for them.
    fn leave_stuck(&mut self, unpack: Box<dyn Unpack>, cx: &mut Resources) {
        std::mem::forget(unpack);
        self.is_stuck = true;
        cx.workers.abandon();
        self.lingering.iter_mut().for_each(LingeringPeer::never_ends);
        // Work that needs no unpacking goes on.
        cx.batch.all_finished();
    }

    /// Polls a failed unpacker for copies that are still under way. Remains that lingered for
    /// them end with them. Returns whether it has ended.
    fn check_unpacker(&mut self, cx: &mut Resources) -> bool {
        let Some(unpack) = self.ending.take_if(|unpack| unpack.shutdown()) else { return false };
        cx.workers.close(unpack);
        cx.batch.all_finished();
        true
    }

    /// Lets go of everything without waiting for it, or freeing what it uses.
    pub(super) fn leave(&mut self) {
        std::mem::forget(std::mem::take(&mut self.lingering));
        let mut unpack = self.take();
        if self.tells {
            // Its threads end when they have finished the copies under way.
            unpack.shutdown();
        }
        std::mem::forget(unpack);
        std::mem::forget(self.ending.take());
    }

    /// Takes the unpacker out, at the end.
    pub(super) fn take(&mut self) -> Box<dyn Unpack> {
        self.replace(UnpackError::ShutDown)
    }

    /// Returns whether unpacking has stopped with copies under way whose end will not be seen.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Returns whether rounds have to poll its progress.
    #[inline]
    pub(super) fn is_to_be_asked(&self, batch: &Batch) -> bool {
        let is_at_work = batch.is_unpacking() || batch.is_refused() || self.ending.is_some();
        is_at_work && !self.tells
    }
}

/// Lingering remains.
impl Unpacking {
    /// Keeps the remains of an ended peer until nothing uses them.
    pub(super) fn linger(&mut self, peer: &Peer, error: Error, leftover: Leftover) {
        let mut remains = LingeringPeer::new(peer, error, leftover);
        if self.is_stuck {
            remains.never_ends();
        }
        self.lingering.push(remains);
    }

    /// Ends lingering remains that are free by now, and those that have waited for too long.
    /// Returns whether anything moved.
    pub(super) fn settle(&mut self, now: Instant, cx: &mut Resources) -> bool {
        let mut moved = self.check_unpacker(cx);
        for index in (0..self.lingering.len()).rev() {
            let reached = cx.batch.reached();
            let ledger = &mut cx.ledger;
            match self.lingering[index].check(reached, now) {
                LingerState::Copied => self.lingering[index].close_lanes(ledger, &cx.workers),
                LingerState::Finished => self.lingering.swap_remove(index).end(ledger),
                LingerState::Overdue => self.lingering[index].give_up_waiting(ledger, reached),
                LingerState::LeftBehind => {
                    let peer = self.lingering.swap_remove(index).name;
                    tracing::error!(%peer, "comms of a peer that ended do not close: they are left behind");
                }
                LingerState::Waits => continue,
            }
            moved = true;
        }
        moved
    }

    /// Returns whether no remains of ended peers are left.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.lingering.is_empty() && self.ending.is_none()
    }

    /// Returns the number of peers with remains.
    #[inline]
    pub(super) fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Returns the number of ended peers whose memory is in use by copies, or for too long by
    /// something else.
    pub(super) fn held(&self, reached: BatchNumber) -> usize {
        self.lingering.iter().filter(|peer| peer.is_held(reached)).count()
    }

    /// Returns whether all lingering remains wait only for copies that no operation waits for.
    fn is_given_up(&self, reached: BatchNumber) -> bool {
        self.lingering.iter().all(|peer| peer.is_given_up_copying(reached))
    }

    /// Returns whether bytes that this session was writing on an ended connection may still land.
    /// Until they cannot, the session is neither reached nor taken in: such bytes would land on
    /// later writes of the session.
    pub(super) fn is_written_by(&self, session: &SessionId) -> bool {
        self.lingering.iter().any(|peer| peer.is_written_by(session))
    }

    /// Takes handles of a registration back from lingering comms.
    pub(super) fn take_back(&self, handles: &mut ReturnedHandles) {
        self.lingering.iter().for_each(|peer| peer.take_back(handles));
    }

    /// Returns the peers that use a registration, and what they wait for.
    pub(super) fn holders(&self, key: RegistrationKey, reached: BatchNumber) -> Vec<String> {
        let holds = self.lingering.iter().filter(|peer| peer.holds(key));
        holds.map(|it| format!("peer {}: {}", it.name, it.waits_for(reached))).collect()
    }
}

/// Unpacker after a failure: it unpacks nothing, and every call returns the reason.
struct StoppedUnpacker {
    backend: Backend,
    failure: UnpackError,
}

impl Unpack for StoppedUnpacker {
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
