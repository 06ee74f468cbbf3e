//! What every peer of a session reads and writes.

use std::sync::Arc;

use tcpx_protocol::exports::table::Exports;
use tcpx_protocol::plans::pieces::Pieces;
use tcpx_protocol::types::memory_id::MemoryId;
use tcpx_protocol::types::{RegistrationKey, TransferKey};

use super::session_context::SessionContext;
use crate::completions::notification_queue::NotificationQueue;
use crate::error::Error;
use crate::plugin::registrations::Registrations;
use crate::transfer::batch::Batch;
use crate::transfer::staging_pool::StagingPool;
use crate::transfer::transfers::Transfers;
use crate::workers::Workers;

/// Handed to a peer while it is driven.
#[derive(Debug)]
pub(crate) struct Commons {
    pub(crate) session: SessionContext,
    pub(crate) ledger: Ledger,
    pub(crate) batch: Batch,
    pub(crate) workers: Workers,
}

/// The session's books: transfers, the memory that their operations use, what of it peers may
/// reach, and that in which operations are gathered.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) transfers: Transfers,
    pub(crate) registrations: Registrations,
    pub(crate) exports: Exports,
    pub(crate) staging: StagingPool,
    /// What peers have to say to the program.
    pub(crate) notifications: Arc<NotificationQueue>,
}

impl Ledger {
    /// Operations that use a registration: posted by the program, or asked for by peers.
    pub(crate) fn uses(&self, id: MemoryId) -> usize {
        self.registrations.operations(id) + self.exports.active_of(id)
    }

    /// An operation has ended whose memory is these pieces: it is not used any more.
    pub(crate) fn listed_ended(
        &mut self,
        transfer: TransferKey,
        pieces: &Pieces,
        outcome: Result<(), Error>,
    ) {
        for owner in pieces.owners() {
            self.registrations.end(*owner);
        }
        match outcome {
            Ok(()) => self.transfers.done(transfer),
            Err(error) => self.transfers.failed(transfer, || error),
        }
    }

    /// An operation is done: its memory is not used any more.
    pub(crate) fn done(&mut self, transfer: TransferKey, registration: RegistrationKey) {
        self.registrations.end(registration);
        self.transfers.done(transfer);
    }

    /// An operation has failed: its memory is not used any more.
    pub(crate) fn failed(
        &mut self,
        transfer: TransferKey,
        registration: RegistrationKey,
        error: Error,
    ) {
        self.failed_with(transfer, registration, || error);
    }

    /// The same, with an error that is made only if the transfer has none.
    pub(crate) fn failed_with(
        &mut self,
        transfer: TransferKey,
        registration: RegistrationKey,
        error: impl FnOnce() -> Error,
    ) {
        self.registrations.end(registration);
        self.transfers.failed(transfer, error);
    }
}
