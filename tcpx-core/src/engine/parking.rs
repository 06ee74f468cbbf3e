//! Peers that ended while chunks of theirs were being unpacked, or gathered. A copy or kernel that was started cannot be
//! called back: until it has finished, the bounce buffer and the destinations stay what they are, and so do scattered sends
//! and the staging buffer that they are copied to.
//!
//! Such a peer's receive comms, or its staging buffers, whose send comms are closed, and the operations whose memory is
//! written or read are parked, and end with the batch. If that does not come, the operations end all the same, so that
//! nobody waits for ever; their registrations stay in use, and comms and staging buffers what they are, until the batch
//! finishes after all or the process ends.

use std::time::{Duration, Instant};

use super::Engine;
use crate::error::{Error, Phase};
use crate::peer::Leftover;
use crate::plugin::comm::{MemoryHandle, Registrar};
use crate::transfer::batch::BatchNumber;
use crate::transfer::ledger::Ledger;
use crate::types::peer_name::PeerName;
use crate::types::{CommId, PeerKey, RegistrationKey};

/// How long the operations of a peer that ended wait for unpacks that write their memory, and gathers that read it.
pub(crate) const UNPACK_TIMEOUT: Duration = Duration::from_secs(5);

/// What is left of one peer.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) name: PeerName,
    pub(super) peer: PeerKey,
    /// Why the peer ended.
    pub(super) error: Error,
    pub(super) leftover: Leftover,
    parked_at: Option<Instant>,
    /// Registrations of operations that have ended although their memory may still be used.
    held: Option<Vec<RegistrationKey>>,
}

impl Parked {
    pub(super) fn new(name: PeerName, peer: PeerKey, error: Error, leftover: Leftover) -> Self {
        Self { name, peer, error, leftover, parked_at: None, held: None }
    }

    /// Ends everything: nothing touches its memory any more.
    fn end(self, ledger: &mut Ledger) {
        self.leftover.lanes.into_iter().for_each(|lane| lane.close(ledger));
        for staging in self.leftover.stagings {
            ledger.registrations.remove_own(staging);
        }
        ledger.end_of_peer(self.peer, &self.error, |_| true);
        if let Some(held) = self.held {
            tracing::warn!(peer = %self.name, "unpacking has ended after all; its memory is free");
            held.into_iter().for_each(|key| ledger.registrations.end(key));
        }
    }

    /// Ends its operations, and keeps their memory.
    fn give_up_waiting(&mut self, ledger: &mut Ledger) {
        let held = ledger.hold_memory(self.peer);
        tracing::error!(
            peer = %self.name, error = %self.error, operations = held.len(), channels = self.leftover.lanes.len(),
            "chunks of a peer that ended are still being unpacked or gathered; its comms and registrations stay as they are"
        );
        self.held = Some(held);
        ledger.end_of_peer(self.peer, &self.error, |_| true);
    }

    fn deregister(&self, comm: CommId, handle: MemoryHandle) -> bool {
        let lane = self.leftover.lanes.iter().find(|lane| lane.id == comm);
        lane.inspect(|lane| lane.comm().deregister(handle)).is_some()
    }
}

impl Engine {
    /// Ends what is parked and unpacked by now, and what has waited for too long. Returns whether anything ended.
    pub(super) fn settle_parked(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for index in (0..self.parked.len()).rev() {
            let parked = &mut self.parked[index];
            let since = *parked.parked_at.get_or_insert(now);
            let until = parked.leftover.until;
            if until <= self.batch.reached() {
                self.parked.swap_remove(index).end(&mut self.ledger);
                moved = true;
            } else if parked.held.is_none()
                && (until == BatchNumber::NEVER
                    || now.saturating_duration_since(since) >= UNPACK_TIMEOUT)
            {
                parked.give_up_waiting(&mut self.ledger);
                moved = true;
            }
        }
        moved
    }

    /// Takes a registration's handle back from the parked comm that gave it out.
    pub(super) fn deregister_parked(parked: &[Parked], comm: CommId, handle: MemoryHandle) -> bool {
        parked.iter().any(|parked| parked.deregister(comm, handle))
    }

    /// Whether nothing of a peer that ended is left.
    pub(crate) fn is_settled(&self) -> bool {
        self.parked.is_empty()
    }

    /// Whether nothing parked waits for anything but its unpack.
    pub(crate) fn is_settled_or_given_up(&self) -> bool {
        self.parked.iter().all(|parked| parked.held.is_some())
    }

    /// What is said of the parked when the session closes.
    pub(crate) fn unsettled(&self, waited: Duration) -> Error {
        let names: Vec<&str> = self.parked.iter().map(|parked| parked.name.as_str()).collect();
        let detail = format!(
            "chunks of peers that ended are still being unpacked or gathered: {}; memory registered for receiving from them \
             or sending to them must stay as it is",
            names.join(", ")
        );
        Error::Deadline { phase: Phase::Unpack, peer: None, waited, detail }
    }
}
