#![allow(unsafe_code)]
//! The engine's part in unpacking: a batch each round, and the end after a failure.
//!
//! What is kept of a peer that ended.
//!
//! A copy that has started cannot be called back, and a comm uses memory until it is closed, which
//! a worker does (`workers`). Everything that they read or write stays as it is until
//! then. These things are *parked*:
//!
//! - the peer's receive comms, with their bounce buffers, until their chunks are unpacked;
//! - its staging buffers, until their chunks are gathered and the comms closed;
//! - its operations that had a counterpart, so that their memory may be used, until both.
//!
//! What does not finish makes nobody wait for ever: after a few seconds the operations end all the
//! same. Their registrations then stay in use, and comms and staging buffers stay what they are,
//! until it finishes after all or the process ends.
//!
//! The unpacker of a session whose unpacking has failed is kept likewise, until nothing of it is
//! under way (`unpacking`).
//!
//! What unpacks after a failure: nothing, and every call says why.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_protocol::types::Direction;
use tcpx_unpack::{Backend, Ticket, Unpack, UnpackError, UnpackJob};

use super::Engine;
use super::parked::{Parked, Verdict};
use crate::error::unpack_failure::UnpackFailure;
use crate::error::{Awaited, Error, Phase};
use crate::transfer::batch::{BatchFailure, BatchNumber};
use crate::transfer::job::JobLabel;

impl Engine {
    /// Starts unpacking what arrived in this round, and gathering what is to be sent, and says
    /// which batches have finished.
    pub(super) fn unpack_round(&mut self) -> Result<BatchNumber, BatchFailure> {
        // SAFETY: jobs are made by receive lanes from checked descriptors, and by send lanes from
        // the spans of operations and a slot of a staging buffer. Requests are consumed, slots
        // sent, and operations end, only when `finished` has reached the batch. When a peer ends
        // before, its receive comms, its staging buffers and its operations' memory are parked
        // until then.
        let is_submitted = unsafe { self.commons.batch.submit(self.unpack.as_mut()) }?;
        self.unpack_batches += u64::from(is_submitted);
        self.commons.batch.finished(self.unpack.as_mut())
    }

    /// Ends unpacking for good, since a failed unpacker does not recover, and names the chunk.
    /// Peers must end next: chunks that have arrived will never be consumed, and those that are
    /// gathered never sent. Nothing up to the batch that is returned is being unpacked any more.
    pub(super) fn stop_unpacking(&mut self, failure: BatchFailure) -> (Error, BatchNumber) {
        let error = self.name_chunk(&failure);
        tracing::error!(%error, "unpacking stopped");
        let is_stall = matches!(failure.source, UnpackError::Cuda(CudaError::Stalled { .. }));
        let backend = self.unpack.backend();
        let stopped = Box::new(Stopped { backend, failure: failure.source.without_job() });
        let mut unpack = std::mem::replace(&mut self.unpack, stopped);
        self.commons.batch.abandon();
        let reached = self.commons.batch.reached();
        if is_stall {
            self.leave_stuck(unpack);
            return (error, reached);
        }
        // After a second failure the first one's copies may still be under way.
        if self.ending.is_none() {
            if unpack.shutdown() {
                self.commons.workers.close(unpack);
                self.commons.batch.all_finished();
            } else {
                self.ending = Some(unpack);
            }
        }
        (error, self.commons.batch.reached())
    }

    /// Asks an unpacker that has failed whether anything of it is still under way. What was parked
    /// because of it ends with that. Returns whether it has.
    pub(super) fn settle_unpacker(&mut self) -> bool {
        let Some(unpack) = self.ending.take_if(|unpack| unpack.shutdown()) else { return false };
        self.commons.workers.close(unpack);
        self.commons.batch.all_finished();
        true
    }

    /// Nobody can say when what is under way ends: neither it nor its memory is touched again, and
    /// nothing is freed that might wait for it.
    fn leave_stuck(&mut self, unpack: Box<dyn Unpack>) {
        std::mem::forget(unpack);
        self.is_stuck = true;
        self.commons.workers.abandon();
        self.parked.iter_mut().for_each(Parked::never_ends);
        // What needs no unpacking goes on.
        self.commons.batch.all_finished();
    }

    /// Lets go of the unpackers without waiting for them, or freeing what they use.
    pub(super) fn leave_unpackers(&mut self) {
        let mut unpack = self.take_unpacker();
        if self.unpack_tells {
            // Its threads end when they have copied what is under way.
            unpack.shutdown();
        }
        std::mem::forget(unpack);
        std::mem::forget(self.ending.take());
    }

    /// Takes the unpacker out, at the end.
    pub(super) fn take_unpacker(&mut self) -> Box<dyn Unpack> {
        let stopped = Stopped { backend: self.unpack.backend(), failure: UnpackError::ShutDown };
        std::mem::replace(&mut self.unpack, Box::new(stopped))
    }

    fn name_chunk(&self, failure: &BatchFailure) -> Error {
        let Some(job) = &failure.suspect else { return failure.source.clone().into() };
        let JobLabel { peer, direction, channel, registration, tag, chunk } = job.label;
        let peer = self.peers.get(peer);
        Error::UnpackFailed(Arc::new(UnpackFailure {
            is_send: direction == Direction::Send,
            peer: peer.map(|peer| peer.name().to_string()).unwrap_or_default(),
            channel,
            registration: self.commons.ledger.registrations.id_of(registration),
            tag,
            chunk,
            chunk_bytes: job.dst_bytes,
            others: failure.others,
            source: failure.source.clone(),
        }))
    }

    /// Puts another unpacker in the place of the session's.
    #[cfg(all(test, feature = "soft"))]
    pub(crate) fn unpack_with(&mut self, unpack: impl FnOnce(Box<dyn Unpack>) -> Box<dyn Unpack>) {
        let failure = CudaError::NoDriver.into();
        let nothing = Box::new(Stopped { backend: self.unpack.backend(), failure });
        self.unpack = unpack(std::mem::replace(&mut self.unpack, nothing));
        self.unpack_tells = self.unpack.on_finished(Box::new(self.commons.session.poller.waker()));
    }
}

impl Engine {
    /// Ends what is parked and done with by now, and what has waited for too long. Returns whether
    /// anything moved.
    pub(super) fn settle_parked(&mut self, now: Instant) -> bool {
        let mut moved = self.settle_unpacker();
        for index in (0..self.parked.len()).rev() {
            let reached = self.commons.batch.reached();
            let ledger = &mut self.commons.ledger;
            match self.parked[index].look(reached, now) {
                Verdict::Copied => self.parked[index].close_lanes(ledger, &self.commons.workers),
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
    pub(crate) fn is_settled(&self) -> bool {
        self.parked.is_empty() && self.ending.is_none()
    }

    /// Peers that ended and whose memory copies still use, or something else for too long.
    pub(super) fn peers_parked(&self) -> usize {
        let reached = self.commons.batch.reached();
        self.parked.iter().filter(|parked| parked.is_held(reached)).count()
    }

    /// Whether nothing is parked but what waits for copies that nobody waits for any more.
    pub(crate) fn is_settled_or_given_up(&self) -> bool {
        let reached = self.commons.batch.reached();
        self.parked.iter().all(|parked| parked.is_given_up_copying(reached))
    }

    /// What is said of the parked when the session closes.
    pub(crate) fn unsettled(&self, waited: Duration) -> Error {
        let reached = self.commons.batch.reached();
        let of_peer = |parked: &Parked| format!("{}: {}", parked.name, parked.waits_for(reached));
        let peers: Vec<String> = self.parked.iter().map(of_peer).collect();
        let detail = format!(
            "peers that ended still use memory ({}); memory registered for receiving from them or \
             sending to them must stay as it is",
            peers.join(", ")
        );
        Error::Deadline { phase: Phase::Unpack, peer: None, waited, detail: Awaited::words(detail) }
    }
}

pub(super) struct Stopped {
    pub(super) backend: Backend,
    pub(super) failure: UnpackError,
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
