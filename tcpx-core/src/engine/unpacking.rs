#![allow(unsafe_code)]
//! The engine's part in unpacking: a batch each round, the wait before memory is let go, and the end after a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tcpx_cuda::CudaError;
use tcpx_unpack::{Backend, Ticket, Unpack, UnpackError, UnpackJob};

use super::Engine;
use crate::batch::{BatchFailure, BatchNumber};
use crate::error::Error;
use crate::unpack_failure::UnpackFailure;

/// How long the end of a peer waits for unpacks that still read its bounce buffer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

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
}

impl Engine {
    /// Starts unpacking what arrived in this round, and says which batches have finished.
    pub(super) fn unpack_round(&mut self) -> Result<BatchNumber, BatchFailure> {
        self.unpack_batches += u64::from(self.batch.jobs() > 0);
        // SAFETY: jobs are made by receive lanes from checked descriptors. Their requests are consumed, and their
        // operations end, only when `finished` has reached the batch, or when a peer ends, which waits for it first.
        unsafe { self.batch.submit(self.unpack.as_mut()) }?;
        self.batch.finished(self.unpack.as_mut())
    }

    /// Waits until nothing is being unpacked. If that does not come about, unpacking stops for good, and the error is
    /// every peer's.
    pub(super) fn drain_unpacks(&mut self) -> Option<Error> {
        let start = Instant::now();
        // SAFETY: as in `unpack_round`; what was collected for a peer that ends is still valid, its comms are open.
        let mut outcome = unsafe { self.batch.submit(self.unpack.as_mut()) };
        while outcome.is_ok() && self.batch.is_unpacking() {
            outcome = self.batch.finished(self.unpack.as_mut()).map(|_| ());
            let waited = start.elapsed();
            if outcome.is_ok() && self.batch.is_unpacking() && waited > DRAIN_TIMEOUT {
                let source = CudaError::Stalled { waited_ms: waited.as_millis() as u64 };
                outcome = Err(self.batch.under_way_failed(source.into()));
            }
            std::thread::yield_now();
        }
        outcome.err().map(|failure| self.stop_unpacking(failure))
    }

    /// Ends unpacking for good, since a failed unpacker does not recover, and names the chunk. Peers must end next: chunks
    /// that have arrived will never be consumed.
    pub(super) fn stop_unpacking(&mut self, failure: BatchFailure) -> Error {
        let error = self.name_chunk(&failure);
        tracing::error!(%error, "unpacking stopped");
        let backend = self.unpack.backend();
        // The old one's drop waits, for a bounded time, for what still reads bounce pages and writes destinations.
        self.unpack = Box::new(Stopped { backend, failure: failure.source.without_job() });
        self.batch.abandon();
        error
    }

    fn name_chunk(&self, failure: &BatchFailure) -> Error {
        let suspect =
            failure.suspect.and_then(|job| Some((job, self.ledger.ops.get(job.op).copied()?)));
        let Some((job, op)) = suspect else { return failure.source.clone().into() };
        let peer = self.peers.get(op.peer);
        let whole = peer.map_or(0, |peer| u64::from(peer.chunk_bytes()));
        Error::UnpackFailed(Arc::new(UnpackFailure {
            peer: peer.map(|peer| peer.name().to_string()).unwrap_or_default(),
            channel: job.channel,
            registration: self.ledger.registrations.id_of(op.span.registration).unwrap_or(0),
            tag: op.tag,
            chunk: job.offset / whole.max(1),
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
    }
}
