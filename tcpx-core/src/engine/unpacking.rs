#![allow(unsafe_code)]
//! The engine's part in unpacking: a batch each round, and the end after a failure.

use std::sync::Arc;

use tcpx_cuda::CudaError;
use tcpx_protocol::types::Direction;
use tcpx_unpack::{Unpack, UnpackError};

use super::Engine;
use super::parked::Parked;
use super::stopped::Stopped;
use crate::error::Error;
use crate::error::unpack_failure::UnpackFailure;
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
