//! Failure of unpacking, with the chunk that failed; and messages about remains that do not end.

use std::sync::Arc;
use std::time::Duration;

#[cfg(all(test, feature = "soft"))]
use tcpx_cuda::CudaError;
use tcpx_protocol::types::Direction;
#[cfg(all(test, feature = "soft"))]
use tcpx_unpack::Unpack;

use super::lingering::LingeringPeer;
#[cfg(all(test, feature = "soft"))]
use super::{StoppedUnpacker, Unpacking};
use crate::engine::Engine;
use crate::error::unpack_failure::UnpackFailure;
use crate::error::{Awaited, Error, Phase};
use crate::transfer::batch::{BatchFailure, BatchNumber};
use crate::transfer::job::JobLabel;

impl Engine {
    /// Ends unpacking for good, and names the chunk. Peers must end next: chunks that have arrived
    /// will never be consumed, and gathered chunks never sent.
    pub(in crate::engine) fn stop_unpacking(
        &mut self,
        failure: BatchFailure,
    ) -> (Error, BatchNumber) {
        let error = self.name_chunk(&failure);
        tracing::error!(%error, "unpacking stopped");
        let reached = self.unpacking.stop(failure.source, &mut self.resources);
        (error, reached)
    }

    fn name_chunk(&self, failure: &BatchFailure) -> Error {
        let Some(job) = &failure.suspect else { return failure.source.clone().into() };
        let JobLabel { peer, direction, channel, registration, tag, chunk } = job.label;
        let peer = self.peers.get(peer);
        Error::UnpackFailed(Arc::new(UnpackFailure {
            is_send: direction == Direction::Send,
            peer: peer.map(|peer| peer.name().to_string()).unwrap_or_default(),
            channel,
            registration: self.resources.ledger.registrations.id_of(registration),
            tag,
            chunk,
            chunk_bytes: job.dst_bytes,
            others: failure.others,
            source: failure.source.clone(),
        }))
    }

    /// Returns whether no remains of ended peers are left.
    pub(crate) fn is_settled(&self) -> bool {
        self.unpacking.is_settled()
    }

    /// Returns whether all lingering remains wait only for copies that no operation waits for.
    pub(crate) fn is_settled_or_given_up(&self) -> bool {
        self.unpacking.is_given_up(self.resources.batch.reached())
    }

    /// Returns the error about lingering remains when the session closes.
    pub(crate) fn unsettled(&self, waited: Duration) -> Error {
        let reached = self.resources.batch.reached();
        let of_peer = |peer: &LingeringPeer| format!("{}: {}", peer.name, peer.waits_for(reached));
        let peers: Vec<String> = self.unpacking.lingering.iter().map(of_peer).collect();
        let detail = format!(
            "peers that ended still use memory ({}); memory registered for receiving from them or \
             sending to them must stay as it is",
            peers.join(", ")
        );
        Error::Deadline { phase: Phase::Unpack, peer: None, waited, detail: Awaited::words(detail) }
    }

    /// Copies short messages on the link to and from device memory, as for a GPU.
    #[cfg(all(test, feature = "soft"))]
    pub(crate) fn copy_on_link(&mut self) {
        self.resources.session.copies_on_link = true;
    }

    /// Replaces the session's unpacker.
    #[cfg(all(test, feature = "soft"))]
    pub(crate) fn unpack_with(&mut self, unpack: impl FnOnce(Box<dyn Unpack>) -> Box<dyn Unpack>) {
        let Unpacking { unpack: place, tells, .. } = &mut self.unpacking;
        let failure = CudaError::NoDriver.into();
        let nothing = Box::new(StoppedUnpacker { backend: place.backend(), failure });
        *place = unpack(std::mem::replace(place, nothing));
        *tells = place.on_finished(Box::new(self.resources.session.poller.waker()));
    }
}
