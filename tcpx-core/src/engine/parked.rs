//! What is left of one peer that ended while chunks of it were being unpacked, or gathered.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::peer::commons::Ledger;
use crate::peer::leftover::Leftover;
use crate::peer::protocol::operation::{NewOperation, Operation};
use crate::plugin::comm::{MemoryHandle, Registrar};
use crate::transfer::batch::BatchNumber;
use crate::types::peer_name::PeerName;
use crate::types::{CommId, RegistrationKey};

/// How long the operations of a peer that ended wait for unpacks that write their memory, and
/// gathers that read it.
pub(crate) const UNPACK_TIMEOUT: Duration = Duration::from_secs(5);

/// What is left of one peer.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) name: PeerName,
    /// Why the peer ended.
    error: Error,
    leftover: Leftover,
    parked_at: Option<Instant>,
    /// Registrations of operations that have ended although their memory may still be used.
    held: Option<Vec<RegistrationKey>>,
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing touches its memory any more.
    Finished,
    /// It has waited too long: its operations end.
    Overdue,
    /// It goes on waiting.
    Waits,
}

impl Parked {
    pub(super) fn new(name: PeerName, error: Error, leftover: Leftover) -> Self {
        Self { name, error, leftover, parked_at: None, held: None }
    }

    /// Nobody can say any more when its batch ends.
    pub(super) fn never_ends(&mut self) {
        self.leftover.until = BatchNumber::NEVER;
    }

    /// Whether its operations have ended, and only memory waits.
    pub(super) fn has_given_up(&self) -> bool {
        self.held.is_some()
    }

    /// What has become of it, when batches up to `reached` have finished.
    pub(super) fn look(&mut self, reached: BatchNumber, now: Instant) -> Verdict {
        let since = *self.parked_at.get_or_insert(now);
        let until = self.leftover.until;
        let is_late = now.saturating_duration_since(since) >= UNPACK_TIMEOUT;
        if until <= reached {
            Verdict::Finished
        } else if !self.has_given_up() && (until == BatchNumber::NEVER || is_late) {
            Verdict::Overdue
        } else {
            Verdict::Waits
        }
    }

    /// Ends everything: nothing touches its memory any more.
    pub(super) fn end(mut self, ledger: &mut Ledger) {
        self.end_operations(ledger);
        let registrations = &mut ledger.registrations;
        self.leftover.lanes.into_iter().for_each(|lane| lane.close(registrations));
        for staging in self.leftover.stagings {
            registrations.remove_own(staging);
        }
        if let Some(held) = self.held {
            tracing::warn!(peer = %self.name, "unpacking has ended after all; its memory is free");
            held.into_iter().for_each(|key| registrations.end(key));
        }
    }

    /// Ends its operations, and keeps their memory.
    pub(super) fn give_up_waiting(&mut self, ledger: &mut Ledger) {
        let registration = |operation: &Operation| operation.posted.span.registration;
        let held: Vec<_> = self.leftover.operations.iter().map(registration).collect();
        held.iter().for_each(|key| ledger.registrations.begin(*key));
        tracing::error!(
            peer = %self.name, error = %self.error, operations = held.len(),
            channels = self.leftover.lanes.len(),
            "chunks of a peer that ended are still being unpacked or gathered; its comms and \
             registrations stay as they are"
        );
        self.held = Some(held);
        self.end_operations(ledger);
    }

    fn end_operations(&mut self, ledger: &mut Ledger) {
        for operation in self.leftover.operations.drain(..) {
            let NewOperation { transfer, direction, span, .. } = operation.posted;
            ledger.failed(transfer, span.registration, self.error.seen_by(direction));
        }
    }

    /// Takes a registration's handle back from the lane that gave it out. False when none of these
    /// has.
    pub(super) fn deregister(&self, comm: CommId, handle: MemoryHandle) -> bool {
        let lane = self.leftover.lanes.iter().find(|lane| lane.id == comm);
        lane.inspect(|lane| lane.comm().deregister(handle)).is_some()
    }
}
